//! Real serving engines against the embedded cloud.
//!
//! llama-server is started here. vLLM, SGLang, and llama-server with 32-bit weights are started by
//! `make test-engines`, which then runs the ignored test with `TANDEM_ENGINE_URL`,
//! `TANDEM_ENGINE_KEY`, `TANDEM_ENGINE_MODEL` and `TANDEM_ENGINE_POSITIONS` set.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use cloud::{
    Address, Endpoint, Engine, Opening, Remote, Salts, Settings,
    protocol::{Piece, Prompt},
};
use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Edge, Exchange, FinishReason, Limits,
    OnCloudError, Relay, Routing, Sampling, Session, SessionInput, Source, Step, Threshold, Token,
    Verify, Vocabulary,
};
use engine::{LoadOptions, Model};
use models::{Environment, Home, Role};
use router::RouterKind;
use tandem_server::cloud::Config;

use crate::common::{
    Large, SURE, chance, compute, edge, edge_side, llama_server::LlamaServer, messages, model_file,
    settings, start,
};

const TEXTS: [&str; 30] = [
    "Paris is the capital of France, and it lies on the Seine.",
    "Water boils at 100 degrees Celsius at sea level.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))",
    "The answer is (A), because the sum of 12 and 30 is 42.",
    "Once upon a time there was a small house in the woods.",
    "你好，世界！今天天气很好。",
    "It's five o'clock; isn't it time to go home?",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.",
    "The quick brown fox jumps over the lazy dog.",
    "To be, or not to be, that is the question.",
    "{\"name\": \"Ada\", \"age\": 36, \"tags\": [1, 2, 3]}",
    "In 1969 two people walked on the Moon for the first time.",
    "Les enfants jouent dans le jardin après l'école.",
    "Photosynthesis turns light, water and carbon dioxide into sugar.",
    "SELECT name FROM users WHERE age > 30 ORDER BY name;",
    "First, preheat the oven. Second, mix flour and butter.",
    "Das Wetter ist heute schön, und morgen regnet es.",
    "A triangle has three sides and its angles sum to 180 degrees.",
    "Therefore, the answer is 7.",
    "- apples\n- pears\n- plums\n",
    "She said: \"I will be there at noon.\"",
    "The heart pumps blood through the body.",
    "x = 3\ny = x * 2\nif y > 5:\n    print('big')",
    "Mount Everest is 8849 metres high.",
    "🙂 Emoji and naïve café: ünïcödé works.",
    "Dogs are loyal, cats are free, and birds can fly.",
    "The train leaves at 9:45 from platform 3.",
    "Gravity pulls everything towards the centre of the Earth.",
    "<p>Hello, <b>world</b>!</p>",
    "Thank you very much for your help yesterday.",
];

/// How far, in nats, the first choice must be ahead of the second before rounding cannot decide:
/// within one build of llama.cpp, and between two builds. Both quantise what a layer is given to 8
/// bits, so the last bit of a sum can become a step of a hundredth, layer after layer; against the
/// same weights in 32 bits each is off by up to 0.06.
const APART: f32 = 0.1;
const FAR_APART: f32 = 0.25;

fn ask<'a>(tokens: &'a [Token], want: AnswerLength, sampling: &'a Sampling) -> Ask<'a> {
    Ask { tokens, text: "", want, sampling }
}

/// How far the first choice is ahead of the second.
fn gap(step: &Step) -> f32 {
    let distribution = step.distribution();
    (distribution.top1 / distribution.top2).ln()
}

/// What one engine may differ in from the embedded cloud.
struct Tolerance {
    /// How far ahead the first choice must be for both to make it everywhere.
    gap: f32,
    /// Tokens read beyond what is new.
    excess: usize,
    /// Of given tokens' log-probabilities, in the mean, where the engine judges; `None` where it
    /// cannot.
    logprob: Option<f32>,
}

/// A model, and the embedded cloud that serves it.
struct Ours {
    model: Model,
    embedded: Address,
}

impl Ours {
    async fn load(options: LoadOptions) -> Self {
        let model = Model::load(&compute(), options.clone()).await.unwrap();
        Self { model, embedded: start(options, Config::default()).await }
    }
}

