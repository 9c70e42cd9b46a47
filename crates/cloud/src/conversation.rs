//! A conversation with an engine that keeps no sessions: every ask carries the whole context, and
//! the engine's own cache spares it reading again what it has read. `judge` has drafts judged.

mod judge;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use decode::{
    Answer, AnswerLength, AnswerToken, Ask, CloudError, Exchange, Handshake, Sampling, Times,
    Token, Usage, boundary, sampling, text::TextStream,
};

use crate::{
    CacheSalt, EdgeSide, Match, Opening,
    compare::compare,
    connection::EngineConnection,
    engine::{Completion, Context, EngineInfo, Question},
    protocol::{Piece, Prompt, ScoredToken},
};

/// How many tokens are asked for where a word is wanted: most words are whole with one or two, and
/// one more shows it. If it is not whole yet, more are asked for.
const WORD_LENGTHS: [usize; 3] = [3, 8, 24];

/// What stands for the rest of a character that is not whole.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Clones speak in the same conversation, so that several asks can be on their way.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub connection: EngineConnection,
    pub about: EngineInfo,
    /// What keeps it apart from those of other owners in the engine's cache.
    pub salt: Option<CacheSalt>,
    opening: Arc<Opening>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// What comparing the two sides showed; a server does not change its model while it runs.
    compared: Option<Match>,
    /// As it is sent.
    prompt: Option<Piece>,
    /// Where the engine keeps this conversation.
    slot: Option<i64>,
    /// Its own session, where it has such and no ask is using it.
    stream: Option<Stream>,
    /// Whether an ask is using it.
    streaming: bool,
    /// Whether its sessions do not suit this conversation.
    streamless: bool,
    /// Sessions that were given up and are still to be closed.
    abandoned: Vec<String>,
}

/// An engine's session: it is sent only what is new, and cannot go back.
#[derive(Debug)]
struct Stream {
    id: String,
    /// What it has read and written.
    held: Vec<Token>,
}

/// A session while an ask uses it. Until an answer shows what the session has read it counts as given
/// up: the ask may fail, or be dropped half-way.
struct StreamInUse<'a> {
    conversation: &'a Conversation,
    stream: Option<Stream>,
}

impl StreamInUse<'_> {
    fn put_back(mut self) {
        self.conversation.state().stream = self.stream.take();
    }
}

impl Drop for StreamInUse<'_> {
    fn drop(&mut self) {
        let mut state = self.conversation.state();
        state.streaming = false;
        if let Some(stream) = self.stream.take() {
            state.abandoned.push(stream.id);
            // Where asks are given up, opening a session anew for each costs more than it saves.
            state.streamless = true;
        }
    }
}

