//! Fake models for tests: small, deterministic, and real enough for every property of the loop.

use std::sync::Arc;

use crate::{
    Answer, AnswerLength, AnswerToken, Ask, Cloud, CloudError, Draft, Edge, EdgeError, Exchange,
    Fingerprint, Handshake, Judged, Judgement, Pending, PendingAnswer, Reading, Sampling, Step,
    Token, Usage, Vocabulary, boundary, common_prefix, sampling, text::TextStream,
};

/// A vocabulary of given pieces. Token 0 ends the text.
#[derive(Clone, Debug)]
pub struct FakeVocabulary {
    pieces: Vec<Vec<u8>>,
}

impl FakeVocabulary {
    /// End-of-text, every single byte, and the given pieces.
    pub fn new(pieces: &[&str]) -> Self {
        let mut all = vec![vec![]];
        all.extend((0..=255u8).map(|b| vec![b]));
        all.extend(pieces.iter().map(|p| p.as_bytes().to_vec()));
        Self { pieces: all }
    }
}

impl Vocabulary for FakeVocabulary {
    /// Takes the longest piece that matches, again and again.
    fn encode(&self, text: &str) -> Vec<Token> {
        let mut rest = text.as_bytes();
        let mut tokens = vec![];
        while !rest.is_empty() {
            let fits = |&i: &usize| !self.pieces[i].is_empty() && rest.starts_with(&self.pieces[i]);
            let Some(best) =
                (0..self.pieces.len()).filter(fits).max_by_key(|&i| self.pieces[i].len())
            else {
                break;
            };
            tokens.push(Token(best as u32));
            rest = &rest[self.pieces[best].len()..];
        }
        tokens
    }

    fn piece(&self, token: Token) -> Vec<u8> {
        self.pieces.get(token.index()).cloned().unwrap_or_default()
    }

    fn spell(&self, token: Token) -> Vec<u8> {
        if self.is_end(token) { b"<end>".to_vec() } else { self.piece(token) }
    }

    fn is_end(&self, token: Token) -> bool {
        token == Token(0)
    }

    fn len(&self) -> usize {
        self.pieces.len()
    }

    fn fingerprint(&self) -> Fingerprint {
        let joined: Vec<String> =
            self.pieces.iter().map(|p| String::from_utf8_lossy(p).into_owned()).collect();
        Fingerprint(joined.join("|"))
    }
}

/// A model whose logits are a fixed function of its seed and its context, over a few of its tokens.
#[derive(Clone, Debug)]
pub struct FakeModel {
    /// Models with different seeds disagree.
    pub seed: u64,
    /// Every byte and the given pieces.
    pub vocabulary: Arc<FakeVocabulary>,
    /// The tokens it ever writes.
    pub writes: Vec<Token>,
}

impl FakeModel {
    /// A model that writes the given pieces and, now and then, end-of-text.
    pub fn new(seed: u64, pieces: &[&str]) -> Self {
        let vocabulary = Arc::new(FakeVocabulary::new(pieces));
        let writes = [0].into_iter().chain(257..257 + pieces.len() as u32).map(Token).collect();
        Self { seed, vocabulary, writes }
    }

    /// The logits behind a context.
    pub fn logits(&self, context: &[Token]) -> Vec<f32> {
        let hash = context.iter().fold(self.seed, |h, t| {
            h.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(t.0) + 1)
        });
        let mut logits = vec![-30.0; self.vocabulary.len()];
        for &token in &self.writes {
            // End-of-text is a little less likely, so that texts have some length.
            let penalty = if self.vocabulary.is_end(token) { 3.0 } else { 0.0 };
            logits[token.index()] = sampling::uniform(hash, token.index()) as f32 * 6.0 - penalty;
        }
        logits
    }
}

/// A small model without weights.
#[derive(Clone, Debug)]
pub struct FakeEdge {
    model: FakeModel,
    context: usize,
    /// The tokens it has read and not forgotten.
    pub cache: Vec<Token>,
    /// How many tokens each step read.
    pub reads: Vec<usize>,
    /// The steps, counted from 0, before which its cache is lost: all of it is read again.
    pub lost: std::ops::Range<usize>,
    steps: usize,
}

impl FakeEdge {
    /// An edge whose context holds this many tokens.
    pub fn new(model: FakeModel, context: usize) -> Self {
        Self { model, context, cache: vec![], reads: vec![], lost: 0..0, steps: 0 }
    }
}

impl Edge for FakeEdge {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.model.vocabulary.clone()
    }

    fn context(&self) -> usize {
        self.context
    }

    fn held(&self) -> &[Token] {
        &self.cache
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.cache.truncate(common_prefix(&self.cache, context));
        self.cache.len()
    }

    async fn fork(&mut self, keep: usize) -> Option<Self> {
        let mut fork = self.clone();
        fork.cache.truncate(keep);
        Some(fork)
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.cache.extend_from_slice(unread);
        let lost = self.lost.contains(&self.steps);
        let tokens = if lost { self.cache.len() } else { unread.len() };
        self.steps += 1;
        self.reads.push(tokens);
        let logits = self.model.logits(&self.cache);
        Ok(Step {
            position: self.cache.len(),
            proposed: sampling::argmax(&logits).unwrap_or(Token(0)),
            hidden: logits[logits.len() - 4..].to_vec(),
            logits,
            reading: Reading { tokens, ..Reading::default() },
        })
    }
}

