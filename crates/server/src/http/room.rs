//! Room for whole answers, from their first token until they are taken.
//!
//! A seat is free as soon as its texts are written; their answer is there until its client has taken it,
//! which may take as long as the slowest pace that is allowed. As many large answers as there may be
//! connections would take gigabytes. So a request takes room for the largest answer it may get once it has
//! its seat, and gives back what it did not need.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::ApiError;

/// Room is given in pieces, and an answer is sent in them.
const PIECE: usize = 64 << 10;

/// The room for all answers that are larger than a piece: 128 MiB.
const PIECES: usize = 2048;

static ROOM: Semaphore = Semaphore::const_new(PIECES);

/// Room that is held until it is dropped; none for a small answer.
#[derive(Debug)]
pub struct AnswerRoom(Option<SemaphorePermit<'static>>);

impl AnswerRoom {
    /// Room for an answer of at most this many bytes; fails where others hold too much of it.
    pub fn take(bytes: usize) -> Result<Self, ApiError> {
        Self::of(&ROOM, bytes)
    }

    fn of(room: &'static Semaphore, bytes: usize) -> Result<Self, ApiError> {
        match pieces(bytes) {
            0 => Ok(Self(None)),
            pieces => {
                room.try_acquire_many(pieces).map(Some).map(Self).map_err(|_| ApiError::busy())
            }
        }
    }

    /// The answer as JSON. The room it takes is held until its last piece is on its way.
    pub fn tell(mut self, answer: &impl Serialize) -> Result<Response, ApiError> {
        let bytes = serde_json::to_vec(answer).map_err(|e| ApiError::internal(&e))?;
        self.shrink(pieces(bytes.len()) as usize);
        let length = bytes.len();
        let body = match self.0 {
            None => Body::from(bytes),
            Some(held) => Body::from_stream(stream::unfold(
                (Bytes::from(bytes), held),
                |(mut left, held)| async move {
                    let piece = left.split_to(left.len().min(PIECE));
                    (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (left, held)))
                },
            )),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        Ok(response)
    }

    /// Gives back all but so many pieces.
    fn shrink(&mut self, needed: usize) {
        let Some(held) = &mut self.0 else { return };
        let surplus = held.num_permits().saturating_sub(needed);
        drop(held.split(surplus));
        if needed == 0 {
            self.0 = None;
        }
    }
}

/// How many pieces an answer takes; none if it is not larger than one.
fn pieces(bytes: usize) -> u32 {
    match bytes {
        0..=PIECE => 0,
        _ => u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(PIECES as u32),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn room_is_held_until_the_answer_is_taken() {
        static ROOM: Semaphore = Semaphore::const_new(20);
        let text = "x".repeat(5 * PIECE);
        let first = AnswerRoom::of(&ROOM, 12 * PIECE).unwrap();
        assert_eq!(ROOM.available_permits(), 8);
        assert!(AnswerRoom::of(&ROOM, 12 * PIECE).is_err());
        // What was made is smaller than what it might have been.
        let response = first.tell(&text).unwrap();
        assert_eq!(ROOM.available_permits(), 14);
        assert_eq!(response.headers()[header::CONTENT_LENGTH], (text.len() + 2).to_string());
        let mut body = response.into_body().into_data_stream();
        let begun = body.next().await.unwrap().unwrap();
        assert_eq!((begun.len(), ROOM.available_permits()), (PIECE, 14));
        // Whoever goes away half-way leaves its room to others.
        drop(body);
        assert_eq!(ROOM.available_permits(), 20);
    }

    #[tokio::test]
    async fn a_small_answer_needs_none() {
        static ROOM: Semaphore = Semaphore::const_new(20);
        let _all = ROOM.try_acquire_many(20).unwrap();
        let response = AnswerRoom::of(&ROOM, PIECE).unwrap().tell(&"small").unwrap();
        assert_eq!(to_bytes(response.into_body(), PIECE).await.unwrap(), "\"small\"");
    }

    #[tokio::test]
    async fn pieces_make_the_whole() {
        static ROOM: Semaphore = Semaphore::const_new(20);
        let list: Vec<usize> = (0..50_000).collect();
        let response = AnswerRoom::of(&ROOM, 9 * PIECE).unwrap().tell(&list).unwrap();
        let bytes = to_bytes(response.into_body(), 9 * PIECE).await.unwrap();
        assert_eq!(serde_json::from_slice::<Vec<usize>>(&bytes).unwrap(), list);
        assert_eq!(ROOM.available_permits(), 20);
    }
}
