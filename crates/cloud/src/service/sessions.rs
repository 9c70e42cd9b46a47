//! Who is here, and who has to leave when memory is full.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use decode::Token;
use engine::{EngineError, Model, Output, Sequence};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use super::{collector::SharedStates, conversation::Conversation, error::ServiceError, form::Form};
use crate::protocol::NextResponse;

/// How many evicted sessions are remembered, to tell their owners so.
const MAX_EVICTED: usize = 4096;

/// How many calls may wait for one session, each with its body: more than an edge has on their way.
const MOST_WAITING: usize = 32;

/// One conversation of one edge.
pub(crate) struct Session {
    pub id: String,
    pub sequence: Sequence,
    pub conversation: Conversation,
    /// What its answers are held to, if anything.
    pub form: Option<Form>,
    /// The last question's number and its answer, should it be asked again.
    pub last: Option<(u64, NextResponse)>,
    /// The states its edge shares, if it does.
    pub shared: Option<SharedStates>,
}

type Shared = Arc<tokio::sync::Mutex<Option<Session>>>;

/// A session that is live.
struct Live {
    session: Shared,
    /// The places of those who wait for it.
    places: Arc<Semaphore>,
    /// When it was last asked for.
    used: u64,
}

#[derive(Default)]
struct Table {
    live: HashMap<String, Live>,
    evicted: VecDeque<String>,
    clock: u64,
}

#[derive(Default)]
pub(crate) struct Sessions(Mutex<Table>);

impl Sessions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn count(&self) -> usize {
        self.table().live.len()
    }

    pub fn insert(&self, session: Session) {
        let mut table = self.table();
        table.clock += 1;
        let used = table.clock;
        let id = session.id.clone();
        let session = Arc::new(tokio::sync::Mutex::new(Some(session)));
        let places = Arc::new(Semaphore::new(MOST_WAITING));
        table.live.insert(id, Live { session, places, used });
    }

    /// Waits until nobody else uses the session, unless many wait already. It is gone if it was evicted
    /// meanwhile.
    pub async fn acquire(
        &self,
        id: &str,
    ) -> Result<OwnedMutexGuard<Option<Session>>, ServiceError> {
        let (session, places) = self.touch(id)?;
        if let Ok(free) = session.clone().try_lock_owned() {
            return Ok(free);
        }
        let _place = places.try_acquire().map_err(|_| ServiceError::Busy)?;
        Ok(session.lock_owned().await)
    }

    fn touch(&self, id: &str) -> Result<(Shared, Arc<Semaphore>), ServiceError> {
        let mut table = self.table();
        table.clock += 1;
        let now = table.clock;
        if let Some(live) = table.live.get_mut(id) {
            live.used = now;
            return Ok((live.session.clone(), live.places.clone()));
        }
        if table.evicted.iter().any(|e| e == id) {
            return Err(ServiceError::Evicted);
        }
        Err(ServiceError::UnknownSession)
    }

    /// Ends a session; gives back what it was.
    pub async fn remove(&self, id: &str) -> Result<Session, ServiceError> {
        let mut guard = self.acquire(id).await?;
        self.table().live.remove(id);
        guard.take().ok_or(ServiceError::Evicted)
    }

    /// Evicts the session that was not used for longest, of those nobody uses right now. `false`
    /// when there is none.
    pub fn evict_one(&self) -> bool {
        let mut table = self.table();
        let mut oldest: Vec<_> = table
            .live
            .iter()
            .map(|(id, live)| (live.used, id.clone(), live.session.clone()))
            .collect();
        oldest.sort_unstable_by_key(|(used, ..)| *used);
        for (_, id, shared) in oldest {
            if let Ok(mut session) = shared.try_lock() {
                // Not its whole id: that is the right to use a session.
                tracing::info!(session = id.get(..4), "evicted to make room");
                // Dropping the sequence frees its part of the cache.
                session.take();
                table.live.remove(&id);
                table.evicted.push_back(id);
                if table.evicted.len() > MAX_EVICTED {
                    table.evicted.pop_front();
                }
                return true;
            }
        }
        false
    }

    /// A new sequence, evicting whom it must.
    pub async fn open_sequence(&self, model: &Model) -> Result<Sequence, ServiceError> {
        loop {
            match model.open().await {
                Err(EngineError::NoSequence { .. }) if self.evict_one() => {}
                other => return Ok(other?),
            }
        }
    }

    /// Reads tokens, evicting whom it must. The sequence's own session is in use, so it stays.
    pub async fn read(
        &self,
        sequence: &mut Sequence,
        tokens: &[Token],
    ) -> Result<Output, ServiceError> {
        loop {
            match sequence.read(tokens, false).await {
                Err(EngineError::Full { .. }) if self.evict_one() => {}
                other => return Ok(other?),
            }
        }
    }
}
