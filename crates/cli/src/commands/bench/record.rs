//! A large model's answers, written down once and played again behind a network.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cloud::{
    Clouds,
    protocol::{Amount, NextRequest, Piece, ScoreRequest, id_bytes, prefix_hash},
};
use decode::{
    Answer, AnswerLength, AnswerToken, Ask, Cloud, CloudError, Draft, Exchange, Handshake, Judged,
    Judgement, Pending, PendingAnswer, Sent, Token, common_prefix,
};

/// What stands before an answer, whatever is exchanged.
type Context = (Vec<Token>, String);

/// The large model's answers, and how long each took.
#[derive(Default)]
pub(super) struct Record {
    /// `None` where the cloud was not asked.
    exchange: Option<Exchange>,
    answers: HashMap<Context, (Answer, Duration)>,
}

/// A cloud that is waited for, and whose answers are written down.
pub(super) struct Recorder {
    pub remote: Clouds,
    /// How many tokens an answer is recorded with, where tokens are asked for.
    pub ask_tokens: usize,
    pub record: Record,
}

/// So much of a recorded answer, and how long the cloud takes for it.
fn beginning((answer, took): &(Answer, Duration), want: AnswerLength) -> (Answer, Duration) {
    let (mut answer, mut took) = (answer.clone(), *took);
    if let AnswerLength::Tokens(wanted) = want
        && answer.tokens.len() > wanted
    {
        let all = u32::try_from(answer.usage.decoded.max(answer.tokens.len())).unwrap_or(u32::MAX);
        let left = all.saturating_sub(u32::try_from(wanted).unwrap_or(u32::MAX));
        let spared = answer.times.cloud_decode / all.max(1) * left;
        answer.times.cloud_decode -= spared;
        took = took.saturating_sub(spared);
        answer.tokens.truncate(wanted);
        (answer.end, answer.full, answer.usage.decoded) = (false, false, wanted);
    }
    (answer, took)
}

impl Cloud for Recorder {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        let opened = self.remote.open().await?;
        self.record.exchange = Some(opened.exchange);
        Ok(opened)
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let want = match ask.want {
            AnswerLength::Tokens(wanted) => AnswerLength::Tokens(wanted.max(self.ask_tokens)),
            AnswerLength::Word => AnswerLength::Word,
        };
        let started = Instant::now();
        let whole = (self.remote.next(Ask { want, ..ask }).await?, started.elapsed());
        let (answer, _) = beginning(&whole, ask.want);
        self.record.answers.insert((ask.tokens.to_vec(), ask.text.to_owned()), whole);
        Ok(answer)
    }
}

/// A cloud that is played from a record, behind a network.
pub(super) struct Player {
    record: Arc<Record>,
    rtt: Duration,
    /// What was asked last: it is not sent again.
    held: Context,
    sequence: u64,
    sent: Sent,
}

impl Player {
    pub fn new(record: &Arc<Record>, rtt: Duration) -> Self {
        Self {
            record: record.clone(),
            rtt,
            held: Context::default(),
            sequence: 0,
            sent: Sent::default(),
        }
    }

    /// How many requests were made.
    pub fn requests(&self) -> usize {
        usize::try_from(self.sequence).unwrap_or(usize::MAX)
    }

    /// What Tandem's own protocol would send for this ask.
    fn request(&mut self, ask: Ask<'_>) -> Option<NextRequest> {
        let (position, hash, append) = match self.record.exchange? {
            Exchange::Ids => {
                let (before, new) = ask.tokens.split_at(common_prefix(&self.held.0, ask.tokens));
                (before.len(), prefix_hash(id_bytes(before)), Piece::Ids(new.to_vec()))
            }
            Exchange::Text => {
                let same = self.held.1.chars().zip(ask.text.chars()).take_while(|(a, b)| a == b);
                let (before, new) = ask.text.split_at(same.map(|(c, _)| c.len_utf8()).sum());
                (before.len(), prefix_hash(before), Piece::Text(new.to_owned()))
            }
        };
        let want = match ask.want {
            AnswerLength::Tokens(n) => Amount::Tokens(n),
            AnswerLength::Word => Amount::Word(true),
        };
        self.sequence += 1;
        let (sequence, sampling) = (self.sequence, *ask.sampling);
        self.held = (ask.tokens.to_vec(), ask.text.to_owned());
        Some(NextRequest { sequence, position, hash, append, want, sampling, edge: None })
    }

