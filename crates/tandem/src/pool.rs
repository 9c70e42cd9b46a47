//! The seats of a pair, and the queue for them.
//!
//! A seat has room for one text: a sequence of the edge and a conversation with the cloud, opened when
//! they are first needed. Both keep their caches, so a request gets the free seat whose cache has the
//! longest common prefix with it: the next turn of a chat reads only what is new.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use decode::{
    Edge, OnCloudError, Relay, Routing, Session, SessionInput, Threshold, Token, Verify,
    common_prefix,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Error, Generation, Mode, ResolvedRequest,
    generation::State,
    pair::{Introduction, Pair},
};

/// Who a text is for. What one owner's conversations left in a cache is not told to another, not even
/// by how fast an answer comes: their texts share none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

struct Seat<P: Pair> {
    edge: Option<P::Edge>,
    cloud: Option<P::Cloud>,
    /// What the cloud last read and wrote, in the edge's tokens.
    cloud_context: Vec<Token>,
    /// When it was last given back.
    used: u64,
    /// Whose conversations its caches hold.
    owner: Owner,
}

impl<P: Pair> Seat<P> {
    fn empty() -> Self {
        Self { edge: None, cloud: None, cloud_context: vec![], used: 0, owner: Owner::default() }
    }
}

pub(crate) struct Pool<P: Pair> {
    pair: Arc<P>,
    free: Mutex<Vec<Seat<P>>>,
    permits: Arc<Semaphore>,
    size: usize,
    clock: AtomicU64,
    waiting: AtomicUsize,
    queue: usize,
}

/// A seat in use; dropping it gives the seat back.
pub struct Lease<P: Pair = crate::Models> {
    pool: Arc<Pool<P>>,
    seat: Seat<P>,
    _permit: OwnedSemaphorePermit,
}

/// The right to a seat; dropping it lets the next in.
pub struct Admission<P: Pair = crate::Models> {
    pool: Arc<Pool<P>>,
    permit: OwnedSemaphorePermit,
}

impl<P: Pair> Admission<P> {
    /// Takes the free seat whose cache has most of this context, of the seats this owner had last.
    pub async fn lease(
        self,
        mode: Mode,
        context: &[Token],
        owner: Owner,
    ) -> Result<Lease<P>, Error> {
        let Self { pool, permit } = self;
        let seat = {
            let mut free = pool.free();
            let place = choose(free.iter().map(|seat| {
                let held = match (mode, &seat.edge) {
                    (Mode::Large, _) | (_, None) => seat.cloud_context.as_slice(),
                    (Mode::Small | Mode::Joint | Mode::Verify, Some(edge)) => edge.held(),
                };
                let own = seat.owner == owner;
                let shared = if own { common_prefix(held, context) } else { 0 };
                (shared, held.len(), seat.used)
            }));
            // A permit is a free seat.
            place.map(|i| free.swap_remove(i)).ok_or(Error::Busy)?
        };
        let mut lease = Lease { pool, seat, _permit: permit };
        if lease.seat.owner != owner {
            lease.forget().await;
            lease.seat.owner = owner;
        }
        Ok(lease)
    }
}

impl<P: Pair> Pool<P> {
    /// This many seats; as many requests as `queue` may wait for one.
    pub fn new(pair: P, size: usize, queue: usize) -> Self {
        Self {
            pair: Arc::new(pair),
            free: Mutex::new((0..size).map(|_| Seat::empty()).collect()),
            permits: Arc::new(Semaphore::new(size)),
            size,
            clock: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue,
        }
    }

    pub fn pair(&self) -> &Arc<P> {
        &self.pair
    }

    /// Seats that are taken.
    pub fn running(&self) -> usize {
        self.size.saturating_sub(self.permits.available_permits())
    }

