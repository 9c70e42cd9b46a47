//! Having a given text judged: to label it, or instead of asking for it.

use std::time::Instant;

use decode::{Ask, CloudError, Judgement};
use tokio::time::timeout;

use super::{Client, Remote, lock};
use crate::protocol::{Piece, ScoredToken};

impl Remote {
    /// What the cloud thinks of a continuation, for every token of it, in one prefill. `accepted`
    /// is what stands before it.
    pub async fn score(
        &self,
        accepted: Ask<'_>,
        continuation: Piece,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        let deadline = self.settings()?.deadline;
        match (self.client().await?, continuation) {
            (Client::Tandem(client), piece) => {
                Ok(client.score(&accepted, piece, deadline).await?.tokens)
            }
            (Client::Engine(client), Piece::Ids(ids)) => {
                client.score(accepted.tokens, &ids, deadline).await
            }
            (Client::Engine(client), Piece::Text(_)) => Err(CloudError::Unsupported {
                engine: client.connection.dialect.engine().title(),
                what: "can label only where ids travel",
            }),
        }
    }

    /// Whether one judgement costs this cloud less than an ask for each of its places.
    pub(crate) fn judges(&self) -> bool {
        match &*lock(&self.state.client) {
            Some(Client::Tandem(client)) => client.judges_asks(),
            Some(Client::Engine(client)) => client.connection.dialect.judges_asks(),
            None => false,
        }
    }

    pub(crate) async fn judge_patiently(
        &self,
        ask: Ask<'_>,
        draft: &Piece,
    ) -> Result<Judgement, CloudError> {
        loop {
            self.admit().await?;
            let begun = Instant::now();
            let tried = self.judge_once(ask, draft.clone()).await;
            if let Some(judgement) = self.settle(begun, tried).await {
                return judgement;
            }
        }
    }

    async fn judge_once(&self, ask: Ask<'_>, draft: Piece) -> Result<Judgement, CloudError> {
        let settings = self.settings()?;
        let (after, url) = (settings.deadline, settings.target.to_string());
        let probing = lock(&self.breaker).is_probing();
        let judgement = timeout(after, async {
            if !self.is_open() {
                self.open_again().await?;
            } else if probing {
                self.ping().await?;
            }
            let client = self.client().await?;
            let judgement = match &client {
                Client::Tandem(client) => client.judge(&ask, draft, after).await,
                Client::Engine(client) => client.judge(&ask, &draft, after).await,
            };
            self.note_change(&client, &judgement);
            judgement
        });
        judgement.await.unwrap_or(Err(CloudError::TimedOut { url, after }))
    }
}
