//! How soon the first ask behind a long prompt is answered where the cloud was made warm, on a clock that
//! only these models move.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::BTreeSet,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tandem_decode::{
    Answer, Ask, Cloud, CloudError, Edge, EdgeError, Exchange, Handshake, Limits, OnCloudError,
    Pending, PendingAnswer, Router, Routing, Sampling, Score, Session, SessionInput, Source, Step,
    Threshold, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
};

const PROMPT: usize = 500;
const RTT: Duration = Duration::from_millis(170);
/// What the edge takes for a token that it writes.
const STEP: Duration = Duration::from_millis(20);
/// What the cloud takes to read the prompt, and to write an answer.
const PREFILL: Duration = Duration::from_millis(500);
const DECODE: Duration = Duration::from_millis(40);

/// A clock that stands still while anybody has something to do.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<Time>>);

#[derive(Default)]
struct Time {
    now: Duration,
    /// When somebody is to go on.
    alarms: BTreeSet<Duration>,
}

impl Clock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().now
    }

    /// The time begins when this is first waited for.
    fn sleep(&self, time: Duration) -> Sleep {
        Sleep { clock: self.clone(), time, until: None }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, woken) = (pin!(work), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return done;
            }
            if !woken.0.swap(false, Ordering::Relaxed) {
                let mut time = self.0.lock().unwrap();
                time.now = time.alarms.pop_first().unwrap();
            }
        }
    }
}

/// Whether somebody can go on without an alarm.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Sleep {
    clock: Clock,
    time: Duration,
    until: Option<Duration>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (clock, time) = (self.clock.clone(), self.time);
        let mut clock = clock.0.lock().unwrap();
        let until = *self.until.get_or_insert(clock.now + time);
        if clock.now >= until {
            return Poll::Ready(());
        }
        clock.alarms.insert(until);
        Poll::Pending
    }
}

/// An edge that takes its time.
struct TimedEdge {
    clock: Clock,
    edge: FakeEdge,
    prompt: Duration,
}

impl Edge for TimedEdge {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.edge.vocabulary()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn held(&self) -> &[Token] {
        self.edge.held()
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.edge.keep_common(context)
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.clock.sleep(if unread.len() >= PROMPT { self.prompt } else { STEP }).await;
        self.edge.step(unread).await
    }
}

/// A cloud behind a network. Whoever hangs up on it makes it forget what it was reading, as a real one
/// does.
struct Far {
    clock: Clock,
    cloud: FakeCloud,
    /// Whether the prompt is read. Asks are answered one after the other.
    read: Arc<tokio::sync::Mutex<bool>>,
}

impl Cloud for Far {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.begin_open().unwrap().await
    }

    /// It is found, then opened.
    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let (opened, clock) = (self.cloud.begin_open()?, self.clock.clone());
        Some(Box::pin(async move {
            clock.sleep(2 * RTT).await;
            opened.await
        }))
    }

    async fn next(&mut self, _: Ask<'_>) -> Result<Answer, CloudError> {
        panic!("asks are begun")
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let (answer, read) = (self.cloud.begin(ask)?, self.read.clone());
        let clock = self.clock.clone();
        Some(Box::pin(async move {
            clock.sleep(RTT / 2).await;
            let mut read = read.lock().await;
            if !*read {
                clock.sleep(PREFILL).await;
                *read = true;
            }
            clock.sleep(DECODE).await;
            drop(read);
            clock.sleep(RTT / 2).await;
            answer.await
        }))
    }
}

/// Doubts one place alone, so many tokens behind the prompt.
struct DoubtsAt(usize);

impl Router for DoubtsAt {
    fn score(&self, step: &Step) -> Score {
        Score::new(if step.position == PROMPT + self.0 { 0.0 } else { 1.0 })
    }
}

/// When the edge has read the prompt, when it doubts, and when that is answered, from the beginning.
struct Times {
    read: Duration,
    doubt: Duration,
    answered: Duration,
    void_asks: usize,
}

fn first_ask(prompt: Duration, doubtful: usize, warm: bool, in_flight: usize) -> Times {
    let pieces = &[" the", " cat", " sat", " on", " mat"];
    // A text that does not end before the doubtful place.
    for seed in 0.. {
        let (model, other) = (FakeModel::new(seed, pieces), FakeModel::new(seed + 1000, pieces));
        let tokens = vec![Token(258); PROMPT];
        let clock = Clock::default();
        let edge = FakeEdge::new(model, 1000);
        let edge = TimedEdge { clock: clock.clone(), edge, prompt };
        let cloud = FakeCloud::new(other, tokens.clone(), Exchange::Ids);
        let cloud = Far { clock: clock.clone(), cloud, read: Arc::default() };
        let policy = Threshold::new(0.5).unwrap().into();
        let router = DoubtsAt(doubtful);
        let routing = Routing { router, policy, cloud, on_error: OnCloudError::Fail };
        let input = SessionInput {
            prompt: tokens,
            written: vec![],
            sampling: Sampling::default(),
            limits: Limits { max_tokens: doubtful + 1, stops: vec![] },
        };
        let session = Session::new(edge, Some(routing), input).unwrap();
        let mut session = session.with_asks_in_flight(in_flight);
        if warm {
            session = session.with_warm_cloud();
        }
        clock.run(async { while session.next().await.unwrap().is_some() {} });
        let shown = session.transcript().shown();
        if shown.last().map(|token| (token.index, token.source)) != Some((doubtful, Source::Cloud))
        {
            continue;
        }
        let doubt = prompt + STEP * u32::try_from(doubtful).unwrap();
        let void_asks = session.transcript().stats().void_asks;
        return Times { read: prompt, doubt, answered: clock.now(), void_asks };
    }
    panic!("some text is long enough")
}

/// The cloud opens at 340 ms, the ask reaches it at 425, and the prompt is read at 925: before the
/// edge has written its first tokens, or in the middle of them.
#[test]
fn the_first_ask_takes_a_round_trip_and_an_answer() {
    for (prompt, doubtful) in [(1000, 0), (1000, 1), (1000, 5), (900, 1), (700, 12), (200, 40)] {
        for in_flight in [0, 3] {
            let prompt = Duration::from_millis(prompt);
            let warm = first_ask(prompt, doubtful, true, in_flight);
            let told = format!("{prompt:?}, place {doubtful}: {:?}", warm.answered);
            assert!(warm.answered <= warm.doubt + RTT + DECODE, "{told}");
            // The ask that had the prompt read is the answer behind the prompt, and void elsewhere.
            assert_eq!(warm.void_asks, usize::from(doubtful > 0), "{told}");
            if doubtful == 0 {
                assert!(warm.answered <= warm.read + RTT + DECODE, "{told}");
            }
            // A cloud that is cold is opened and reads the prompt first.
            let cold = first_ask(prompt, doubtful, false, in_flight);
            assert_eq!(cold.answered, cold.doubt + 3 * RTT + PREFILL + DECODE, "{told}");
        }
    }
}

/// Where the edge is far quicker than opening the cloud, the ask behind the first tokens waits for
/// what is left, and for nothing twice.
#[test]
fn a_prompt_is_read_once_however_soon_the_edge_doubts() {
    for doubtful in [0, 1, 10, 20] {
        let prompt = Duration::from_millis(200);
        let warm = first_ask(prompt, doubtful, true, 3);
        let read = 2 * RTT + STEP + RTT / 2 + PREFILL;
        let latest = read + DECODE + DECODE + RTT / 2 + STEP;
        assert!(warm.answered <= latest, "place {doubtful}: {:?}", warm.answered);
    }
}