impl Conversation {
    pub fn new(connection: EngineConnection, about: EngineInfo, opening: Arc<Opening>) -> Self {
        Self { connection, about, salt: None, opening, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with another conversation; where it shares a beginning with this one, the engine's
    /// cache serves it. Asks of this one that are still on their way stay with it.
    pub fn reopen(&mut self, opening: Arc<Opening>) {
        let same_edge = match (&self.opening.edge, &opening.edge) {
            (Some(a), Some(b)) => a.vocabulary.fingerprint() == b.vocabulary.fingerprint(),
            _ => false,
        };
        let State { compared, slot, stream, abandoned, .. } = std::mem::take(&mut *self.state());
        let compared = compared.filter(|_| same_edge);
        let state = State { compared, slot, stream, abandoned, ..State::default() };
        self.state = Arc::new(Mutex::new(state));
        self.opening = opening;
    }

    pub fn is_open(&self) -> bool {
        self.state().prompt.is_some()
    }

    /// Frees what the engine keeps for us.
    pub async fn close(&self) {
        {
            let mut state = self.state();
            // Whoever has the next conversation is not sent to this one's cache.
            state.slot = None;
            let stream = state.stream.take();
            state.abandoned.extend(stream.map(|stream| stream.id));
        }
        self.close_abandoned().await;
    }

    async fn close_abandoned(&self) {
        loop {
            let Some(id) = self.state().abandoned.pop() else { return };
            self.connection.close_stream(&id).await;
        }
    }

    /// What the two sides have in common; `None` where there is no edge.
    pub async fn compare(&self) -> Result<Option<Match>, CloudError> {
        let Some(edge) = &self.opening.edge else { return Ok(None) };
        let known = self.state().compared.clone();
        if known.is_some() {
            return Ok(known);
        }
        let compared = compare(&self.connection, edge).await?;
        self.state().compared = Some(compared.clone());
        Ok(Some(compared))
    }

    pub async fn open(&self) -> Result<Handshake, CloudError> {
        let started = Instant::now();
        let matched = self.compare().await?;
        let ids = match &matched {
            Some(matched) => matched.vocabulary.is_ok(),
            None => self.connection.dialect.has_ids(),
        };
        if let Some(Err(reason)) = matched.as_ref().map(|m| &m.vocabulary) {
            tracing::info!(reason, "text travels: the vocabularies differ");
        }
        let prompt = if ids {
            let same_template = matched.is_some_and(|m| m.template.is_ok());
            Piece::Ids(self.ids_of_prompt(same_template).await?)
        } else {
            Piece::Text(self.text_of_prompt().await?)
        };
        self.state().prompt = Some(prompt);
        let times = Times { network: started.elapsed(), ..Times::default() };
        Ok(Handshake { exchange: if ids { Exchange::Ids } else { Exchange::Text }, times })
    }

    async fn ids_of_prompt(&self, same_template: bool) -> Result<Vec<Token>, CloudError> {
        let messages = match (&self.opening.prompt, &self.opening.rendered) {
            (Prompt::Tokens(ids), _) => return Ok(ids.clone()),
            (Prompt::Text(text), _) => return self.connection.tokenize(text).await,
            (Prompt::Messages(_), Some(text)) => return self.connection.tokenize(text).await,
            (Prompt::Messages(messages), None) => messages,
        };
        if let (true, Some(edge)) = (same_template, &self.opening.edge) {
            return Ok(edge.prompt.clone());
        }
        match self.connection.template(messages).await? {
            Some(templated) => self.connection.ids_of(templated).await,
            None => Err(self.no_template()),
        }
    }

    async fn text_of_prompt(&self) -> Result<String, CloudError> {
        let messages = match (&self.opening.prompt, &self.opening.rendered) {
            (Prompt::Text(text), _) | (Prompt::Messages(_), Some(text)) => return Ok(text.clone()),
            (Prompt::Tokens(ids), _) => return self.connection.detokenize(ids).await,
            (Prompt::Messages(messages), None) => messages,
        };
        match self.connection.template(messages).await? {
            Some(Piece::Text(text)) => Ok(text),
            Some(Piece::Ids(ids)) => self.connection.detokenize(&ids).await,
            None => Err(self.no_template()),
        }
    }

    fn no_template(&self) -> CloudError {
        CloudError::NoTemplate { engine: self.connection.dialect.engine().title() }
    }

    pub async fn next(&self, ask: Ask<'_>, within: Duration) -> Result<Answer, CloudError> {
        let started = Instant::now();
        self.close_abandoned().await;
        let prompt = self.state().prompt.clone();
        let (mut answer, slot) = match prompt.ok_or(CloudError::NotOpened)? {
            Piece::Ids(prompt) => {
                let context = [prompt.as_slice(), ask.tokens].concat();
                self.next_in_stream(&context, &ask, within).await?
            }
            Piece::Text(prompt) => self.next_text(&prompt, &ask, within).await?,
        };
        if slot.is_some() {
            self.state().slot = slot;
        }
        self.hide(&mut answer.usage);
        let (times, took) = (&mut answer.times, started.elapsed());
        // The other side's clock may say anything; it cannot have taken longer than we waited.
        times.cloud_prefill = times.cloud_prefill.min(took);
        times.cloud_decode = times.cloud_decode.min(took);
        times.network = took.saturating_sub(times.cloud_prefill + times.cloud_decode);
        Ok(answer)
    }

    /// Leaves out counts that would tell what others asked.
    fn hide(&self, usage: &mut Usage) {
        if self.salt.is_some() && !self.connection.dialect.takes_salt() {
            (usage.prefilled, usage.cached) = (None, None);
        }
    }

    /// In the engine's own session where that can be, else with the whole context.
    async fn next_in_stream(
        &self,
        context: &[Token],
        ask: &Ask<'_>,
        within: Duration,
    ) -> Result<(Answer, Option<i64>), CloudError> {
        let Some(mut used) = self.stream_for(context).await? else {
            return self.next_ids(context, ask, &mut None, within).await;
        };
        let answer = match self.next_ids(context, ask, &mut used.stream, within).await {
            Err(CloudError::Refused { status: 400, .. } | CloudError::OutOfSync { .. }) => {
                drop(used);
                self.state().streamless = true;
                return self.next_ids(context, ask, &mut None, within).await;
            }
            other => other?,
        };
        used.put_back();
        Ok(answer)
    }

    /// The session, if it can go on to this context and no other ask uses it; a new one, if there was
    /// none. A caller who takes other tokens than it was given is better off without: sessions cannot
    /// go back.
    async fn stream_for(&self, context: &[Token]) -> Result<Option<StreamInUse<'_>>, CloudError> {
        let used = {
            let mut state = self.state();
            if state.streaming {
                return Ok(None);
            }
            if let Some(stream) = state.stream.take() {
                let new = context.strip_prefix(stream.held.as_slice());
                // A beginning-of-text in front of what is new would be dropped by the engine.
                if new.is_some_and(|new| new.first() != context.first()) {
                    state.streaming = true;
                    return Ok(Some(StreamInUse { conversation: self, stream: Some(stream) }));
                }
                state.abandoned.push(stream.id);
                state.streamless = true;
            }
            if state.streamless {
                return Ok(None);
            }
            state.streaming = true;
            StreamInUse { conversation: self, stream: None }
        };
        let opened = self.connection.open_stream().await?;
        let stream = opened.map(|id| Stream { id, held: vec![] });
        Ok(stream.map(|stream| {
            let mut used = used;
            used.stream = Some(stream);
            used
        }))
    }

    async fn next_ids(
        &self,
        context: &[Token],
        ask: &Ask<'_>,
        stream: &mut Option<Stream>,
        within: Duration,
    ) -> Result<(Answer, Option<i64>), CloudError> {
        let wanted = match ask.want {
            AnswerLength::Tokens(n) => n,
            AnswerLength::Word => return Err(CloudError::NotOpened),
        };
        self.check(context)?;
        let room = self.about.context.map_or(usize::MAX, |c| c.saturating_sub(context.len()));
        if room == 0 {
            return Err(CloudError::ContextFull);
        }
        let held = stream.as_ref().map_or(0, |s| s.held.len());
        let mut question = self.question(Context::Ids(&context[held..]), wanted.min(room), ask);
        question.stream = stream.as_ref().map(|s| s.id.as_str());
        let completion = self.connection.complete(&question, within).await?;
        let usage = completion.usage;
        let counted = usage.prefilled.zip(usage.cached).map(|(a, b)| a + b);
        match (stream.as_mut(), counted) {
            (Some(stream), Some(counted)) if counted == context.len() => {
                let written = completion.ids.iter().flatten().chain(&completion.closing);
                stream.held = context.iter().chain(written).copied().collect();
            }
            // Nothing shows that the session has read what we think it has.
            (Some(_), _) => {
                let engine = self.connection.dialect.engine().title();
                return Err(CloudError::OutOfSync { engine });
            }
            (None, _) => {}
        }
        let full = completion.full || (wanted > room && !completion.end);
        let ids = completion
            .ids
            .clone()
            .ok_or_else(|| CloudError::MissingToken { text: completion.text.clone() })?;
        let texts = match &self.opening.edge {
            Some(edge) => spell(edge, ask.tokens, &ids),
            None => self.texts(ask, &ids, &completion).await?,
        };
        let logprobs = completion.logprobs.iter().copied().chain(std::iter::repeat(None));
        let tokens = ids.iter().zip(texts).zip(logprobs);
        let tokens = tokens
            .map(|((&id, text), logprob)| AnswerToken { id: Some(id), text, logprob })
            .collect();
        let Completion { end, times, slot, .. } = completion;
        Ok((Answer { tokens, end, full, usage, times, ..Answer::default() }, slot))
    }

    /// Nothing but known ids leaves this machine: one engine dies of others.
    fn check(&self, context: &[Token]) -> Result<(), CloudError> {
        let edge = self.opening.edge.as_ref().map(|e| e.vocabulary.used());
        let common = self.state().compared.as_ref().and_then(|m| m.vocabulary.clone().ok());
        let sizes = [edge, common, self.about.vocabulary];
        let Some(size) = sizes.into_iter().flatten().min() else { return Ok(()) };
        match context.iter().find(|id| id.index() >= size) {
            Some(&id) => Err(CloudError::UnknownToken { id }),
            None => Ok(()),
        }
    }

    /// Texts of ids that no tokenizer here knows. An answer may begin or end inside a character;
    /// then everything since the prompt is spelled anew, by the engine.
    async fn texts(
        &self,
        ask: &Ask<'_>,
        ids: &[Token],
        completion: &Completion,
    ) -> Result<Vec<String>, CloudError> {
        let mut text = completion.text.clone();
        if text.contains(REPLACEMENT) || (text.is_empty() && !ids.is_empty()) {
            // What is not whole yet is held back.
            let before = if ask.tokens.is_empty() {
                String::new()
            } else {
                self.connection.detokenize(ask.tokens).await?
            };
            let whole = self.connection.detokenize(&[ask.tokens, ids].concat()).await?;
            let new = whole
                .trim_end_matches(REPLACEMENT)
                .strip_prefix(before.trim_end_matches(REPLACEMENT));
            let reason = "it spells the same tokens in two ways";
            text = new.ok_or_else(|| self.connection.invalid_answer(reason))?.to_owned();
        }
        let mut texts = vec![String::new(); ids.len()];
        if let Some(last) = texts.last_mut() {
            *last = text;
        }
        Ok(texts)
    }

    async fn next_text(
        &self,
        prompt: &str,
        ask: &Ask<'_>,
        within: Duration,
    ) -> Result<(Answer, Option<i64>), CloudError> {
        let context = format!("{prompt}{}", ask.text);
        let lengths = match ask.want {
            AnswerLength::Tokens(n) => vec![n, n + 4],
            AnswerLength::Word => WORD_LENGTHS.to_vec(),
        };
        let (mut total, mut slot) = (Answer::default(), self.state().slot);
        for (i, &length) in lengths.iter().enumerate() {
            let question = self.question(Context::Text(&context), length, ask);
            let question = Question { slot, ..question };
            let completion = self.connection.complete(&question, within).await?;
            slot = completion.slot.or(slot);
            add_cost(&mut total, &completion);
            let text = completion.text.trim_end_matches(REPLACEMENT);
            let broken = text.len() < completion.text.len();
            let stopped = completion.end || completion.full;
            let end = match ask.want {
                AnswerLength::Tokens(_) => (!broken).then_some(text.len()),
                AnswerLength::Word => boundary::word_end(ask.text, text),
            };
            // Behind the last try a word is taken as it is.
            if end.is_none() && !stopped && i + 1 < lengths.len() {
                continue;
            }
            let word = &text[..end.unwrap_or(text.len())];
            total.end =
                completion.end && (word.is_empty() || matches!(ask.want, AnswerLength::Tokens(_)));
            total.full = completion.full && word.is_empty();
            total.tokens = pieces(word, &completion, ask.want);
            break;
        }
        Ok((total, slot))
    }

    fn salt(&self) -> Option<&str> {
        self.salt.as_ref().map(CacheSalt::as_str)
    }

    fn question<'a>(&'a self, context: Context<'a>, tokens: usize, ask: &Ask<'a>) -> Question<'a> {
        let sampling: &'a Sampling = ask.sampling;
        let position = match context {
            Context::Ids(_) => ask.tokens.len(),
            Context::Text(_) => ask.text.len(),
        };
        // Engines take 32 bits or fewer, and some take a negative seed for "any".
        let seed = (sampling::hash(sampling.seed, position) >> 33) as u32;
        let slot = self.state().slot;
        Question { context, tokens, sampling, seed, slot, stream: None, salt: self.salt() }
    }

    pub async fn score(
        &self,
        accepted: &[Token],
        continuation: &[Token],
        within: Duration,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        let Some(Piece::Ids(prompt)) = self.state().prompt.clone() else {
            let engine = self.connection.dialect.engine().title();
            let what = "can label only where ids travel";
            return Err(CloudError::Unsupported { engine, what });
        };
        let from = prompt.len() + accepted.len();
        let ids = [prompt.as_slice(), accepted, continuation].concat();
        self.check(&ids)?;
        self.connection.score(&ids, from, self.salt(), within).await
    }
}

