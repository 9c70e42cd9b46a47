//! Seats, and who waits for one.
//!
//! A seat keeps what it last read on both sides, so a request goes to the free seat whose cache
//! shares most with it: the next turn of a chat reads only what is new.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use decode::{Edge, Token, common_prefix};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    config::Mode,
    pair::{Pair, Seat},
};
use crate::http::ApiError;

/// A seat and what it remembers.
struct PooledSeat<P: Pair> {
    seat: Seat<P::Edge, P::Cloud>,
    /// What the cloud was last told and wrote, in the edge's tokens.
    told: Vec<Token>,
    /// When it was last given back.
    used: u64,
}

/// All seats.
pub struct Pool<P: Pair> {
    pair: Arc<P>,
    free: Mutex<Vec<PooledSeat<P>>>,
    permits: Arc<Semaphore>,
    size: usize,
    clock: AtomicU64,
    waiting: AtomicUsize,
    queue: usize,
}

/// A seat that is taken; given back when dropped.
pub struct Lease<P: Pair> {
    pool: Arc<Pool<P>>,
    // Always there until the lease is dropped.
    kept: Option<PooledSeat<P>>,
    _permit: OwnedSemaphorePermit,
}

impl<P: Pair> Pool<P> {
    /// Opens this many seats; as many requests as `queue` may wait for one.
    pub async fn open(
        pair: Arc<P>,
        size: usize,
        queue: usize,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut free = Vec::with_capacity(size);
        for _ in 0..size {
            free.push(PooledSeat { seat: pair.open().await?, told: vec![], used: 0 });
        }
        Ok(Self {
            pair,
            free: Mutex::new(free),
            permits: Arc::new(Semaphore::new(size)),
            size,
            clock: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue,
        })
    }

    /// The models.
    pub fn pair(&self) -> &P {
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

    /// Takes the free seat that remembers most of this context, first come, first served.
    pub async fn take(
        self: &Arc<Self>,
        context: &[Token],
        mode: Mode,
    ) -> Result<Lease<P>, ApiError> {
        let permit = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        let mut free = self.free();
        let place = choose(free.iter().map(|kept| {
            let held = match mode {
                Mode::Large => &kept.told,
                Mode::Small | Mode::Joint => kept.seat.edge.held(),
            };
            (common_prefix(held, context), held.len(), kept.used)
        }));
        // A permit is a free seat.
        let kept = place.map(|i| free.swap_remove(i)).ok_or_else(ApiError::busy)?;
        Ok(Lease { pool: self.clone(), kept: Some(kept), _permit: permit })
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let _place = Waiting::new(&self.waiting, self.queue)?;
        let permit = self.permits.clone().acquire_owned().await;
        permit.map_err(|_| ApiError::stopping())
    }

    /// Lets nobody in any more, and says goodbye to the clouds of free seats.
    pub async fn close(&self) {
        self.permits.close();
        let free = std::mem::take(&mut *self.free());
        for mut kept in free {
            self.pair.close(&mut kept.seat.cloud).await;
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<PooledSeat<P>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of seats that share so much, hold so much and were used then: the one that shares most, if that
/// is more than would be forgotten for it; else the one that was not used for longest.
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
    fn new(waiting: &'a AtomicUsize, most: usize) -> Result<Self, ApiError> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(ApiError::busy());
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
    /// The seat; `None` never, short of a fault of ours.
    pub fn seat(&mut self) -> Option<&mut Seat<P::Edge, P::Cloud>> {
        self.kept.as_mut().map(|kept| &mut kept.seat)
    }

    /// The models.
    pub fn pair(&self) -> Arc<P> {
        self.pool.pair.clone()
    }

    /// Remembers what the cloud has been told and has written.
    pub fn remember(&mut self, told: Vec<Token>) {
        if let Some(kept) = &mut self.kept {
            kept.told = told;
        }
    }
}

impl<P: Pair> Drop for Lease<P> {
    /// Before the permit is given back, so that a permit is always a free seat.
    fn drop(&mut self) {
        if let Some(mut kept) = self.kept.take() {
            kept.used = self.pool.clock.fetch_add(1, Ordering::Relaxed) + 1;
            self.pool.free().push(kept);
        }
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
