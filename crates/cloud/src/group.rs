//! Several clouds that are to serve the same model: which of them are well, and whether they do.
//!
//! A cloud is proven before a conversation goes there: it continues a fixed text, and its tokens and
//! their log-probabilities must be those of the first cloud that did so. That both vocabularies are the
//! edge's is found out besides, when a conversation is opened.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use decode::{AnswerLength, AnswerToken, Ask, Cloud, CloudError, OnCloudError, Sampling};

use crate::{CloudState, Opening, Remote, Settings, Target, breaker::Breaker, protocol::Prompt};

/// What every cloud continues to show which model it serves. What follows is known to most models, but to
/// each of them as well as it knows it.
const TEXT: &str = "Mary had a little lamb, its fleece was white as";

/// How many tokens of that are compared.
const TOKENS: usize = 16;

/// How far the log-probability of a token may be off. Kernels and batches of one quantised model move it
/// by a tenth or two; two models are further apart somewhere in the text.
const TOKEN_TOLERANCE: f32 = 0.5;

/// How far they may be off in the mean.
const MEAN_TOLERANCE: f32 = 0.2;

/// How many tokens have to be the same, before rounding may have decided between two.
const LEAST_SAME: usize = 4;

/// How long a cloud that serves another model is not asked what it serves.
const REFUSAL: Duration = Duration::from_secs(30);

/// Clouds of one model, as all conversations with them share them.
#[derive(Debug)]
pub struct CloudGroup {
    members: Vec<Member>,
    /// What the first cloud wrote that was asked, and which one that was.
    reference: Mutex<Option<(String, Vec<AnswerToken>)>>,
}

#[derive(Debug)]
struct Member {
    settings: Settings,
    /// Who finds out that a cloud fails finds it out for all.
    breaker: Arc<Mutex<Breaker>>,
    proof: tokio::sync::Mutex<Proof>,
    /// Whether it answered when it was last asked; `None` before that.
    answered: Mutex<Option<bool>>,
    /// Whether somebody finds out whether it is back.
    checking: AtomicBool,
}

#[derive(Debug, Default)]
enum Proof {
    /// It was not asked, or failed since: somebody else may answer there now.
    #[default]
    None,
    Same,
    Another(CloudError, Instant),
}

impl CloudGroup {
    /// Clouds in order of preference. Each has its part of the time of an ask, so that an ask keeps its
    /// deadline also where all but the last of them hang.
    pub fn new(settings: Vec<Settings>) -> Self {
        let parts = u32::try_from(settings.len().max(1)).unwrap_or(u32::MAX);
        let member = |settings: Settings| Member {
            settings: Settings { deadline: settings.deadline / parts, ..settings },
            breaker: Arc::default(),
            proof: tokio::sync::Mutex::default(),
            answered: Mutex::default(),
            checking: AtomicBool::new(false),
        };
        Self { members: settings.into_iter().map(member).collect(), reference: Mutex::default() }
    }

    /// The settings of each, in order.
    pub fn settings(&self) -> impl Iterator<Item = &Settings> {
        self.members.iter().map(|member| &member.settings)
    }

    /// Whether asks will be answered, as far as is known without asking: by the model in this process, or by
    /// what the last asks met. `None` where nobody was asked yet.
    pub fn state(&self) -> Option<CloudState> {
        let states: Vec<_> = self.members.iter().map(Member::state).collect();
        // One that answers is enough, and one that was not tried may be it.
        let enough = [Some(CloudState::Ready), None];
        let best = enough.into_iter().find(|state| states.contains(state));
        best.unwrap_or_else(|| states.first().copied().flatten())
    }

    /// How an ask of this cloud ended. What is wrong with the ask itself says nothing of the cloud.
    pub(crate) fn asked<T>(&self, at: usize, outcome: &Result<T, CloudError>) {
        let answered = match outcome {
            Ok(_) => true,
            Err(error) if error.is_outage() => false,
            Err(_) => return,
        };
        if let Some(member) = self.members.get(at) {
            *lock(&member.answered) = Some(answered);
        }
    }

