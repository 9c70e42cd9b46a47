//! A warm cloud: it is opened while the edge reads the prompt, and has the prompt read by the time it is
//! needed.
//!
//! What has it read the prompt is an ask, made as soon as it is open, wherever the text stands then. If
//! the text is still there when it doubts, this is its answer. If not, nobody wants the answer, and the
//! ask is kept all the same: a cloud that is hung up on stops reading, and the next ask would wait for
//! the whole prompt. So it is looked after wherever the session waits, until it is answered or the text
//! ends.

use std::task::{Context, Poll};

use crate::{Cloud, Handshake, Pending, in_flight::InFlight};

/// What is done for a cloud ahead of the first ask.
#[derive(Default)]
pub(crate) struct Warm {
    opening: Option<Pending<Handshake>>,
    asked: Option<InFlight>,
    /// Whether the text still stands where it was asked.
    here: bool,
}

impl Warm {
    /// Opens the cloud ahead of the first ask, if it can be.
    pub fn open(&mut self, cloud: &mut impl Cloud) {
        self.opening = cloud.begin_open();
    }

    /// What opening ahead has found out, once. A failure is met again where the cloud is needed.
    pub fn opened(&mut self, context: &mut Context<'_>) -> Option<Handshake> {
        let Poll::Ready(opened) = self.opening.as_mut()?.as_mut().poll(context) else {
            return None;
        };
        self.opening = None;
        opened.ok()
    }

    /// The opening, for who cannot go on without it.
    pub fn take_opening(&mut self) -> Option<Pending<Handshake>> {
        self.opening.take()
    }

    /// Asked where the text stands, so that the prompt is read.
    pub fn ask(&mut self, asked: Option<InFlight>) {
        (self.here, self.asked) = (asked.is_some(), asked);
    }

    /// Lets it go on. An answer that nobody wants is forgotten when it comes.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        let Some(asked) = &mut self.asked else { return };
        asked.poll(context);
        if !self.here && !asked.is_on_its_way() {
            self.asked = None;
        }
    }

    /// The ask, if it was made where the text stands.
    pub fn take_here(&mut self) -> Option<InFlight> {
        if std::mem::take(&mut self.here) { self.asked.take() } else { None }
    }

    /// The text goes on without the answer. Returns whether that makes it void.
    pub fn pass(&mut self) -> bool {
        if !std::mem::take(&mut self.here) {
            return false;
        }
        self.asked = self.asked.take().filter(InFlight::is_on_its_way);
        true
    }
}