    fn send(&mut self, request: &impl serde::Serialize) -> Option<()> {
        self.sent.bytes += serde_json::to_vec(request).ok()?.len();
        Some(())
    }

    /// What the record says to a draft, and how long the cloud takes: as long as for the slowest of the
    /// asks that it spares. Where nothing was asked in the recording nothing is doubtful, so what is told
    /// there is not looked at.
    fn judged(&self, ask: Ask<'_>, draft: &[Token]) -> (Judgement, Duration) {
        let (mut judgement, mut service) = (Judgement::default(), Duration::ZERO);
        let (mut tokens, one) = (ask.tokens.to_vec(), AnswerLength::Tokens(1));
        for (place, &id) in draft.iter().enumerate() {
            let token = |id| AnswerToken { id: Some(id), text: String::new(), logprob: None };
            let known = self.record.answers.iter().find(|((ids, _), _)| *ids == tokens);
            let greedy = known.and_then(|(_, whole)| {
                let (answer, took) = beginning(whole, one);
                service = service.max(took);
                answer.tokens.first().cloned()
            });
            if known.is_some() && greedy.is_none() || known.is_none() && place == 0 {
                // The text ends here, or goes where the recording did not: it is asked for by itself.
                break;
            }
            let (given, greedy) = (token(id), greedy.unwrap_or_else(|| token(id)));
            judgement.tokens.push(Judged { given, greedy });
            tokens.push(id);
        }
        (judgement, service)
    }
}

impl Cloud for Player {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        let exchange = self.record.exchange.ok_or(CloudError::NotOpened)?;
        Ok(Handshake { exchange, times: Default::default() })
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        match self.begin(ask) {
            Some(answer) => answer.await,
            None => Err(CloudError::NotOpened),
        }
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let request = self.request(ask)?;
        self.send(&request)?;
        let known = self.record.answers.get(&(ask.tokens.to_vec(), ask.text.to_owned()));
        let known = known.map(|whole| beginning(whole, ask.want));
        let rtt = self.rtt;
        Some(Box::pin(async move {
            // An ask that is not in the record was made behind a guess that will turn out wrong.
            let Some((mut answer, service)) = known else {
                tokio::time::sleep(rtt).await;
                return Err(CloudError::NotOpened);
            };
            tokio::time::sleep(rtt + service).await;
            answer.times.network = rtt;
            Ok(answer)
        }))
    }

    fn judges_asks(&self) -> bool {
        self.record.exchange == Some(Exchange::Ids)
    }

    fn begin_judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Option<Pending<Judgement>> {
        let Draft::Ids(ids) = draft else { return None };
        let NextRequest { position, hash, append, .. } = self.request(ask)?;
        let continuation = Piece::Ids(ids.to_vec());
        self.send(&ScoreRequest { position, hash, append, continuation })?;
        let ((mut judgement, service), rtt) = (self.judged(ask, ids), self.rtt);
        Some(Box::pin(async move {
            tokio::time::sleep(rtt + service).await;
            judgement.times.network = rtt;
            Ok(judgement)
        }))
    }

    fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }
}

#[cfg(test)]
mod tests {
    use decode::{AnswerToken, trace::Times};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_recorded_answer_is_played_as_long_as_it_is_wanted() {
        let token = |id| AnswerToken { id: Some(Token(id)), text: "a".into(), logprob: None };
        let times = Times { cloud_decode: ms(200), cloud_prefill: ms(50), ..Times::default() };
        let mut answer =
            Answer { tokens: (0..4).map(token).collect(), end: true, ..Answer::default() };
        (answer.times, answer.usage.decoded) = (times, 4);
        let whole = (answer, ms(250));
        let (one, took) = beginning(&whole, AnswerLength::Tokens(1));
        assert_eq!((one.tokens.len(), one.end, one.usage.decoded), (1, false, 1));
        assert_eq!((one.times.cloud_decode, took), (ms(50), ms(100)));
        for want in [AnswerLength::Tokens(4), AnswerLength::Tokens(9), AnswerLength::Word] {
            assert_eq!(beginning(&whole, want), whole);
        }
    }
}
