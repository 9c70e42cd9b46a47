//! The session protocol as random sequences of calls, against a model of what it promises, and what else it
//! does with a model of one tiny layer. `TANDEM_SEED` and `TANDEM_CALLS` run another sequence, or a longer one.

use std::{env, fs, path::Path, pin::pin};

use decode::{Sampling, Token};
use engine::{Compute, LoadOptions};
use futures_util::{FutureExt, future::join_all};
use tandem_cloud::{
    CloudState, Service, ServiceConfig,
    protocol::{Amount, NextRequest, OpenRequest, Piece, Prompt, ScoreRequest, prefix_hash},
    service::{LazyModel, ServiceError},
};

use super::campaign::{self, CONTEXT, Campaign, Draws, gguf};

#[tokio::test]
async fn the_state_says_when_the_model_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::model(&path, "default");
    let options = LoadOptions::new(&path, CONTEXT, 1);
    let compute = Compute::start().unwrap();
    let service = Service::new(LazyModel::new(compute.clone(), options), ServiceConfig::default());
    assert_eq!(service.state(), CloudState::NotLoaded);
    // The model's thread has other work first, so that it cannot be done before it is looked at.
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    drop(compute.work(move || held.recv().is_ok()).now_or_never());
    let mut loading = pin!(service.load());
    assert!(loading.as_mut().now_or_never().is_none());
    assert_eq!(service.state(), CloudState::Loading);
    drop(let_go);
    loading.await.unwrap();
    assert_eq!(service.state(), CloudState::Ready);
}

#[tokio::test]
async fn every_sequence_of_calls_does_what_is_promised() {
    let number = |name: &str, usual: u64| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (seed, calls) = (number("TANDEM_SEED", 7), number("TANDEM_CALLS", 2000));
    let folder = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(campaign::service(folder.path()), Draws::seed(seed));
    for _ in 0..calls {
        campaign.call().await;
    }
    let names = ["open", "next", "again", "wrong", "score", "close", "cancel", "gone"];
    for (name, [done, refused]) in names.iter().zip(campaign.calls) {
        println!("{name}: {done} done, {refused} refused or cancelled");
        assert!(calls < 2000 || done + refused > 10, "{name} was hardly tried");
    }
}

/// What `make fuzz` begins with: this way it is tried where there is no nightly toolchain, too.
#[tokio::test]
async fn the_fuzzers_sequences_do_what_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let service = campaign::service(folder.path());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sessions");
    let mut tried = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let mut campaign = Campaign::new(service.clone(), Draws::Bytes(bytes.into_iter()));
        while !campaign.draws.is_over() {
            campaign.call().await;
        }
        campaign.finish().await;
        tried += 1;
    }
    assert!(tried > 0, "no sequence was tried");
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_refused_by_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    // Words are split by a regular expression that recurses once a character.
    gguf::model(&path, "gpt-4o");
    let context = 2048;
    let options = LoadOptions::new(&path, context, 1);
    let model = LazyModel::new(Compute::start().unwrap(), options);
    let service = Service::new(model, ServiceConfig::default());
    let open = |prompt: Prompt| OpenRequest {
        prompt,
        vocabulary: None,
        from: None,
        edge: None,
        grammar: None,
    };
    let many = vec![decode::Message::user(""); context + 1];
    let bytes = |length: usize| Prompt::Text("a".repeat(length));
    // The longest token counts as 16 bytes here: the last two are tokenized, apart from the rest.
    for (prompt, least) in [
        (Prompt::Messages(many), context + 1),
        (bytes(4_000_000), 250_000),
        (bytes(33_000), 2063),
        (bytes(30_000), 15_000),
        (bytes(5_000), 2500),
    ] {
        match service.open(open(prompt)).await {
            Err(ServiceError::ContextFull { tokens, context: 2048 }) => {
                assert!(tokens.abs_diff(least) <= 1, "{tokens}, not {least}");
            }
            other => panic!("{other:?}"),
        }
    }
    // A long text that fits is opened, and one that is appended does not stay if it does not fit.
    let opened = service.open(open(bytes(4_000))).await.unwrap();
    let append = |text: &str| NextRequest {
        sequence: 1,
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Text(text.into()),
        want: Amount::Tokens(1),
        sampling: Sampling::default(),
        edge: None,
    };
    let refused = service.next(&opened.session, append(&"a".repeat(5_000))).await.unwrap_err();
    // Ids travel here, so that text is refused for what it is.
    assert!(matches!(refused, ServiceError::Invalid { .. }), "{refused}");
    let foreign = Some(decode::Fingerprint("another".into()));
    let words = OpenRequest { vocabulary: foreign, ..open(bytes(100)) };
    let opened = service.open(words).await.unwrap();
    let refused = service.next(&opened.session, append(&"a".repeat(9_000))).await.unwrap_err();
    assert!(matches!(refused, ServiceError::ContextFull { .. }), "{refused}");
    // It is where it was: the same prefix is the session's still.
    let answer = service.next(&opened.session, append("ab")).await.unwrap();
    assert!(answer.cost.prefilled < 200, "{:?}", answer.cost);
}

#[tokio::test]
async fn few_calls_wait_for_one_session_and_none_with_what_cannot_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::model(&path, "default");
    let compute = Compute::start().unwrap();
    let model = LazyModel::new(compute.clone(), LoadOptions::new(&path, CONTEXT, 1));
    let service = Service::new(model, ServiceConfig::default());
    let opened = service
        .open(OpenRequest {
            prompt: Prompt::Text("ab".into()),
            vocabulary: None,
            from: None,
            edge: None,
            grammar: None,
        })
        .await;
    // Keeps the model's thread until it is let go: so short a text may be written before it is looked at.
    let occupied = || {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        drop(compute.work(move || held.recv().is_ok()).now_or_never());
        let_go
    };
    let id = opened.unwrap().session;
    let question = |append: Vec<Token>| NextRequest {
        sequence: 1,
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Ids(append),
        want: Amount::Tokens(2),
        sampling: Sampling::default(),
        edge: None,
    };
    // The first is at work, and all of them ask the same.
    let let_go = occupied();
    let mut all = pin!(join_all((0..100).map(|_| service.next(&id, question(vec![])))));
    assert!(all.as_mut().now_or_never().is_none());
    drop(let_go);
    let answers = all.await;
    let busy = answers.iter().filter(|answer| matches!(answer, Err(ServiceError::Busy))).count();
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!((answered, busy), (33, 67));
    let score = |continuation: Vec<Token>| ScoreRequest {
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Ids(vec![]),
        continuation: Piece::Ids(continuation),
    };
    let let_go = occupied();
    let mut working = pin!(service.score(&id, score(vec![Token(65), Token(66)])));
    assert!(working.as_mut().now_or_never().is_none());
    let long = vec![Token(65); CONTEXT + 1];
    let next = service.next(&id, question(long.clone())).now_or_never();
    assert!(matches!(next, Some(Err(ServiceError::ContextFull { .. }))), "{next:?}");
    let scored = service.score(&id, score(long)).now_or_never();
    assert!(matches!(scored, Some(Err(ServiceError::ContextFull { .. }))), "{scored:?}");
    drop(let_go);
    assert_eq!(working.await.unwrap().tokens.len(), 2);
}
