//! An edge that takes its time, and a cloud behind a network that does what it likes.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tandem_decode::{
    Answer, AnswerLength, AnswerToken, Ask, Cloud, CloudError, Draft, Edge, EdgeError, Handshake,
    Judged, Judgement, Pending, PendingAnswer, Step, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge},
    sampling,
};

/// Is ready when it has been polled this often.
struct Polls(usize);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An edge whose steps take their time, and whose forks fail now and then.
pub struct SlowEdge {
    pub edge: FakeEdge,
    pub seed: u64,
    pub steps: usize,
    /// How many caches were made of this one, and of that it was made of.
    pub forks: Arc<AtomicUsize>,
    pub fork: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("a branch broke")]
struct Broken;

impl Edge for SlowEdge {
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

    async fn fork(&mut self, keep: usize) -> Option<Self> {
        let forks = self.forks.fetch_add(1, Ordering::Relaxed);
        let seed = sampling::hash(self.seed, 1000 + forks);
        if seed.is_multiple_of(97) {
            return None;
        }
        let (edge, forks) = (self.edge.fork(keep).await?, self.forks.clone());
        Some(Self { edge, seed, steps: 0, forks, fork: true })
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.steps += 1;
        let luck = sampling::hash(self.seed, self.steps);
        Polls(luck as usize % 4).await;
        // Where it is the text's own, it has made a step.
        if self.fork && self.steps == 1 && luck.is_multiple_of(13) {
            return Err(EdgeError::new(Broken));
        }
        self.edge.step(unread).await
    }
}

/// A cloud whose answers depend on the text alone and come when they like: it agrees with the edge at
/// about half of the places, and fails at a few.
pub struct Network {
    pub agrees: FakeCloud,
    pub differs: FakeCloud,
    pub seed: u64,
    /// The most polls an answer takes.
    pub slowest: usize,
    /// One in this many texts is never answered behind; 0 for none.
    pub dead: u64,
    /// Whether it judges several places at once, and how often it did.
    pub judges: bool,
    pub judgements: usize,
    pub asks: usize,
    /// Tokens that the session has accepted: asks behind them may be lost on the way.
    pub accepted: Arc<AtomicUsize>,
    pub on_their_way: Arc<AtomicUsize>,
    pub most: usize,
}

struct Travelling(Arc<AtomicUsize>);

impl Drop for Travelling {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cloud for Network {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.agrees.open().await
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let luck = sampling::hash(self.seed, 0);
        let (opened, polls) = (self.agrees.begin_open()?, luck as usize % 9);
        Some(Box::pin(async move {
            Polls(polls).await;
            if luck.is_multiple_of(5) { Err(FakeCloud::error()) } else { opened.await }
        }))
    }

    async fn next(&mut self, _: Ask<'_>) -> Result<Answer, CloudError> {
        panic!("asks are begun")
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let answer = self.answer(ask);
        let ahead = ask.tokens.len() > self.accepted.load(Ordering::Relaxed);
        Some(self.send(answer, ahead))
    }

    fn judges_asks(&self) -> bool {
        self.judges
    }

    /// Lost now and then wherever it is made: its places are then asked for one by one.
    fn begin_judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Option<Pending<Judgement>> {
        let Draft::Ids(draft) = draft else { panic!("ids are judged") };
        assert!(draft.len() > 1 && ask.sampling.is_greedy());
        self.judgements += 1;
        // One in some is cut short.
        let luck = sampling::hash(self.seed, 5000 + self.judgements);
        let judged = if luck.is_multiple_of(11) { draft.len() / 2 } else { draft.len() };
        let judged = self.judged(ask, &draft[..judged]);
        Some(self.send(judged, true))
    }
}

impl Network {
    /// Comes when it likes, and is lost now and then where the text can do without.
    fn send<T: Send + 'static>(
        &mut self,
        answer: Result<T, CloudError>,
        may_be_lost: bool,
    ) -> Pending<T> {
        self.asks += 1;
        let luck = sampling::hash(self.seed, self.asks);
        let lost = may_be_lost && luck.is_multiple_of(7);
        self.most = self.most.max(self.on_their_way.fetch_add(1, Ordering::Relaxed) + 1);
        let travelling = Travelling(self.on_their_way.clone());
        let polls = (luck >> 8) as usize % (self.slowest + 1);
        Box::pin(async move {
            Polls(polls).await;
            drop(travelling);
            if lost { Err(FakeCloud::error()) } else { answer }
        })
    }

    /// At every place of the draft, what an ask there would be answered.
    fn judged(&self, ask: Ask<'_>, draft: &[Token]) -> Result<Judgement, CloudError> {
        let mut judgement = Judgement::default();
        let mut tokens = ask.tokens.to_vec();
        for &id in draft {
            let want = AnswerLength::Tokens(1);
            let answer = self.answer_one(Ask { tokens: &tokens, want, ..ask })?;
            let spelled = |id| AnswerToken { id: Some(id), text: String::new(), logprob: None };
            let greedy = answer.tokens.first().cloned().unwrap_or_else(|| spelled(Token(0)));
            judgement.tokens.push(Judged { given: spelled(id), greedy });
            tokens.push(id);
        }
        Ok(judgement)
    }

    /// Depends on the text alone; several tokens are those of as many asks.
    fn answer(&self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let AnswerLength::Tokens(wanted) = ask.want else { return self.answer_one(ask) };
        let want = AnswerLength::Tokens(1);
        let mut answer = self.answer_one(Ask { want, ..ask })?;
        while answer.tokens.len() < wanted && !answer.end {
            let written = answer.tokens.iter().filter_map(|t| t.id);
            let tokens: Vec<_> = ask.tokens.iter().copied().chain(written).collect();
            let Ok(more) = self.answer_one(Ask { tokens: &tokens, want, ..ask }) else { break };
            answer.tokens.extend(more.tokens);
            answer.end = more.end;
        }
        Ok(answer)
    }

    fn answer_one(&self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let place = ask.tokens.iter().fold(7, |h, t| sampling::hash(h, t.index()));
        if self.dead > 0 && place % self.dead == 1 {
            return Err(FakeCloud::error());
        }
        let cloud = if place.is_multiple_of(2) { &self.agrees } else { &self.differs };
        let mut answer = Cloud::begin(&mut cloud.clone(), ask).unwrap();
        match answer.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("a fake answers at once"),
        }
    }
}
