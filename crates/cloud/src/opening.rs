//! What a cloud is told at the beginning.

use std::{fmt, sync::Arc};

use decode::{Token, Vocabulary};
use engine::Grammar;

use crate::protocol::Prompt;

/// How a conversation begins, on both sides.
#[derive(Clone, Debug)]
pub struct Opening {
    pub prompt: Prompt,
    /// The edge; `None` where the cloud writes alone.
    pub edge: Option<EdgeSide>,
    /// The messages in the template the user named for the cloud, if any.
    pub rendered: Option<String>,
    /// The form that the text is held to. Only Tandem's own cloud is told.
    pub grammar: Option<Grammar>,
}

impl Opening {
    pub fn alone(prompt: Prompt) -> Self {
        Self { prompt, edge: None, rendered: None, grammar: None }
    }
}

/// What a cloud is compared with.
#[derive(Clone)]
pub struct EdgeSide {
    pub vocabulary: Arc<dyn Vocabulary>,
    /// The prompt in the edge's own template.
    pub prompt: Vec<Token>,
    /// [`probe_messages`](crate::probe_messages) in the edge's own template.
    pub probe: Vec<Token>,
}

impl EdgeSide {
    /// Ids as people read them, special tokens included.
    pub(crate) fn spelled(&self, ids: &[Token]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.vocabulary.spell(id)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl fmt::Debug for EdgeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeSide").field("prompt", &self.prompt.len()).finish_non_exhaustive()
    }
}