    /// Requests that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a free seat, in the order of requests. Which one it is can be decided later.
    pub async fn admit(self: &Arc<Self>) -> Result<Admission<P>, Error> {
        let permit = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        Ok(Admission { pool: self.clone(), permit })
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, Error> {
        let _place = Waiting::new(&self.waiting, self.queue)?;
        self.permits.clone().acquire_owned().await.map_err(|_| Error::Stopping)
    }

    /// Opens the edge of every free seat, so that no request has to wait for it.
    pub async fn open_edges(self: &Arc<Self>) -> Result<(), Error> {
        for lease in &mut self.take_all() {
            lease.edge().await?;
        }
        Ok(())
    }

    /// Empties the caches of all free seats, on both sides.
    pub async fn forget(self: &Arc<Self>) {
        for lease in &mut self.take_all() {
            lease.forget().await;
        }
    }

    /// Takes every free seat with its permit, so that a request that comes meanwhile waits for one.
    fn take_all(self: &Arc<Self>) -> Vec<Lease<P>> {
        let mut leases = vec![];
        while let Ok(permit) = self.permits.clone().try_acquire_owned() {
            let Some(seat) = self.free().pop() else { break };
            leases.push(Lease { pool: self.clone(), seat, _permit: permit });
        }
        leases
    }

    /// Refuses new requests, and closes the cloud's sessions of the free seats.
    pub async fn close(&self) {
        self.permits.close();
        let free = std::mem::take(&mut *self.free());
        for mut cloud in free.into_iter().filter_map(|seat| seat.cloud) {
            self.pair.close(&mut cloud).await;
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Seat<P>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chooses among seats given as tokens shared with the request, tokens cached and time of last use:
/// the one that shares most, if that is more than it would have to forget, else the least recently
/// used.
fn choose(seats: impl Iterator<Item = (usize, usize, u64)>) -> Option<usize> {
    let worth = |(shared, held, used): (usize, usize, u64)| {
        let gain = if shared > held - shared { shared } else { 0 };
        (gain, std::cmp::Reverse(used))
    };
    seats.enumerate().max_by_key(|(_, seat)| worth(*seat)).map(|(i, _)| i)
}

/// A place in the queue; left when dropped, also by a client that goes away.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize, most: usize) -> Result<Self, Error> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::Busy);
        }
        Ok(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Pair> Lease<P> {
    /// Both models, which all seats of the pool share.
    pub fn pair(&self) -> &Arc<P> {
        &self.pool.pair
    }

    /// Empties this seat's caches, on both sides.
    async fn forget(&mut self) {
        self.seat.cloud_context.clear();
        if let Some(edge) = &mut self.seat.edge {
            edge.keep_common(&[]);
        }
        if let Some(cloud) = &mut self.seat.cloud {
            self.pool.pair.close(cloud).await;
        }
    }

    /// This seat's sequence of the small model.
    pub async fn edge(&mut self) -> Result<&mut P::Edge, Error> {
        let edge = match self.seat.edge.take() {
            Some(edge) => edge,
            None => self.pool.pair.open_edge().await?,
        };
        Ok(self.seat.edge.insert(edge))
    }

    /// This seat's conversation with the large model.
    pub async fn cloud(&mut self) -> Result<&mut P::Cloud, Error> {
        let cloud = match self.seat.cloud.take() {
            Some(cloud) => cloud,
            None => self.pool.pair.open_cloud().await?,
        };
        Ok(self.seat.cloud.insert(cloud))
    }

    /// Tells the cloud which conversation comes next, and returns it.
    pub async fn introduce(&mut self, to: Introduction<'_>) -> Result<&mut P::Cloud, Error> {
        let (pair, owner) = (self.pool.pair.clone(), self.seat.owner);
        let cloud = self.cloud().await?;
        pair.separate(cloud, owner)?;
        pair.introduce(cloud, to)?;
        Ok(cloud)
    }

    /// Starts a text on this seat. What is in the caches of either side is not read again.
    pub async fn begin(mut self, request: ResolvedRequest) -> Result<Generation<P>, Error> {
        let ResolvedRequest { mode, on_error, sampling, .. } = request;
        // What holds a text to a form speaks the edge's tokens: with it, the edge reads along and the
        // cloud is asked at every position that is not forced.
        let alone = mode == Mode::Large && request.constraint.is_none();
        let input = SessionInput {
            prompt: request.tokens.clone(),
            written: request.written.clone(),
            sampling,
            limits: request.limits.clone(),
        };
        if !alone {
            // Checked here, because a session that cannot begin would drop both models.
            input.check(self.edge().await?.context())?;
        }
        mode.check(&sampling, request.constraint.is_some())?;
        if mode != Mode::Small {
            let edge = (!alone).then_some(request.tokens.as_slice());
            let (prompt, grammar) = (&request.prompt, request.grammar.as_ref());
            let origin = Some(&request.origin);
            self.introduce(Introduction { prompt, edge, on_error, grammar, origin }).await?;
        }
        let missing = || Error::Internal("a seat without its models".into());
        let state = if alone {
            let cloud = self.seat.cloud.take().ok_or_else(missing)?;
            let relay = Relay::new(cloud, sampling, input.limits);
            State::Relay(Box::new(match request.alternatives {
                Some(_) => relay.with_details(),
                None => relay,
            }))
        } else if mode == Mode::Verify {
            let cloud = self.seat.cloud.take().ok_or_else(missing)?;
            let edge = self.seat.edge.take().ok_or_else(missing)?;
            State::Verify(Box::new(Verify::new(edge, cloud, input)?))
        } else {
            let routing = match mode {
                Mode::Joint | Mode::Large => Some(Routing {
                    router: request.router.build(sampling.seed),
                    policy: match mode {
                        Mode::Large => Threshold::ALWAYS.into(),
                        _ => request.policy.clone(),
                    },
                    cloud: self.seat.cloud.take().ok_or_else(missing)?,
                    on_error: match (mode, on_error) {
                        (Mode::Large, OnCloudError::Keep) => OnCloudError::Fail,
                        _ => on_error,
                    },
                }),
                Mode::Small | Mode::Verify => None,
            };
            let edge = self.seat.edge.take().ok_or_else(missing)?;
            let session = Session::new(edge, routing, input)?;
            let pair = &self.pool.pair;
            let session = session.with_asks_in_flight(pair.asks_in_flight());
            let session = session.with_branches(pair.branches());
            let session = session.with_judged_asks(pair.judges_asks());
            let mut session = session.with_ask_tokens(pair.ask_tokens());
            if pair.warms_cloud() {
                session = session.with_warm_cloud();
            }
            if let Some(constraint) = &request.constraint {
                session = session.with_constraint(constraint.clone());
            }
            State::Session(Box::new(match request.alternatives {
                Some(alternatives) => session.with_details(alternatives),
                None => session,
            }))
        };
        Ok(Generation::new(state, self, request))
    }

    /// Takes both models back from a text, and remembers what the cloud was told and has written.
    pub(crate) fn put_back(
        &mut self,
        (edge, cloud): (Option<P::Edge>, Option<P::Cloud>),
        request: &ResolvedRequest,
        text: &str,
    ) {
        self.seat.edge = edge.or(self.seat.edge.take());
        self.seat.cloud = cloud.or(self.seat.cloud.take());
        if let (true, Some(edge)) = (request.mode != Mode::Small, &self.seat.edge) {
            let written = edge.vocabulary().encode(text);
            self.seat.cloud_context = [request.tokens.as_slice(), &written].concat();
        }
    }
}

impl<P: Pair> Drop for Lease<P> {
    /// Before the permit is given back, so that a permit is always a free seat.
    fn drop(&mut self) {
        let used = self.pool.clock.fetch_add(1, Ordering::Relaxed) + 1;
        let seat = std::mem::replace(&mut self.seat, Seat::empty());
        self.pool.free().push(Seat { used, ..seat });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seat_that_remembers_most_is_taken() {
        // Shared, held, used.
        assert_eq!(choose([(10, 12, 1), (30, 40, 2), (5, 5, 3)].into_iter()), Some(1));
        // Little would be spared and much forgotten: the oldest gives way.
        assert_eq!(choose([(20, 500, 9), (0, 80, 4), (0, 90, 2)].into_iter()), Some(2));
        // An empty seat was never used.
        assert_eq!(choose([(20, 500, 9), (0, 0, 0)].into_iter()), Some(1));
        assert_eq!(choose([].into_iter()), None);
    }

    #[test]
    fn the_queue_is_bounded_and_left_by_whoever_goes() {
        let waiting = AtomicUsize::new(0);
        let first = Waiting::new(&waiting, 2);
        let _second = Waiting::new(&waiting, 2);
        assert!(Waiting::new(&waiting, 2).is_err());
        drop(first);
        assert!(Waiting::new(&waiting, 2).is_ok());
        assert_eq!(waiting.load(Ordering::Relaxed), 1);
    }
}
