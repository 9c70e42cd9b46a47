//! Models from the Hugging Face hub, kept in the hub's own cache so that other programs share them.
//!
//! - [`name`]: `hf:OWNER/REPO[:SELECTOR]`; [`mod@choose`]: which files of a repository that means
//! - [`access`]: endpoint, token and deadline, from the hub's own environment variables
//! - [`cache`]: where the files are on this machine, and which models are among them
//! - `client`: the hub's routes; `blob`: one file fetched, resumed and checked
//! - [`mod@pull`]: a whole model fetched; `record`: what was, so that [`mod@remove`] takes no more

pub mod access;
mod blob;
pub mod cache;
pub mod choose;
mod client;
pub mod error;
pub mod name;
pub mod pull;
mod record;
pub mod remove;

pub use access::Access;
pub use cache::Cache;
pub use error::HubError;
pub use name::Name;
pub use pull::pull;
pub use remove::remove;
