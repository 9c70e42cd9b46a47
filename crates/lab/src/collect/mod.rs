//! What a router learns from.
//!
//! - [`mod@run`]: both models over worked answers, in the order `labels`, `rollout`, `joint`
//! - [`sample`]: what is kept of one position, and files of many
//! - [`collection`]: a folder of such files, with its [`rounds`]; [`traffic`]: one that grows with live
//!   use
//! - [`live`]: the collector that a cloud hands live use to

pub mod collection;
mod joint;
mod labels;
pub mod live;
mod rollout;
pub mod rounds;
pub mod run;
pub mod sample;
pub mod traffic;

pub use collection::{Collection, CollectionError, CollectionInfo};
pub use live::TrafficCollector;
pub use rounds::{Round, RoundInfo};
pub use run::{CollectConfig, Collected, LabelRule, collect};
pub use sample::{Label, LabelSource, Sample, SampleError};
