//! The real models: an edge on this machine, and a cloud wherever it is.

use cloud::{
    EdgeSide, Opening, Remote, Settings, probe_messages,
    protocol::{EdgeModel, Prompt},
};
use decode::{Message, Token};
use engine::{EngineError, Model, Sequence};

use super::pair::{Introduction, Pair, Seat};
use crate::http::ApiError;

/// Renders messages in the template that was named for the cloud.
type Render = dyn Fn(&[Message]) -> Result<String, String> + Send + Sync;

/// A small and a large model.
pub struct Models {
    edge: Model,
    /// `None` where no cloud may be asked.
    cloud: Option<Settings>,
    /// The edge, if a cloud that collects is offered what it sees.
    shares: Option<EdgeModel>,
    render: Option<Box<Render>>,
}

impl Models {
    /// An edge that has room for every seat, and a cloud.
    pub fn new(edge: Model, cloud: Option<Settings>) -> Self {
        Self { edge, cloud, shares: None, render: None }
    }

    /// Offers what the edge sees to a cloud that collects.
    pub fn sharing(self, edge: EdgeModel) -> Self {
        Self { shares: Some(edge), ..self }
    }

    /// The template the cloud's prompts are rendered in, where the cloud does not apply its own.
    pub fn with_template(
        self,
        render: impl Fn(&[Message]) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self { render: Some(Box::new(render)), ..self }
    }
}

/// What an edge tells a cloud of itself and of a prompt in its own tokens.
pub fn edge_side(edge: &Model, prompt: Vec<Token>) -> EdgeSide {
    let vocabulary = edge.vocabulary().clone();
    // A template may refuse the probe; then it is no cloud's.
    let probe = vocabulary.prompt(&probe_messages()).unwrap_or_default();
    EdgeSide { vocabulary, prompt, probe }
}

impl Pair for Models {
    type Edge = Sequence;
    type Cloud = Remote;

    fn has_cloud(&self) -> bool {
        self.cloud.is_some()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, ApiError> {
        let vocabulary = self.edge.vocabulary();
        match prompt {
            Prompt::Messages(messages) => {
                vocabulary.prompt(messages).map_err(|error| match error {
                    // The template's own words: it was given something it was not made for.
                    EngineError::Template { .. } => {
                        ApiError::invalid(error.to_string()).param("messages")
                    }
                    other => ApiError::internal(&other),
                })
            }
            Prompt::Text(text) => Ok(vocabulary.raw_prompt(text)),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
        }
    }

    async fn open(
        &self,
    ) -> Result<Seat<Sequence, Remote>, Box<dyn std::error::Error + Send + Sync>> {
        let opening = Opening::alone(Prompt::Messages(vec![]));
        let mut cloud = match &self.cloud {
            Some(settings) => Remote::new(settings.clone(), opening)?,
            None => Remote::offline(opening),
        };
        if let Some(edge) = &self.shares {
            cloud.share(edge.clone());
        }
        Ok(Seat { edge: self.edge.open().await?, cloud })
    }

    fn introduce(
        &self,
        seat: &mut Seat<Sequence, Remote>,
        introduction: Introduction<'_>,
    ) -> Result<(), ApiError> {
        let Introduction { prompt, edge, on_error } = introduction;
        let edge = edge.map(|tokens| edge_side(&self.edge, tokens.to_vec()));
        let rendered = match (&self.render, prompt) {
            (Some(render), Prompt::Messages(messages)) => Some(render(messages)),
            _ => None,
        };
        let refused = |e| ApiError::invalid(format!("the cloud's chat template: {e}"));
        let rendered = rendered.transpose().map_err(refused)?;
        seat.cloud.set_on_error(on_error);
        seat.cloud.reopen(Opening { prompt: prompt.clone(), edge, rendered });
        Ok(())
    }

    async fn close(&self, cloud: &mut Remote) {
        cloud.close().await;
    }
}
