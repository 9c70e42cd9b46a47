//! Every test of the servers but the flood, which measures its process. One program: each is linked
//! with two engines.
#![allow(clippy::unwrap_used, clippy::panic)]

mod about;
mod access;
mod api;
mod apis;
mod bodies;
mod chaos;
mod common;
mod document;
mod judging;
mod limits;
mod load;
mod logs;
mod mixed;
mod operations;
mod pairs;
mod scripted;
mod serial;
mod several;
mod structured;
mod tls;
mod tools;
