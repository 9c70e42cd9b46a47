//! What was accepted, in the cloud's own tokens.
//!
//! Where ids travel, the edge's tokens are the cloud's. Where text travels, what is appended is
//! encoded here: it mostly begins at a word boundary, where its tokens are those it would have in
//! the whole text.
//!
//! An edge that does not wait for answers asks about texts that it takes back later, so the text may
//! go back and forth. Its tokens must not depend on that: a text always resumes from the last
//! answer that it begins with.

use std::collections::VecDeque;

use decode::{Exchange, Token, Vocabulary};

use super::error::ServiceError;
use crate::protocol::{Piece, Prefix, id_bytes, prefix_hash};

/// No token is longer than this many bytes: a text that cannot fit is refused before it is encoded.
const MAX_TOKEN_BYTES: usize = 512;

/// How many texts with an answer at their end are remembered: more than there are asks on their way.
const MAX_ANSWERED: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub exchange: Exchange,
    pub prompt: Vec<Token>,
    /// Behind the prompt.
    content: Content,
    /// What it was after the last answers, where text travels.
    answered: VecDeque<Content>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    tokens: Vec<Token>,
    /// Where text travels: the text of `tokens`, and where each of them ends in it.
    text: String,
    ends: Vec<usize>,
}

impl Conversation {
    pub fn new(exchange: Exchange, prompt: Vec<Token>) -> Self {
        Self { exchange, prompt, content: Content::default(), answered: VecDeque::new() }
    }

    /// Behind the prompt.
    pub fn tokens(&self) -> &[Token] {
        &self.content.tokens
    }

    pub fn text(&self) -> &str {
        &self.content.text
    }

    /// The prompt and everything behind it.
    pub fn context(&self) -> Vec<Token> {
        [self.prompt.as_slice(), &self.content.tokens].concat()
    }

    pub fn position(&self) -> usize {
        match self.exchange {
            Exchange::Ids => self.content.tokens.len(),
            Exchange::Text => self.content.text.len(),
        }
    }

    /// Where this side stands.
    pub fn prefix(&self) -> Prefix {
        let position = self.position();
        Prefix { position, hash: self.hash(position).unwrap_or_default() }
    }

    fn hash(&self, position: usize) -> Option<String> {
        match self.exchange {
            Exchange::Ids => self.content.tokens.get(..position).map(|t| prefix_hash(id_bytes(t))),
            Exchange::Text => self.content.text.get(..position).map(prefix_hash),
        }
    }

    /// Goes back to `prefix` if need be, and on from there with what was accepted since. What would
    /// make it longer than `limit` tokens changes nothing.
    pub fn advance(
        &mut self,
        vocabulary: &dyn Vocabulary,
        prefix: &Prefix,
        append: &Piece,
        limit: usize,
    ) -> Result<(), ServiceError> {
        let fits = |tokens: usize| match tokens > limit {
            true => Err(ServiceError::ContextFull { tokens, context: limit }),
            false => Ok(()),
        };
        let conflict = |message: &str| ServiceError::conflict(message, self.prefix());
        let hash = self.hash(prefix.position);
        if hash.ok_or_else(|| conflict("the position is not here"))? != prefix.hash {
            return Err(conflict("the prefix is another"));
        }
        match (self.exchange, append) {
            (Exchange::Ids, Piece::Ids(ids)) => {
                fits(self.prompt.len() + prefix.position + ids.len())?;
                known(vocabulary, ids)?;
                self.content.tokens.truncate(prefix.position);
                self.content.tokens.extend_from_slice(ids);
            }
            (Exchange::Text, Piece::Text(text)) => {
                fits(self.prompt.len() + text.len() / MAX_TOKEN_BYTES)?;
                let longer = self.go_on(vocabulary, prefix.position, text);
                fits(self.prompt.len() + longer.tokens.len())?;
                self.content = longer;
            }
            (Exchange::Ids, Piece::Text(_)) => {
                return Err(ServiceError::invalid("ids travel in this session"));
            }
            (Exchange::Text, Piece::Ids(_)) => {
                return Err(ServiceError::invalid("text travels in this session"));
            }
        }
        Ok(())
    }

