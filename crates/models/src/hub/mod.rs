//! Models from the Hugging Face hub, kept in the hub's own cache so that other programs share them.
//!
//! - [`name`]: `hf:OWNER/REPO[:SELECTOR]`; [`mod@choose`]: which files of a repository that means
//! - [`access`]: endpoint, token and timeout, from the hub's own environment variables
//! - [`cache`]: the hub's cache on this machine, and the models in it
//! - `client`: the hub's HTTP routes; `blob`: downloads, resumes and checks one file
//! - [`mod@pull`]: downloads a whole model; `record`: remembers what was downloaded, so that
//!   [`mod@remove`] deletes nothing else

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
