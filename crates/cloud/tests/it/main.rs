//! The client of clouds, against servers that are made up here.
#![allow(clippy::unwrap_used, clippy::panic)]

mod campaign;
mod chaos;
mod common;
mod dialects;
mod judging;
mod misbehaviour;
mod sequences;
mod serial;
mod several;
mod share;
mod tls;
