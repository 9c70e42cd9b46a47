//! Whether a cloud can be asked, in a word that users are shown.

use serde::Serialize;

/// Whether asks will be answered, as far as is known without asking: the first ask loads the model, it is
/// being loaded, it is ready, or it did not answer when it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CloudState {
    /// The model is in this process, and the first ask loads it.
    NotLoaded,
    /// The model is in this process, and asks wait until it is loaded.
    Loading,
    /// It answered, or its model is loaded.
    Ready,
    /// It did not answer when it was last asked.
    Unreachable,
}
