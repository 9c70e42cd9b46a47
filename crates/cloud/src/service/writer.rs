//! The next tokens, or the next word.

use std::time::{Duration, Instant};

use decode::{
    AnswerToken, Edge, Exchange, Sampling, Token, Vocabulary, boundary, sampling, text::TextStream,
};

use super::{
    conversation::Conversation,
    error::ServiceError,
    sessions::{Session, Sessions},
};
use crate::protocol::{Amount, Cost, FinishReason, NextResponse};

/// A word that is still not whole after this many tokens is taken as it is.
const MAX_WORD_TOKENS: usize = 24;

const MAX_ANSWER_TOKENS: usize = 256;

pub(crate) struct Task {
    pub want: Amount,
    pub sampling: Sampling,
    /// Whether the cache is kept from the last answer.
    pub reuse: bool,
    /// Whether to tell which token was the likeliest to begin with.
    pub likeliest: bool,
}

impl Task {
    pub fn validate(&self, exchange: Exchange) -> Result<(), ServiceError> {
        self.sampling.validate().map_err(|e| ServiceError::invalid(e.to_string()))?;
        match (self.want, exchange) {
            (Amount::Tokens(n), _) if (1..=MAX_ANSWER_TOKENS).contains(&n) => Ok(()),
            (Amount::Tokens(_), _) => {
                Err(ServiceError::invalid(format!("tokens must be from 1 to {MAX_ANSWER_TOKENS}")))
            }
            (Amount::Word(true), Exchange::Text) => Ok(()),
            (Amount::Word(true), Exchange::Ids) => {
                Err(ServiceError::invalid("words can be asked for only where text travels"))
            }
            (Amount::Word(false), _) => Err(ServiceError::invalid("word can only be true")),
        }
    }
}

/// Writes what comes next and accepts it into the conversation. The token beside the answer is the
/// likeliest first one, if it was to be told.
pub(crate) async fn write(
    session: &mut Session,
    sessions: &Sessions,
    task: &Task,
) -> Result<(NextResponse, Option<Token>), ServiceError> {
    let vocabulary = session.sequence.model().vocabulary().clone();
    let (mut cost, mut logits) = prefill(session, sessions, task.reuse).await?;
    let likeliest = task.likeliest.then(|| sampling::argmax(&logits)).flatten();
    let room = session.sequence.model().context() - session.sequence.tokens().len();
    let mut form = match &mut session.form {
        Some(form) => form.behind(session.conversation.tokens()),
        None => None,
    };
    let mut draft = Draft::new(vocabulary.as_ref(), &session.conversation);
    let mut finish = None;
    let started = Instant::now();
    loop {
        let at = session.conversation.position() + draft.length(session.conversation.exchange);
        let history = [session.conversation.tokens(), &draft.ids()].concat();
        let token = match &mut form {
            Some(form) => {
                let mut masked = logits.clone();
                form.mask(&mut masked).map_err(|e| ServiceError::model(&e))?;
                task.sampling.choose(&masked, &history, at)
            }
            None => task.sampling.choose(&logits, &history, at),
        };
        let token = token.map_err(|e| ServiceError::model(&e))?;
        cost.decoded += 1;
        if vocabulary.is_end(token) {
            // Behind a word, end-of-text is look-ahead like any other.
            let ends = draft.text().is_empty() || matches!(task.want, Amount::Tokens(_));
            finish = ends.then_some(FinishReason::Stop);
            break;
        }
        draft.push(token, sampling::logprob(&logits, token));
        if draft.satisfies(task.want) {
            break;
        }
        if let Some(form) = &mut form {
            form.advance(&[token]).map_err(|e| ServiceError::model(&e))?;
        }
        if draft.tokens.len() >= room {
            finish = Some(FinishReason::Length);
            break;
        }
        logits = sessions.read(&mut session.sequence, &[token]).await?.logits;
    }
    let tokens = draft.finish(task.want, session.conversation.exchange);
    cost.decode_ms = milliseconds(started.elapsed());
    let ids: Vec<_> = tokens.iter().filter_map(|t| t.id).collect();
    let text: String = tokens.iter().map(|t| t.text.as_str()).collect();
    session.conversation.accept(vocabulary.as_ref(), &ids, &text);
    Ok((NextResponse { tokens, finish_reason: finish, cost }, likeliest))
}

/// Reads what is not cached yet.
async fn prefill(
    session: &mut Session,
    sessions: &Sessions,
    reuse: bool,
) -> Result<(Cost, Vec<f32>), ServiceError> {
    let context = session.conversation.context();
    let limit = session.sequence.model().context();
    if context.len() > limit {
        return Err(ServiceError::ContextFull { tokens: context.len(), context: limit });
    }
    if !reuse {
        session.sequence.truncate(0);
    }
    let started = Instant::now();
    // The last token is read in any case: it gives the logits.
    let cached = session.sequence.keep_common(&context[..context.len().saturating_sub(1)]);
    let output = sessions.read(&mut session.sequence, &context[cached..]).await?;
    let prefill = output.reading.prefill + output.reading.decode;
    let cost = Cost {
        prefilled: output.reading.tokens,
        cached: context.len().saturating_sub(output.reading.tokens),
        queued_ms: milliseconds(started.elapsed().saturating_sub(prefill)),
        prefill_ms: milliseconds(prefill),
        ..Cost::default()
    };
    Ok((cost, output.logits))
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

/// Tokens on their way to an answer.
struct Draft<'a> {
    vocabulary: &'a dyn Vocabulary,
    /// What the answer will stand behind.
    before: String,
    tokens: Vec<AnswerToken>,
    stream: TextStream,
    bytes: usize,
}

