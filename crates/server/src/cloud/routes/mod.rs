//! One file a route.

pub mod close;
pub mod health;
pub mod metrics;
pub mod next;
pub mod open;
pub mod score;

use ::cloud::protocol::Piece;
use decode::Vocabulary;

use super::{conversation::Refusal, error::ApiError, sessions::Session};
use ::cloud::protocol::Place;

/// Brings a session to where its caller is.
fn advance(session: &mut Session, place: &Place, append: &Piece) -> Result<(), ApiError> {
    let vocabulary = session.sequence.model().vocabulary().clone();
    let moved = session.conversation.advance(vocabulary.as_ref() as &dyn Vocabulary, place, append);
    moved.map_err(|refusal| refuse(refusal, session))
}

/// Tells a caller why it cannot go on.
pub(super) fn refuse(refusal: Refusal, session: &Session) -> ApiError {
    match refusal {
        Refusal::Conflict(message) => ApiError::conflict(message, session.conversation.place()),
        Refusal::Invalid(message) => ApiError::invalid(message),
    }
}