/// A large model without weights or a network.
#[derive(Clone, Debug)]
pub struct FakeCloud {
    model: FakeModel,
    prompt: Vec<Token>,
    exchange: Exchange,
    /// Asks answered so far.
    pub answered: usize,
    /// How often it was asked.
    pub asked: usize,
    /// The asks, counted from 0, at which it is gone.
    pub gone: std::ops::Range<usize>,
    /// What it has read and written.
    pub cache: Vec<Token>,
}

impl FakeCloud {
    /// A cloud that has been given a prompt.
    pub fn new(model: FakeModel, prompt: Vec<Token>, exchange: Exchange) -> Self {
        Self { model, prompt, exchange, answered: 0, asked: 0, gone: 0..0, cache: vec![] }
    }

    /// Starts another conversation. The prefix it shares with the last one stays in the cache.
    pub fn reopen(&mut self, prompt: Vec<Token>) {
        self.prompt = prompt;
    }

    /// The error it returns while it is gone.
    pub fn error() -> CloudError {
        CloudError::Unreachable { url: "fake".into(), reason: "it died".into() }
    }

    fn fail_if_gone(&mut self) -> Result<(), CloudError> {
        if self.gone.contains(&self.asked) {
            self.asked += 1;
            return Err(Self::error());
        }
        Ok(())
    }

    fn write(
        &self,
        context: &mut Vec<Token>,
        history: usize,
        sampling: &Sampling,
    ) -> Option<Token> {
        let position = context.len() - self.prompt.len();
        let past = context[history..].to_vec();
        let token = sampling.choose(&self.model.logits(context), &past, position).ok()?;
        context.push(token);
        (!self.model.vocabulary.is_end(token)).then_some(token)
    }

    fn answered(&self, id: Token, stream: &mut TextStream) -> AnswerToken {
        let text = stream.push(&self.model.vocabulary.piece(id));
        AnswerToken { id: Some(id), text, logprob: Some(0.0) }
    }
}

impl Cloud for FakeCloud {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.fail_if_gone()?;
        Ok(Handshake { exchange: self.exchange, times: Default::default() })
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let opened = self.fail_if_gone();
        let handshake = Handshake { exchange: self.exchange, times: Default::default() };
        Some(Box::pin(std::future::ready(opened.map(|()| handshake))))
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        self.answer(ask)
    }

    async fn judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Result<Judgement, CloudError> {
        self.fail_if_gone()?;
        self.asked += 1;
        let mut context = self.prompt.clone();
        let given = match draft {
            Draft::Ids(ids) => {
                context.extend_from_slice(ask.tokens);
                ids.to_vec()
            }
            Draft::Text(text) => {
                context.extend(self.model.vocabulary.encode(ask.text));
                self.model.vocabulary.encode(text)
            }
        };
        let mut judgement = Judgement::default();
        let mut stream = TextStream::default();
        for id in given {
            let logits = self.model.logits(&context);
            let greedy = sampling::argmax(&logits).unwrap_or(id);
            let text = String::from_utf8_lossy(&self.model.vocabulary.piece(greedy)).into_owned();
            let logprob = |id| Some(sampling::logprob(&logits, id));
            let given = AnswerToken { logprob: logprob(id), ..self.answered(id, &mut stream) };
            let greedy = AnswerToken { id: Some(greedy), text, logprob: logprob(greedy) };
            judgement.tokens.push(Judged { given, greedy });
            context.push(id);
        }
        Ok(judgement)
    }

    /// The answer is there at once.
    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        Some(Box::pin(std::future::ready(self.answer(ask))))
    }
}

impl FakeCloud {
    fn answer(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        self.fail_if_gone()?;
        self.asked += 1;
        self.answered += 1;
        let mut context = self.prompt.clone();
        match self.exchange {
            Exchange::Ids => context.extend_from_slice(ask.tokens),
            Exchange::Text => context.extend(self.model.vocabulary.encode(ask.text)),
        }
        let history = self.prompt.len();
        // The last token is read in any case, as a real model must.
        let cached = common_prefix(&self.cache, &context[..context.len().saturating_sub(1)]);
        let usage = Usage {
            prefilled: Some(context.len() - cached),
            cached: Some(cached),
            decoded: 1,
            ..Usage::default()
        };
        let mut answer = Answer { usage, ..Answer::default() };
        let mut stream = TextStream::default();
        let most = match ask.want {
            AnswerLength::Tokens(n) => n,
            AnswerLength::Word => 16,
        };
        for _ in 0..most {
            let Some(token) = self.write(&mut context, history, ask.sampling) else {
                answer.end = answer.tokens.is_empty() || ask.want != AnswerLength::Word;
                break;
            };
            answer.tokens.push(self.answered(token, &mut stream));
            if ask.want == AnswerLength::Word
                && let Some(end) = boundary::word_end(ask.text, &answer.text())
            {
                let word = answer.text()[..end].to_owned();
                let ids = self.model.vocabulary.encode(&word);
                let mut stream = TextStream::default();
                answer.tokens = ids.iter().map(|&id| self.answered(id, &mut stream)).collect();
                break;
            }
        }
        self.cache = context;
        Ok(answer)
    }
}