/// A word that was asked for twice cost both.
fn add_cost(total: &mut Answer, completion: &Completion) {
    let (before, more) = (total.usage, completion.usage);
    let add =
        |a: Option<usize>, b: Option<usize>| if before.decoded == 0 { b } else { Some(a? + b?) };
    total.usage = Usage {
        prefilled: add(before.prefilled, more.prefilled),
        cached: add(before.cached, more.cached),
        decoded: before.decoded + more.decoded,
        ..before
    };
    total.times += completion.times;
}

/// Text as tokens without ids: as many as the engine wrote, the text with the first. A word is one.
fn pieces(text: &str, completion: &Completion, want: AnswerLength) -> Vec<AnswerToken> {
    if text.is_empty() {
        return vec![];
    }
    let count = match want {
        AnswerLength::Word => 1,
        AnswerLength::Tokens(n) => {
            completion.usage.decoded.saturating_sub(usize::from(completion.end)).clamp(1, n)
        }
    };
    let piece = |i| AnswerToken {
        id: None,
        text: if i == 0 { text.to_owned() } else { String::new() },
        logprob: None,
    };
    (0..count).map(piece).collect()
}

/// The characters that become whole with each id, behind what was accepted.
fn spell(edge: &EdgeSide, accepted: &[Token], ids: &[Token]) -> Vec<String> {
    let mut stream = TextStream::default();
    // The beginning of a character that is not whole yet is among the last few tokens.
    let tail = &accepted[accepted.len().saturating_sub(8)..];
    tail.iter().for_each(|&id| drop(stream.push(&edge.vocabulary.piece(id))));
    ids.iter().map(|&id| stream.push(&edge.vocabulary.piece(id))).collect()
}
