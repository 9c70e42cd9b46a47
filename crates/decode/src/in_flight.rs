//! What the cloud was asked and has not answered yet.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::{Answer, CloudError, Pending, PendingAnswer};

/// An answer of the cloud's that is to come, is on its way, or has come.
#[expect(clippy::large_enum_variant, reason = "there are few, and most end as the largest one")]
pub(crate) enum InFlight {
    /// It is asked for with others, as soon as a request may be made.
    Due,
    OnItsWay(PendingAnswer),
    Arrived(Result<Answer, CloudError>),
}

impl InFlight {
    pub fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::OnItsWay(answer) = self
            && let Poll::Ready(answer) = answer.as_mut().poll(context)
        {
            *self = Self::Arrived(answer);
        }
    }

    pub fn is_due(&self) -> bool {
        matches!(self, Self::Due)
    }

    pub fn is_on_its_way(&self) -> bool {
        matches!(self, Self::OnItsWay(_))
    }
}

/// A request that counts as on its way until it is answered or given up.
pub(crate) fn counted<T: 'static>(requests: &Arc<()>, request: Pending<T>) -> Pending<T> {
    let on_its_way = requests.clone();
    Box::pin(async move {
        let answer = request.await;
        drop(on_its_way);
        answer
    })
}