    /// The text up to `position` with `append` behind it, from the last answer that it begins with.
    fn go_on(&self, vocabulary: &dyn Vocabulary, position: usize, append: &str) -> Content {
        let whole = format!("{}{append}", &self.content.text[..position]);
        let known = self.answered.iter().chain([&self.content]);
        let begins = known.filter(|known| known.text.len() >= position);
        let last = begins.filter(|known| whole.starts_with(&known.text));
        match last.max_by_key(|known| known.text.len()) {
            Some(known) => {
                let mut longer = known.clone();
                longer.append(vocabulary, &whole[known.text.len()..]);
                longer
            }
            None => {
                let mut longer = self.content.clone();
                longer.truncate(vocabulary, position);
                longer.append(vocabulary, append);
                longer
            }
        }
    }

    /// A continuation's tokens, without accepting it.
    pub fn encode(
        &self,
        vocabulary: &dyn Vocabulary,
        piece: &Piece,
    ) -> Result<Vec<Token>, ServiceError> {
        match (self.exchange, piece) {
            (Exchange::Ids, Piece::Ids(ids)) => known(vocabulary, ids).map(|()| ids.clone()),
            (Exchange::Text, Piece::Text(text)) => Ok(vocabulary.encode(text)),
            _ => Err(ServiceError::invalid("the continuation must be of the session's own kind")),
        }
    }

    /// Accepts what this side wrote.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, tokens: &[Token], text: &str) {
        match self.exchange {
            Exchange::Ids => self.content.tokens.extend_from_slice(tokens),
            Exchange::Text => {
                self.content.push(vocabulary, tokens, text);
                self.answered.push_back(self.content.clone());
                self.answered.drain(..self.answered.len().saturating_sub(MAX_ANSWERED));
            }
        }
    }
}

impl Content {
    /// A token that the cut goes through is replaced by the tokens of what is left of it.
    fn truncate(&mut self, vocabulary: &dyn Vocabulary, position: usize) {
        let mut keep = self.ends.partition_point(|&end| end <= position);
        while keep > 0 && !self.text.is_char_boundary(self.ends[keep - 1]) {
            keep -= 1;
        }
        let start = if keep == 0 { 0 } else { self.ends[keep - 1] };
        let rest = self.text[start..position].to_owned();
        self.tokens.truncate(keep);
        self.ends.truncate(keep);
        self.text.truncate(start);
        self.append(vocabulary, &rest);
    }

    fn append(&mut self, vocabulary: &dyn Vocabulary, text: &str) {
        let tokens = vocabulary.encode(text);
        self.push(vocabulary, &tokens, text);
    }

    fn push(&mut self, vocabulary: &dyn Vocabulary, tokens: &[Token], text: &str) {
        let mut end = self.text.len();
        self.text.push_str(text);
        for &token in tokens {
            end = (end + vocabulary.piece(token).len()).min(self.text.len());
            self.tokens.push(token);
            self.ends.push(end);
        }
        // Whatever a tokenizer adds or leaves out, the last token ends where its text does.
        if let Some(last) = self.ends.last_mut() {
            *last = self.text.len();
        }
    }
}