    /// A conversation with each of them.
    pub(crate) fn conversations(&self, opening: &Opening) -> Result<Vec<Remote>, CloudError> {
        if let [only] = self.members.as_slice() {
            return Ok(vec![Remote::new(only.settings.clone(), opening.clone())?]);
        }
        self.members.iter().map(|member| member.remote(opening.clone())).collect()
    }

    /// Who is meant, in messages.
    pub(crate) fn name(&self, at: usize) -> String {
        self.members.get(at).map(|member| member.settings.target.to_string()).unwrap_or_default()
    }

    /// Fails unless this cloud serves the model that the others serve.
    pub async fn prove(&self, at: usize) -> Result<(), CloudError> {
        let Some(member) = self.members.get(at) else { return Err(CloudError::NotOpened) };
        let mut proof = member.proof.lock().await;
        match &*proof {
            Proof::Same => return Ok(()),
            Proof::Another(error, since) if since.elapsed() < REFUSAL => return Err(error.clone()),
            Proof::Another(..) | Proof::None => {}
        }
        let written = member.continuation().await?;
        let mut reference = lock(&self.reference);
        let (known, tokens) = reference.get_or_insert_with(|| (self.name(at), written.clone()));
        if let Err(reason) = same_model(tokens, &written) {
            let (url, known) = (self.name(at), known.clone());
            let error = CloudError::AnotherModel { url, known, reason };
            tracing::warn!("{error}");
            *proof = Proof::Another(error.clone(), Instant::now());
            return Err(error);
        }
        *proof = Proof::Same;
        Ok(())
    }

    /// How much of an ask's time is this cloud's.
    pub(crate) fn part(&self, at: usize) -> Duration {
        self.members.get(at).map_or(Settings::DEADLINE, |member| member.settings.deadline)
    }

    /// It did not answer what was begun then.
    pub(crate) fn failed(&self, at: usize, begun: Instant, error: &CloudError) {
        if let Some(member) = self.members.get(at) {
            lock(&member.breaker).failed(begun, Instant::now(), error);
        }
    }

    /// It failed: whoever answers there next may serve another model.
    pub(crate) fn doubt(&self, at: usize) {
        if let Some(Ok(mut proof)) = self.members.get(at).map(|member| member.proof.try_lock())
            && matches!(*proof, Proof::Same)
        {
            *proof = Proof::None;
        }
    }

    /// Whether nothing is known against it.
    pub(crate) fn is_well(&self, at: usize) -> bool {
        self.members.get(at).is_some_and(|member| lock(&member.breaker).is_well())
    }

    /// Finds out in the background whether clouds before this one are back, so that no text waits for
    /// one that is not.
    pub(crate) fn check_before(self: &Arc<Self>, at: usize) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for (before, member) in self.members.iter().enumerate().take(at) {
            let due = lock(&member.breaker).is_due(Instant::now());
            if due && !member.checking.swap(true, Ordering::SeqCst) {
                let group = self.clone();
                runtime.spawn(async move {
                    let outcome = group.prove(before).await;
                    let member = &group.members[before];
                    if outcome.is_ok() {
                        lock(&member.breaker).succeeded();
                        tracing::warn!("the cloud at {} is back", group.name(before));
                    }
                    member.checking.store(false, Ordering::SeqCst);
                });
            }
        }
    }
}

impl Member {
    fn state(&self) -> Option<CloudState> {
        match &self.settings.target {
            Target::InProcess(service) => Some(service.state()),
            Target::Http(_) => lock(&self.answered).map(|answered| match answered {
                true => CloudState::Ready,
                false => CloudState::Unreachable,
            }),
        }
    }

    /// A conversation. Another cloud takes over where this one fails, so it never waits.
    fn remote(&self, opening: Opening) -> Result<Remote, CloudError> {
        let settings = Settings { on_error: OnCloudError::Fail, ..self.settings.clone() };
        Ok(Remote::new(settings, opening)?.with_breaker(self.breaker.clone()))
    }