impl<'a> Draft<'a> {
    fn new(vocabulary: &'a dyn Vocabulary, conversation: &Conversation) -> Self {
        // Where ids travel, the last answer may have ended inside a character; its tail is among
        // the last few tokens.
        let mut stream = TextStream::default();
        if conversation.exchange == Exchange::Ids {
            let tokens = conversation.tokens();
            let tail = &tokens[tokens.len().saturating_sub(8)..];
            tail.iter().for_each(|&t| drop(stream.push(&vocabulary.piece(t))));
        }
        let before = conversation.text().to_owned();
        Self { vocabulary, before, tokens: vec![], stream, bytes: 0 }
    }

    fn push(&mut self, id: Token, logprob: f32) {
        let piece = self.vocabulary.piece(id);
        self.bytes += piece.len();
        let text = self.stream.push(&piece);
        self.tokens.push(AnswerToken { id: Some(id), text, logprob: Some(logprob) });
    }

    fn ids(&self) -> Vec<Token> {
        self.tokens.iter().filter_map(|t| t.id).collect()
    }

    fn text(&self) -> String {
        self.tokens.iter().map(|t| t.text.as_str()).collect()
    }

    fn length(&self, exchange: Exchange) -> usize {
        match exchange {
            Exchange::Ids => self.tokens.len(),
            Exchange::Text => self.bytes,
        }
    }

    fn satisfies(&self, want: Amount) -> bool {
        match want {
            Amount::Tokens(n) => self.tokens.len() == n,
            Amount::Word(_) => self.word_end().is_some() || self.tokens.len() == MAX_WORD_TOKENS,
        }
    }

    fn word_end(&self) -> Option<usize> {
        boundary::word_end(&self.before, &self.text())
    }

    /// Drops the look-ahead behind a word and, where text travels, what is not a whole character.
    fn finish(mut self, want: Amount, exchange: Exchange) -> Vec<AnswerToken> {
        if exchange == Exchange::Ids {
            return self.tokens;
        }
        let end = match want {
            Amount::Word(_) => self.word_end().unwrap_or(self.text().len()),
            Amount::Tokens(_) => self.text().len(),
        };
        self.cut(end)
    }

    /// A token that the cut goes through gives way to the tokens of what is left of it.
    fn cut(&mut self, end: usize) -> Vec<AnswerToken> {
        let (mut reached, mut whole, mut kept) = (0, 0, 0);
        let mut logprob = None;
        for (i, token) in self.tokens.iter().enumerate() {
            reached += token.text.len();
            logprob = token.logprob;
            if reached > end {
                break;
            }
            // A token without text is the beginning of a character that ends later.
            if !token.text.is_empty() {
                (whole, kept) = (reached, i + 1);
            }
        }
        let rest = self.text()[whole..end].to_owned();
        self.tokens.truncate(kept);
        let mut stream = TextStream::default();
        for id in self.vocabulary.encode(&rest) {
            let text = stream.push(&self.vocabulary.piece(id));
            self.tokens.push(AnswerToken { id: Some(id), text, logprob });
        }
        std::mem::take(&mut self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use decode::fake::FakeVocabulary;

    use super::*;

    fn word(before: &str, pieces: &[&str]) -> Option<Vec<String>> {
        let vocabulary = FakeVocabulary::new(&[" Par", "is", ".", "中国", "中", " the", "\n", " "]);
        let mut conversation = Conversation::new(Exchange::Text, vec![]);
        conversation.accept(&vocabulary, &vocabulary.encode(before), before);
        let mut draft = Draft::new(&vocabulary, &conversation);
        for piece in pieces {
            for id in vocabulary.encode(piece) {
                draft.push(id, -1.0);
                if draft.satisfies(Amount::Word(true)) {
                    let tokens = draft.finish(Amount::Word(true), Exchange::Text);
                    return Some(tokens.into_iter().map(|t| t.text).collect());
                }
            }
        }
        None
    }

    #[test]
    fn look_ahead_is_cut_off() {
        assert_eq!(word("It is", &[" Par", "is", "."]).unwrap(), [" Par", "is"]);
        assert_eq!(word("It is", &[" Par", "is"]), None);
        assert_eq!(word("x", &["\n", " the"]).unwrap(), ["\n"]);
    }

    #[test]
    fn where_ids_travel_a_character_may_span_two_answers() {
        let vocabulary = FakeVocabulary::new(&[]);
        let bytes = vocabulary.encode("é");
        let mut conversation = Conversation::new(Exchange::Ids, vec![]);
        conversation.accept(&vocabulary, &bytes[..1], "");
        let mut draft = Draft::new(&vocabulary, &conversation);
        draft.push(bytes[1], -1.0);
        assert_eq!(draft.text(), "é");
    }

    #[test]
    fn a_token_of_two_characters_gives_way() {
        assert_eq!(word("", &["中国"]).unwrap(), ["中"]);
    }

    #[test]
    fn a_character_of_several_tokens_stays_whole() {
        let words = word("caf", &["é", " the"]).unwrap();
        assert_eq!(words.concat(), "é");
        let words = word(" ", &["国", " the"]).unwrap();
        assert_eq!(words.concat(), "国");
    }
}
