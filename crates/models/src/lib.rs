//! Model files on this machine.
//!
//! - [`catalog`]: the models with a name, the hashes of their files, and the pairs they form
//! - [`home`]: the folder of model files, and what is in it
//! - [`mod@pull`]: downloading them, from the hub or with the machine's own `pip`; `partial` is a
//!   download under way
//! - [`mod@remove`]: deleting them
//! - [`hub`]: models from the Hugging Face hub
//! - [`preset`]: folders of adapters and routers for one kind of question
//! - [`digest`]: SHA-256 of files
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

pub use catalog::{Catalog, CatalogError, Entry, Role};
pub use home::{Environment, Home, HomeError, LocalModel};
pub use hub::HubError;
pub use preset::{Preset, PresetError};
pub use pull::{Event, Hub, PullError, pull, pull_library};
pub use remove::remove;