/// Refuses ids the model does not have.
pub(crate) fn known(vocabulary: &dyn Vocabulary, ids: &[Token]) -> Result<(), ServiceError> {
    match ids.iter().find(|id| id.index() >= vocabulary.used()) {
        Some(id) => Err(ServiceError::invalid(format!("token {} is not in the vocabulary", id.0))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use decode::fake::FakeVocabulary;

    use super::*;

    fn vocabulary() -> FakeVocabulary {
        FakeVocabulary::new(&[" the", " cat", "中国", "中", " sat"])
    }

    fn spelled(conversation: &Conversation) -> Vec<String> {
        let vocabulary = vocabulary();
        let piece = |&t: &Token| String::from_utf8_lossy(&vocabulary.piece(t)).into_owned();
        conversation.tokens().iter().map(piece).collect()
    }

    fn at(position: usize, prefix: &str) -> Prefix {
        Prefix { position, hash: prefix_hash(prefix) }
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn advance(c: &mut Conversation, to: &Prefix, append: &Piece) -> Result<(), ServiceError> {
        c.advance(&vocabulary(), to, append, 100)
    }

    #[test]
    fn text_grows_and_is_cut_back() {
        let vocabulary = vocabulary();
        let mut c = Conversation::new(Exchange::Text, vec![]);
        advance(&mut c, &at(0, ""), &text(" the cat")).unwrap();
        assert_eq!(spelled(&c), [" the", " cat"]);
        c.accept(&vocabulary, &vocabulary.encode(" sat"), " sat");
        assert_eq!(c.prefix(), at(12, " the cat sat"));
        advance(&mut c, &at(8, " the cat"), &text("中国")).unwrap();
        assert_eq!(spelled(&c), [" the", " cat", "中国"]);
        // The cut goes through a token: what is left of it gets its own.
        advance(&mut c, &at(11, " the cat中"), &text(" sat")).unwrap();
        assert_eq!(spelled(&c), [" the", " cat", "中", " sat"]);
        assert_eq!(c.text(), " the cat中 sat");
    }

    #[test]
    fn a_text_that_was_left_resumes_from_its_last_answer() {
        let vocabulary = vocabulary();
        // Its own way of writing "中国": two tokens, where the tokenizer has one.
        let written: Vec<_> = ["中", "国"].iter().flat_map(|t| vocabulary.encode(t)).collect();
        let mut waited = Conversation::new(Exchange::Text, vec![]);
        advance(&mut waited, &at(0, ""), &text(" the")).unwrap();
        waited.accept(&vocabulary, &written, "中国");
        let mut c = waited.clone();
        advance(&mut waited, &at(10, " the中国"), &text(" cat")).unwrap();
        // An ask behind a guess that was wrong: then back, from before the answer.
        advance(&mut c, &at(4, " the"), &text("中 cat sat")).unwrap();
        c.accept(&vocabulary, &vocabulary.encode(" the"), " the");
        advance(&mut c, &at(4, " the"), &text("中国 cat")).unwrap();
        assert_eq!(spelled(&c), spelled(&waited));
        assert_eq!(c.text(), waited.text());
    }

    #[test]
    fn another_prefix_is_refused_and_changes_nothing() {
        let mut c = Conversation::new(Exchange::Text, vec![]);
        advance(&mut c, &at(0, ""), &text(" the 中")).unwrap();
        for wrong in [at(9, " the 中x"), at(4, " cat"), at(6, " the 中")] {
            let refused = advance(&mut c, &wrong, &text("x"));
            assert!(matches!(refused, Err(ServiceError::Conflict { .. })), "{wrong:?}");
        }
        assert_eq!(c.text(), " the 中");
        assert!(matches!(
            advance(&mut c, &at(0, ""), &Piece::Ids(vec![])),
            Err(ServiceError::Invalid { .. })
        ));
    }

    #[test]
    fn ids_grow_and_are_cut_back() {
        let mut c = Conversation::new(Exchange::Ids, vec![Token(1)]);
        let ids = |ids: &[u32]| ids.iter().copied().map(Token).collect::<Vec<_>>();
        let at_ids = |prefix: &[u32]| Prefix {
            position: prefix.len(),
            hash: prefix_hash(id_bytes(&ids(prefix))),
        };
        advance(&mut c, &at_ids(&[]), &Piece::Ids(ids(&[5, 6, 7]))).unwrap();
        advance(&mut c, &at_ids(&[5]), &Piece::Ids(ids(&[9]))).unwrap();
        assert_eq!(c.context(), ids(&[1, 5, 9]));
        let refused = advance(&mut c, &at_ids(&[5, 9]), &Piece::Ids(ids(&[99_999])));
        assert!(
            matches!(refused, Err(ServiceError::Invalid { message }) if message.contains("99999"))
        );
        assert!(advance(&mut c, &at_ids(&[5, 6]), &Piece::Ids(vec![])).is_err());
    }
    #[test]
    fn what_is_too_long_is_refused_and_changes_nothing() {
        let mut c = Conversation::new(Exchange::Text, vec![Token(1)]);
        advance(&mut c, &at(0, ""), &text(" the cat")).unwrap();
        for long in [" sat".repeat(100), " ".repeat(4_000_000)] {
            // From further back as well: nothing may be cut off.
            for prefix in [at(8, " the cat"), at(4, " the")] {
                let refused = advance(&mut c, &prefix, &text(&long));
                assert!(matches!(refused, Err(ServiceError::ContextFull { context: 100, .. })));
                assert_eq!(c.text(), " the cat");
            }
        }
        let mut c = Conversation::new(Exchange::Ids, vec![Token(1)]);
        let nothing = Prefix { position: 0, hash: prefix_hash(id_bytes(&[])) };
        let refused = advance(&mut c, &nothing, &Piece::Ids(vec![Token(5); 100]));
        assert!(matches!(refused, Err(ServiceError::ContextFull { tokens: 101, .. })));
        assert!(c.tokens().is_empty());
        advance(&mut c, &nothing, &Piece::Ids(vec![Token(5); 99])).unwrap();
    }
}
