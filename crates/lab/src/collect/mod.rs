//! What a router learns from.
//!
//! - [`sample`]: what is kept of one position, and files of many
//! - [`collection`]: a folder of such files
//! - [`traffic`]: a folder that grows with live use

pub mod collection;
pub mod sample;
pub mod traffic;

pub use collection::{Collection, CollectionError, CollectionInfo};
pub use sample::{Label, LabelSource, Sample, SampleError};
