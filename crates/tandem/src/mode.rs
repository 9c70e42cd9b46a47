//! Who writes a text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Who writes a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The small model alone.
    Small,
    /// The small model, and the large one where the router asks it.
    #[default]
    Joint,
    /// The large model alone. The small one is not even loaded for it.
    Large,
}

impl Mode {
    /// The usual one first.
    pub const ALL: [Self; 3] = [Self::Joint, Self::Small, Self::Large];

    /// As users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Joint => "joint",
            Self::Large => "large",
        }
    }

    /// The name that stands for it where an API asks for a model.
    pub fn model(self) -> &'static str {
        match self {
            Self::Small => "tandem-small",
            Self::Joint => "tandem-joint",
            Self::Large => "tandem-large",
        }
    }

    /// The mode that such a name stands for.
    pub fn of(model: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.model() == model)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no mode: write small, joint or large"))
    }
}
