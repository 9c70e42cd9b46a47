//! The modes: which models write a text.

use std::{fmt, str::FromStr};

use decode::Sampling;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Said where mode verify is to draw tokens.
const NOT_GREEDY: &str = "mode verify draws nothing: it needs a temperature of 0 and no penalties";

/// Said where mode verify is to hold a text to a form.
const NO_FORM: &str = "mode verify writes the large model's own text: for a schema, a grammar, tools \
                       or logit_bias use joint or large";

/// Which models write a text: the small one alone, both, the large one alone, or the large one judging the
/// small one's drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The small model alone.
    Small,
    /// The small model, and the large one where the router asks it.
    #[default]
    Joint,
    /// The large model alone. The small one is not even loaded for it.
    Large,
    /// The small model drafts, and the large one judges every token of the draft in one pass: the text
    /// is the large model's, at fewer of its passes.
    Verify,
}

impl Mode {
    /// All modes, the default one first.
    pub const ALL: [Self; 4] = [Self::Joint, Self::Small, Self::Large, Self::Verify];

    /// Whether a share of tokens from the cloud bounds what such a text has of it. Where the text is
    /// the large model's own, everything in it is the cloud's, or was judged by it.
    pub fn heeds_share(self) -> bool {
        matches!(self, Self::Small | Self::Joint)
    }

    /// The name that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Joint => "joint",
            Self::Large => "large",
            Self::Verify => "verify",
        }
    }

    /// The name of the mode in OpenAI's API, which names models.
    pub fn model(self) -> &'static str {
        match self {
            Self::Small => "tandem-small",
            Self::Joint => "tandem-joint",
            Self::Large => "tandem-large",
            Self::Verify => "tandem-verify",
        }
    }

    /// Whether texts of this mode can be sampled so, and held to a form or biased if that is wanted.
    pub fn check(self, sampling: &Sampling, form: bool) -> Result<(), Error> {
        match self {
            Self::Verify if !sampling.is_greedy() => Err(Error::Usage(NOT_GREEDY.into())),
            Self::Verify if form => Err(Error::Usage(NO_FORM.into())),
            _ => Ok(()),
        }
    }

    /// The mode of such a name.
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
        found.ok_or_else(|| format!("{text:?} is not a mode: write small, joint, large or verify"))
    }
}