    /// What it writes behind the text that all are given.
    async fn continuation(&self) -> Result<Vec<AnswerToken>, CloudError> {
        let mut remote = self.remote(Opening::alone(Prompt::Text(TEXT.into())))?;
        remote.open().await?;
        let (want, sampling) = (AnswerLength::Tokens(TOKENS), Sampling::default());
        let answer = remote.next(Ask { tokens: &[], text: "", want, sampling: &sampling }).await;
        // A session that is not closed would push out somebody else's later.
        remote.close().await;
        Ok(answer?.tokens)
    }
}

/// Whether two greedy continuations of one text are one model's. Rounding may decide between two tokens
/// that are equally likely; behind such a place the texts differ and say nothing.
fn same_model(ours: &[AnswerToken], theirs: &[AnswerToken]) -> Result<(), String> {
    let (mut compared, mut distance) = (0usize, 0.0);
    for (one, other) in ours.iter().zip(theirs) {
        let same = match (one.id, other.id) {
            (Some(one), Some(other)) => one == other,
            _ => one.text == other.text,
        };
        let apart = one.logprob.zip(other.logprob).map(|(one, other)| (one - other).abs());
        match (same, apart) {
            (true, None) => {}
            (true, Some(apart)) if apart <= TOKEN_TOLERANCE => {
                (compared, distance) = (compared + 1, distance + apart);
            }
            // A tie, or nearly.
            (false, Some(apart)) if apart <= TOKEN_TOLERANCE && compared >= LEAST_SAME => break,
            (true, Some(_)) => {
                return Err(format!("both write {:?}, but not as likely", one.text));
            }
            (false, _) => {
                return Err(format!("it writes {:?} where {:?} is expected", other.text, one.text));
            }
        }
    }
    let mean = distance / compared.max(1) as f32;
    if mean > MEAN_TOLERANCE {
        return Err(format!("the likelihood of its tokens is {mean:.2} nats off in the mean"));
    }
    if ours.len() != theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.text == b.text) {
        return Err("its text ends elsewhere".into());
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use decode::Token;

    use super::*;

    fn tokens(written: &[(u32, f32)]) -> Vec<AnswerToken> {
        let token = |&(id, logprob): &(u32, f32)| AnswerToken {
            id: Some(Token(id)),
            text: format!(" {id}"),
            logprob: Some(logprob),
        };
        written.iter().map(token).collect()
    }

    #[test]
    fn one_model_is_told_from_another() {
        let ours = tokens(&[(1, -0.01), (2, -0.5), (3, -0.1), (5, -0.01), (6, -0.8), (7, -1.4)]);
        let alike = |theirs: &[(u32, f32)]| same_model(&ours, &tokens(theirs));
        let begun = [(1, -0.01), (2, -0.4), (3, -0.1)];
        let alike = |rest: &[(u32, f32)]| alike(&[&begun[..], rest].concat());
        alike(&[(5, -0.01), (6, -0.9), (7, -1.3)]).unwrap();
        // Rounding chose between two that are equally likely.
        alike(&[(5, -0.01), (9, -0.85), (1, -4.0)]).unwrap();
        for (theirs, says) in [
            ([(5, -0.01), (9, -0.2), (1, -1.0)], "where \" 6\" is expected"),
            ([(9, -0.01), (6, -0.8), (7, -1.4)], "where \" 5\" is expected"),
            ([(5, -0.9), (6, -0.8), (7, -1.4)], "not as likely"),
            ([(5, -0.49), (6, -0.35), (7, -0.95)], "in the mean"),
        ] {
            let reason = alike(&theirs).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
        assert!(same_model(&ours, &ours[..2]).is_err());
    }

    #[test]
    fn without_likelihoods_every_token_counts() {
        let bare = |ids: &[u32]| -> Vec<_> {
            let bare = |token: AnswerToken| AnswerToken { logprob: None, ..token };
            tokens(&ids.iter().map(|&id| (id, 0.0)).collect::<Vec<_>>())
                .into_iter()
                .map(bare)
                .collect()
        };
        same_model(&bare(&[1, 2, 3]), &bare(&[1, 2, 3])).unwrap();
        assert!(same_model(&bare(&[1, 2, 3]), &bare(&[1, 2, 4])).is_err());
    }
}