/// Teacher-forced over the texts: at every position both are asked for the next token, and both
/// must say what the model itself holds likeliest, having read only what is new.
async fn conform(engine: Settings, ours: Ours, positions: usize, tolerance: Tolerance) {
    let Ours { model, embedded } = ours;
    let mut sequence = model.open().await.unwrap();
    let prompt = model.vocabulary().prompt(&messages("Write something.")).unwrap();
    let opening = || Opening {
        prompt: Prompt::Tokens(prompt.clone()),
        edge: Some(edge_side(&model, &messages("Write something."))),
        rendered: None,
        grammar: None,
    };
    let mut theirs = Remote::new(engine, opening()).unwrap();
    let mut ours = Remote::new(settings(&embedded), opening()).unwrap();
    let sampling = Sampling::default();
    let mut differences = vec![];
    let (mut clear, mut same, mut all, mut worst) = (0, 0, 0, 0);
    for text in TEXTS {
        let mut tokens = model.vocabulary().encode(text);
        tokens.truncate(positions);
        for remote in [&mut theirs, &mut ours] {
            remote.reopen(opening());
            assert_eq!(remote.open().await.unwrap().exchange, Exchange::Ids);
        }
        let context = [prompt.as_slice(), &tokens].concat();
        let kept = sequence.keep_common(&prompt[..prompt.len() - 1]);
        let mut unread = kept..prompt.len();
        let mut steps = vec![];
        for i in 0..tokens.len() {
            let step = sequence.step(&context[unread.clone()]).await.unwrap();
            unread = prompt.len() + i..prompt.len() + i + 1;
            let there =
                theirs.next(ask(&tokens[..i], AnswerLength::Tokens(1), &sampling)).await.unwrap();
            let here =
                ours.next(ask(&tokens[..i], AnswerLength::Tokens(1), &sampling)).await.unwrap();
            all += 1;
            let expected = (!model.vocabulary().is_end(step.proposed)).then_some(step.proposed);
            let agrees = |answer: &Answer| answer.tokens.first().and_then(|t| t.id) == expected;
            let gap = gap(&step);
            assert!(agrees(&here) || gap < FAR_APART, "{text:?} at {i}: {gap}");
            assert!(agrees(&there) || gap < tolerance.gap, "{text:?} at {i}: {gap}");
            if gap > APART {
                clear += 1;
                same += usize::from(agrees(&there));
            }
            // The first text shows an engine's session that its answers are not accepted.
            if i > 0 && text != TEXTS[0] {
                let (there, here) = (there.usage.prefilled.unwrap(), here.usage.prefilled.unwrap());
                assert_eq!(here, 1);
                worst = worst.max(there - here);
                assert!(there <= here + tolerance.excess, "{text:?} at {i}: {there} read");
            }
            steps.push(step);
        }
        differences.extend(judge(&mut theirs, &tokens, &steps, tolerance.logprob.is_some()).await);
    }
    if let Some(most) = tolerance.logprob {
        let mean = differences.iter().sum::<f32>() / differences.len() as f32;
        println!("log-probabilities of {} given tokens differ by {mean:.3}", differences.len());
        assert!(mean < most, "{mean}");
    }
    println!(
        "{all} positions, {clear} of them more than {APART} nat apart: the same token at {same}; \
         at most {worst} tokens read beyond what was new"
    );
    assert!(clear * 10 > all * 7 && same * 100 >= clear * 98, "{same} of {clear} of {all}");
}

/// A whole text judged in one prefill, where the engine can: how far it is from the model's own
/// judgement, token by token.
async fn judge(remote: &mut Remote, tokens: &[Token], steps: &[Step], can: bool) -> Vec<f32> {
    let sampling = Sampling::default();
    let whole = ask(&[], AnswerLength::Tokens(1), &sampling);
    let judged = remote.score(whole, Piece::Ids(tokens.to_vec())).await;
    if !can {
        let error = judged.unwrap_err();
        assert!(matches!(error, CloudError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("log-probabilities"), "{error}");
        return vec![];
    }
    let judged = judged.unwrap();
    assert_eq!(judged.len(), tokens.len());
    let all = judged.iter().zip(steps).zip(tokens);
    all.map(|((judged, step), &token)| {
        if gap(step) > APART {
            assert_eq!(judged.greedy.id, Some(step.proposed));
        }
        let expected = decode::sampling::logprob(&step.logits, token);
        (judged.given.logprob.unwrap() - expected).abs()
    })
    .collect()
}

/// llama-server with the large model, for all tests that want it; it ends when this process does.
static LARGE: LazyLock<LlamaServer> =
    LazyLock::new(|| LlamaServer::start(&model_file(Role::Cloud)));

fn with_key(url: &str, key: &str) -> Settings {
    let (address, key) = (url.parse().unwrap(), Some(key.parse().unwrap()));
    Settings::new(Endpoint { address, key, authority: None })
}

#[tokio::test]
async fn llama_server_says_what_the_small_model_says() {
    // With 32-bit weights, so that two builds of llama.cpp can be held to the same words.
    let home = Home::find(Environment::read()).unwrap();
    let model = home.file("engines/smollm2-135m-instruct-f32.gguf");
    assert!(model.exists(), "{} is missing: run `make test`", model.display());
    let server = LlamaServer::start(&model);
    let options = LoadOptions::new(model, 1024, 2);
    let tolerance = Tolerance { gap: APART, excess: 0, logprob: None };
    let ours = Ours::load(options).await;
    conform(with_key(&server.url(), "sesame"), ours, 8, tolerance).await;
}

#[tokio::test]
async fn llama_server_says_what_the_large_model_says() {
    let Large { model, cloud: embedded } = Large::get().await;
    let tolerance = Tolerance { gap: FAR_APART, excess: 0, logprob: None };
    let ours = Ours { model, embedded };
    conform(with_key(&LARGE.url(), "sesame"), ours, 4, tolerance).await;
}

#[tokio::test]
#[ignore = "needs an engine: run `make test-engines`"]
async fn a_started_engine_says_what_its_model_says() {
    let variable = |name| std::env::var(name).unwrap();
    let settings = with_key(&variable("TANDEM_ENGINE_URL"), &variable("TANDEM_ENGINE_KEY"));
    let engine = Remote::new(settings.clone(), Opening::alone(Prompt::Text("x".into())));
    let engine = engine.unwrap().identify().await.unwrap().engine;
    // vLLM keeps whole blocks only.
    let excess = if engine == Engine::Vllm { 32 } else { 1 };
    // The same weights as those engines have, to the last bit: nothing is left to rounding.
    // One thread: beside an engine that spins while it waits, two would be slower.
    let options = LoadOptions::new(variable("TANDEM_ENGINE_MODEL"), 1024, 1);
    let logprob = (engine != Engine::LlamaServer).then_some(0.05);
    let ours = Ours::load(options).await;
    let positions = variable("TANDEM_ENGINE_POSITIONS").parse().unwrap();
    let tolerance = Tolerance { gap: APART, excess, logprob };
    conform(settings.clone(), ours, positions, tolerance).await;
    if engine != Engine::LlamaServer {
        owners_share_no_cache(settings).await;
    }
}

/// What one owner asked is in the engine's cache for that owner alone.
async fn owners_share_no_cache(settings: Settings) {
    let (salts, sampling) = (Salts::random().unwrap(), Sampling::default());
    let prompt = Prompt::Text("The sea is wide and deep. ".repeat(20));
    let mut cached = vec![];
    for owner in [1, 1, 2] {
        let mut remote = Remote::new(settings.clone(), Opening::alone(prompt.clone())).unwrap();
        remote.separate(Some(salts.of(owner)));
        remote.open().await.unwrap();
        let answer = remote.next(ask(&[], AnswerLength::Tokens(1), &sampling)).await.unwrap();
        cached.push(answer.usage.cached.unwrap());
        remote.close().await;
    }
    assert!(cached[1] > 60 && [cached[0], cached[2]] == [0, 0], "{cached:?}");
}

#[tokio::test]
async fn where_vocabularies_differ_words_travel_as_text() {
    let model = edge().await;
    let (question, begun) = ("Name the capital of France.", "The capital of France is");
    let paris = |_, piece: &[u8]| piece == b" Paris";
    let sure = chance(&Large::get().await.model, question, begun, paris).await;
    assert!(sure > SURE, "{sure}");
    let messages = messages(question);
    for engine in [None, Some(Engine::OpenAi)] {
        let rendered = engine.map(|_| {
            let line = |m: &decode::Message| {
                format!("<|im_start|>{}\n{}<|im_end|>\n", m.role.as_str(), m.content)
            };
            messages.iter().map(line).collect::<String>() + "<|im_start|>assistant\n"
        });
        let opening = Opening {
            prompt: Prompt::Messages(messages.clone()),
            edge: Some(edge_side(&model, &messages)),
            rendered,
            grammar: None,
        };
        let settings = Settings { engine, ..with_key(&LARGE.url(), "sesame") };
        let cloud = Remote::new(settings, opening).unwrap();
        let mut sequence = model.open().await.unwrap();
        let (router, threshold) = (RouterKind::Always.build(0), Threshold::new(1.0).unwrap());
        let routing =
            Routing { router, policy: threshold.into(), cloud, on_error: OnCloudError::Fail };
        let plan = SessionInput {
            prompt: model.vocabulary().prompt(&messages).unwrap(),
            written: model.vocabulary().encode(begun),
            sampling: Sampling::default(),
            limits: Limits { max_tokens: 24, stops: vec![] },
        };
        let mut session = Session::new(&mut sequence, Some(routing), plan).unwrap();
        while session.next().await.unwrap().is_some() {}
        assert_eq!(session.exchange(), Some(Exchange::Text));
        let transcript = session.transcript();
        let text = transcript.text();
        assert!(text.starts_with(&format!("{begun} Paris")), "{text}");
        let cloud = transcript.shown().iter().filter(|t| t.source == Source::Cloud);
        assert!(cloud.clone().count() > 0);
        assert!(cloud.clone().all(|t| t.exchange == Some(Exchange::Text)));
        // The first token of each word tells what the engine read for it.
        let asks: Vec<_> = cloud.filter_map(|t| t.cloud).collect();
        assert!(asks[1..].iter().all(|u| u.cached.unwrap() > 20), "{asks:?}");
    }
}

#[tokio::test]
async fn an_engine_alone_writes_every_character_whole() {
    let mut wide = 0;
    for question in ["Write three emoji.", "用中文说你好。", "日本語で自己紹介してください。"]
    {
        let opening = Opening::alone(Prompt::Messages(messages(question)));
        let remote = Remote::new(with_key(&LARGE.url(), "sesame"), opening).unwrap();
        let limits = Limits { max_tokens: 16, stops: vec![] };
        let mut relay = Relay::new(remote, Sampling::default(), limits);
        while relay.next().await.unwrap().is_some() {}
        let text = relay.transcript().text();
        // An answer that was cut may end inside a character.
        let whole = text.trim_end_matches('\u{fffd}');
        assert!(!whole.contains('\u{fffd}'), "{text:?}");
        wide += whole.chars().filter(|c| *c > '\u{2000}').count();
    }
    // One of the three it will have answered so, whatever it says.
    assert!(wide > 0);
}

/// So many places of a draft are judged with one request.
const SLOTS: usize = 8;

#[tokio::test]
async fn llama_server_judges_drafts_and_the_text_is_its_own() {
    let (model, server) =
        (edge().await, LlamaServer::start_with(&model_file(Role::Edge), SLOTS, 1024));
    let (mut tokens, mut judgements) = (0, 0);
    for question in ["Name three colours.", "Count from one to ten.", "What is the sea?"] {
        let messages = messages(question);
        let prompt = model.vocabulary().prompt(&messages).unwrap();
        let opening = || Opening {
            prompt: Prompt::Messages(messages.clone()),
            edge: Some(edge_side(&model, &messages)),
            rendered: None,
            grammar: None,
        };
        let remote = || Remote::new(with_key(&server.url(), "sesame"), opening()).unwrap();
        let limits = || Limits { max_tokens: 32, stops: vec![] };
        let mut relay = Relay::new(remote(), Sampling::default(), limits());
        while relay.next().await.unwrap().is_some() {}
        let large = relay.transcript().tokens().to_vec();
        let mut sequence = model.open().await.unwrap();
        let input = SessionInput {
            prompt: prompt.clone(),
            written: vec![],
            sampling: Sampling::default(),
            limits: limits(),
        };
        let mut verify = Verify::new(&mut sequence, remote(), input).unwrap();
        while verify.next().await.unwrap().is_some() {}
        assert_eq!(verify.exchange(), Some(Exchange::Ids));
        let (_, _, transcript) = verify.into_parts();
        let written = transcript.tokens();
        tokens += written.len();
        judgements += transcript.stats().asks;
        // The texts may part where two tokens are as good as equal.
        let same = decode::common_prefix(written, &large);
        if same < written.len().max(large.len()) {
            sequence.truncate(0);
            let step =
                sequence.step(&[prompt.as_slice(), &written[..same]].concat()).await.unwrap();
            assert!(gap(&step) < FAR_APART, "{question} at {same}: {}", gap(&step));
        }
    }
    println!("{tokens} tokens in {judgements} judgements");
    // The drafts are those of the same model: nearly all of them are accepted.
    assert!(judgements * 5 < tokens * 2, "{judgements} judgements, {tokens} tokens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_asks_survive_ten_deaths() {
    survive_ten_deaths(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_several_asks_on_their_way_too() {
    survive_ten_deaths(3).await;
}

/// Generations go on, whole and honest, while their cloud is killed and comes back.
async fn survive_ten_deaths(asks_in_flight: usize) {
    const DEATHS: usize = 10;
    let model = edge().await;
    let file = model_file(Role::Edge);
    let server = LlamaServer::start(&file);
    let url = server.url();
    let done = Arc::new(AtomicBool::new(false));
    let told = done.clone();
    let killer = std::thread::spawn(move || {
        let port = server.port;
        let mut server = Some(server);
        for _ in 0..DEATHS {
            std::thread::sleep(Duration::from_millis(700));
            drop(server.take());
            std::thread::sleep(Duration::from_millis(100));
            server = Some(LlamaServer::start_at(&file, port));
        }
        std::thread::sleep(Duration::from_millis(1000));
        told.store(true, Ordering::SeqCst);
        drop(server);
    });
    let (mut asks, mut fallbacks, mut back, mut rounds) = (0, 0, 0, 0);
    let (mut provisional, mut void) = (0, 0);
    let started = Instant::now();
    while !done.load(Ordering::SeqCst) || asks < 200 {
        assert!(started.elapsed() < Duration::from_secs(150), "{asks} asks in {rounds} rounds");
        let messages = messages(&format!("Tell me {rounds} things about the sea."));
        let opening = Opening {
            prompt: Prompt::Messages(messages.clone()),
            edge: Some(edge_side(&model, &messages)),
            rendered: None,
            grammar: None,
        };
        let cloud = Remote::new(with_key(&url, "sesame"), opening).unwrap();
        let (router, threshold) = (RouterKind::Always.build(0), Threshold::new(1.0).unwrap());
        let routing =
            Routing { router, policy: threshold.into(), cloud, on_error: OnCloudError::Keep };
        let mut sequence = model.open().await.unwrap();
        let plan = SessionInput {
            prompt: model.vocabulary().prompt(&messages).unwrap(),
            written: vec![],
            sampling: Sampling::default(),
            limits: Limits { max_tokens: 60, stops: vec![] },
        };
        let session = Session::new(&mut sequence, Some(routing), plan).unwrap();
        let mut session = session.with_asks_in_flight(asks_in_flight);
        let mut streamed = String::new();
        while let Some(span) = session.next().await.unwrap() {
            streamed += &span.text();
        }
        let (transcript, failed) = (session.transcript(), session.cloud_error().is_some());
        let shown = transcript.shown();
        let ended = transcript.finish_reason();
        assert!(matches!(ended, Some(FinishReason::Stop | FinishReason::Length)), "{ended:?}");
        // No token is lost or doubled: they count from 0, and spell what was streamed.
        assert!(shown.iter().enumerate().all(|(i, t)| t.index == i));
        let pieces = transcript.tokens().iter().flat_map(|&t| model.vocabulary().piece(t));
        assert_eq!(String::from_utf8_lossy(&pieces.collect::<Vec<_>>()), streamed);
        // Every token was asked for: it is the cloud's, or marked.
        let count = |source| shown.iter().filter(|t| t.source == source).count();
        assert_eq!(count(Source::Edge), 0);
        assert_eq!(failed, count(Source::Fallback) > 0 || transcript.stats().fallback_end);
        assert!(shown.iter().all(|t| t.cloud.is_some() == (t.source == Source::Cloud)));
        let first = shown.iter().position(|t| t.source == Source::Fallback);
        back += usize::from(
            first.is_some_and(|i| shown[i..].iter().any(|t| t.source == Source::Cloud)),
        );
        let stats = transcript.stats();
        provisional += stats.confirmed_asks + stats.contradicted_asks;
        void += stats.void_asks;
        asks += shown.len();
        fallbacks += count(Source::Fallback);
        rounds += 1;
    }
    killer.join().unwrap();
    println!(
        "{asks} asks in {rounds} generations, {fallbacks} fallbacks, back {back} times; the edge had \
         gone on at {provisional}, {void} asks were void"
    );
    assert_eq!(provisional > 0, asks_in_flight > 0, "{provisional}");
    assert!(asks >= 200 && fallbacks > 0 && back > 0, "{asks} {fallbacks} {back}");
}
