//! Collecting live use, and the cloud's figures, over real HTTP with the real small model.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{path::Path, sync::Arc};

use cloud::{
    Address, Opening, Remote, Service, ServiceConfig, Settings,
    protocol::{EdgeModel, EdgeState, Prompt, id_bytes, prefix_hash},
    service::Collector,
};
use decode::{
    Exchange, Limits, OnCloudError, Reading, Routing, Sampling, Session, SessionInput, Step,
    Threshold, Token, Vocabulary, fake::FakeVocabulary,
};
use engine::{LoadOptions, Model};
use lab::collect::{Collection, Label, LabelSource, Sample, TrafficCollector};
use reqwest::Client;
use router::Constant;
use serde_json::{Value, json};
use tandem_server::cloud::{Config, LazyModel};

use crate::common::{self, SURE, edge, settings, small, start};

/// So begun, a text has one way to go on: the cloud's first choice is the same in batches of any size.
const BEGUN: &str = "1, 2, 3, 4, 5, 6, 7, 8, 9,";
const QUESTION: &str = "Count to twenty.";

struct Peer {
    client: Client,
    address: Address,
    collector: Arc<TrafficCollector>,
}

impl Peer {
    async fn new(folder: &Path) -> Self {
        let collector = Arc::new(TrafficCollector::start(folder.into(), "large".into()).unwrap());
        let config = Config { collector: Some(collector.clone()), ..Config::default() };
        let options = LoadOptions { sequences: 2, cells: 2048, ..small() };
        let address = start(options, config).await;
        cloud::http::provide_cryptography();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { client, address, collector }
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.address)).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    /// Ids travel: no vocabulary is given.
    async fn open(&self, edge: Option<&EdgeModel>, from: Option<&str>) -> Value {
        let mut body = json!({"prompt": {"text": BEGUN}});
        if let Some(edge) = edge {
            body["edge"] = json!(edge);
        }
        if let Some(from) = from {
            body["from"] = json!(from);
        }
        let (status, opened) = self.post("/v1/sessions", &body).await;
        assert_eq!(status, 200, "{opened}");
        opened
    }

    async fn next(&self, session: &Value, body: &Value) -> (u16, Value) {
        let id = session["session"].as_str().unwrap();
        self.post(&format!("/v1/sessions/{id}/next"), body).await
    }

    async fn metrics(&self) -> String {
        let response = self.client.get(format!("{}/metrics", self.address)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
        response.text().await.unwrap()
    }

    /// What was collected, once everything is on the disk.
    fn samples(&self, folder: &Path) -> Vec<Sample> {
        self.collector.finish();
        Collection::read(folder).unwrap().samples().unwrap()
    }
}

fn ids(sequence: u64, before: &[u64], sampling: &Value) -> Value {
    let prefix: Vec<Token> = before.iter().map(|&t| Token(t as u32)).collect();
    json!({
        "sequence": sequence,
        "position": before.len(),
        "hash": prefix_hash(id_bytes(&prefix)),
        "append": {"ids": []},
        "want": {"tokens": 1},
        "sampling": sampling,
    })
}

fn seen(proposed: u64) -> Value {
    told(Exchange::Ids, &FakeVocabulary::new(&[]), proposed)
}

fn told(exchange: Exchange, vocabulary: &FakeVocabulary, proposed: u64) -> Value {
    let step = Step {
        position: 1,
        logits: vec![0.0, 1.0],
        hidden: vec![0.5, 0.25, -1.0],
        proposed: Token(proposed as u32),
        reading: Reading::default(),
    };
    json!(EdgeState::new(&step, exchange, vocabulary).unwrap())
}

fn with(mut question: Value, edge: Value) -> Value {
    question["edge"] = edge;
    question
}

fn edge_model(name: &str) -> EdgeModel {
    EdgeModel { name: name.into(), fingerprint: format!("hash of {name}"), hidden: 3 }
}

/// The number of a metric; all its labels together.
fn figure(metrics: &str, name: &str) -> f64 {
    let lines: Vec<f64> = metrics
        .lines()
        .filter(|line| line.split(['{', ' ']).next() == Some(name))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(!lines.is_empty(), "{name} in {metrics}");
    lines.iter().sum()
}

#[tokio::test]
async fn an_ask_with_states_becomes_one_sample_with_the_clouds_likeliest_token() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(folder.path()).await;
    let session = peer.open(Some(&edge_model("small")), None).await;
    assert_eq!(session["sharing"], "welcome", "{session}");
    let greedy = json!({});
    let (_, first) = peer.next(&session, &ids(1, &[], &greedy)).await;
    let token = first["tokens"][0]["id"].as_u64().unwrap();
    let likely = first["tokens"][0]["logprob"].as_f64().unwrap().exp();
    assert!(likely > SURE.into(), "{first}");

    // Truncated to the beginning, and asked with states: what the cloud holds likeliest is known.
    let question = with(ids(2, &[], &greedy), seen(token));
    let (status, answer) = peer.next(&session, &question).await;
    assert_eq!((status, answer["tokens"][0]["id"].as_u64()), (200, Some(token)));
    // The same question again, and the same place under another number: counted once.
    assert_eq!(peer.next(&session, &question).await.1, answer);
    assert_eq!(peer.next(&session, &with(ids(3, &[], &greedy), seen(99))).await.0, 200);
    // However hot the cloud draws, it is the likeliest token that counts.
    let hot = json!({"temperature": 5.0, "seed": 3});
    let (_, plain) = peer.next(&session, &ids(4, &[token], &greedy)).await;
    let likeliest = plain["tokens"][0]["id"].as_u64().unwrap();
    let (status, drawn) = peer.next(&session, &with(ids(5, &[token], &hot), seen(likeliest))).await;
    assert_eq!(status, 200, "{drawn}");
    assert_ne!(drawn["tokens"][0]["id"].as_u64(), Some(likeliest), "choose another seed");

    let metrics = peer.metrics().await;
    assert_eq!(figure(&metrics, "tandem_cloud_collected_samples_total"), 2.0);
    assert_eq!(figure(&metrics, "tandem_cloud_lost_samples_total"), 0.0);
    let samples = peer.samples(folder.path());
    let kept = |s: &Sample| (s.example, s.position, s.agrees, s.label_source, s.label);
    assert_eq!(
        samples.iter().map(kept).collect::<Vec<_>>(),
        [
            (0, 0, Some(true), LabelSource::Traffic, Label::Unknown),
            (0, 1, Some(true), LabelSource::Traffic, Label::Unknown)
        ]
    );
    assert_eq!(samples[0].hidden.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), [0.5, 0.25, -1.0]);
}

#[tokio::test]
async fn across_vocabularies_the_edges_piece_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(folder.path()).await;
    let edge = json!(edge_model("small"));
    let prompt = json!({"text": "The capital of Italy is Rome. The capital of France is"});
    let body = json!({"prompt": prompt, "vocabulary": "another", "edge": edge});
    let (_, session) = peer.post("/v1/sessions", &body).await;
    assert_eq!((&session["exchange"], &session["sharing"]), (&json!("text"), &json!("welcome")));
    // Everything the edge can say: two words, single characters, and the end.
    let vocabulary = FakeVocabulary::new(&[" Paris", " Lyon"]);
    let proposals = [" Paris", " Lyon", "", ""].map(|word| vocabulary.encode(word));
    let mut before = String::new();
    for (sequence, proposal) in (1..).zip(proposals) {
        let proposed = proposal.first().map_or(0, |token| u64::from(token.0));
        let question = json!({
            "sequence": sequence,
            "position": before.len(),
            "hash": prefix_hash(&before),
            "append": {"text": ""},
            "want": {"word": true},
            "edge": told(Exchange::Text, &vocabulary, proposed),
        });
        let (status, answer) = peer.next(&session, &question).await;
        assert_eq!(status, 200, "{answer}");
        let word = answer["tokens"].as_array().unwrap();
        let likely = word[0]["logprob"].as_f64().unwrap().exp();
        assert!(sequence > 1 || likely > SURE.into(), "{answer}");
        before.extend(word.iter().map(|token| token["text"].as_str().unwrap()));
    }
    assert!(before.starts_with(" Paris"), "{before:?}");
    let samples = peer.samples(folder.path());
    let agrees: Vec<_> = samples.iter().map(|s| s.agrees.unwrap()).collect();
    assert_eq!(agrees, [true, false, false, false]);
    assert!(samples.is_sorted_by_key(|s| s.position));
}

#[tokio::test]
async fn what_is_malformed_or_not_welcome_is_said_and_costs_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(folder.path()).await;
    let session = peer.open(Some(&edge_model("small")), None).await;
    let good = seen(5);
    let broken = |field: &str, value: Value| {
        let mut seen = good.clone();
        seen[field] = value;
        with(ids(1, &[], &json!({})), seen)
    };
    for (question, says) in [
        (broken("hidden", json!("?")), "no base64"),
        (broken("hidden", json!("AAAA")), "3 bytes"),
        (broken("hidden", json!("AH4AfgB+")), "no finite number"),
        (broken("features", json!([0.5])), "1 features"),
        (broken("proposed", json!(u32::MAX)), "not in the vocabulary"),
        (broken("more", json!(1)), "unknown field"),
    ] {
        let (status, refused) = peer.next(&session, &question).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(says), "{refused}");
    }
    // Nothing was lost: the same number is answered now.
    assert_eq!(peer.next(&session, &with(ids(1, &[], &json!({})), good.clone())).await.0, 200);

    let other = peer.open(Some(&edge_model("tiny")), None).await;
    let reason = other["sharing"]["refused"].as_str().unwrap().to_owned();
    assert!(reason.contains("small") && reason.contains("tiny"), "{reason}");
    // It is answered as any other, but its states are not taken.
    let (status, refused) = peer.next(&other, &with(ids(1, &[], &json!({})), good)).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(peer.next(&other, &ids(1, &[], &json!({}))).await.0, 200);
    // An edge that offers nothing hears nothing.
    assert!(peer.open(None, None).await.get("sharing").is_none());
    assert_eq!(peer.samples(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_conversation_keeps_its_number_over_its_turns() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(folder.path()).await;
    let offer = edge_model("small");
    let question = || with(ids(1, &[], &json!({})), seen(5));
    let first = peer.open(Some(&offer), None).await;
    peer.next(&first, &question()).await;
    let turn = peer.open(Some(&offer), first["session"].as_str()).await;
    peer.next(&turn, &question()).await;
    let another = peer.open(Some(&offer), None).await;
    peer.next(&another, &question()).await;
    let samples = peer.samples(folder.path());
    assert_eq!(samples.iter().map(|s| s.example).collect::<Vec<_>>(), [0, 0, 1]);
}

/// Four tokens of the cloud's: the text, the bytes that left the device, and the words the cloud was
/// given.
async fn shared(
    settings: Settings,
    model: &Model,
    offer: Option<&EdgeModel>,
) -> (String, usize, String) {
    let messages = common::messages(QUESTION);
    let edge = Some(common::edge_side(model, &messages));
    let prompt = Prompt::Messages(messages.clone());
    let mut cloud =
        Remote::new(settings, Opening { prompt, edge, rendered: None, grammar: None }).unwrap();
    if let Some(offer) = offer {
        cloud.share(offer.clone());
    }
    let prompt = model.vocabulary().prompt(&messages).unwrap();
    let sampling = Sampling::default();
    let written = model.vocabulary().encode(BEGUN);
    let limits = Limits { max_tokens: written.len() + 4, stops: vec![] };
    let plan = SessionInput { prompt, written, sampling, limits };
    let policy = Threshold::ALWAYS.into();
    let on_error = OnCloudError::Fail;
    let routing = Routing { router: Constant::Always, policy, cloud: &mut cloud, on_error };
    let sequence = model.open().await.unwrap();
    let mut session = Session::new(sequence, Some(routing), plan).unwrap().with_details(0);
    let mut words = String::new();
    while let Some(span) = session.next().await.unwrap() {
        words.extend(span.tokens.iter().filter_map(|t| t.sent.clone()));
    }
    let (_, _, transcript) = session.into_parts();
    let asked = transcript.shown().iter().filter_map(|t| t.logprob);
    assert!(asked.clone().count() == 4 && asked.map(f32::exp).all(|p| p > SURE), "{words}");
    let told = (transcript.text(), transcript.stats().sent_bytes, words);
    cloud.close().await;
    told
}

/// The cloud is the same model with the same context.
fn check_shared(samples: &[Sample], hidden: usize) {
    assert_eq!(samples.len(), 4);
    assert!(samples.iter().all(|s| s.hidden.len() == hidden && s.agrees == Some(true)));
    assert!(samples.iter().all(|s| s.features[0] > 0.0));
}

#[tokio::test]
async fn an_edge_shares_only_what_was_wanted_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, model) = (Peer::new(folder.path()).await, edge().await);
    let plain =
        start(LoadOptions { sequences: 2, cells: 2048, ..small() }, Config::default()).await;
    let hidden = model.hidden_len();
    let offer = EdgeModel { hidden, ..edge_model("small") };
    let sent = shared(settings(&peer.address), &model, Some(&offer)).await;
    let kept = shared(settings(&peer.address), &model, None).await;
    let refused = shared(settings(&plain), &model, Some(&offer)).await;
    assert_eq!(sent.0, kept.0);
    // Four asks with a state of half precision in base64 each; the account says so.
    let most = 4 * (hidden * 2).div_ceil(3) * 4;
    assert!(sent.1 > kept.1 + most, "{} {} {most}", sent.1, kept.1);
    assert!(sent.2.contains("hidden state") && !kept.2.contains("hidden state"));
    // A cloud that does not collect is sent the offer, and no state.
    assert!(refused.1 < kept.1 + 400, "{} {}", refused.1, kept.1);
    assert!(!refused.2.contains("hidden state"));
    check_shared(&peer.samples(folder.path()), hidden);
}

#[tokio::test]
async fn a_cloud_in_the_same_process_collects_too() {
    let (folder, model) = (tempfile::tempdir().unwrap(), edge().await);
    let collector = TrafficCollector::start(folder.path().into(), "large".into()).unwrap();
    let collector = Arc::new(collector);
    let config = ServiceConfig { collector: Some(collector.clone()), ..ServiceConfig::default() };
    let service = Arc::new(Service::new(LazyModel::new(common::compute(), small()), config));
    let hidden = model.hidden_len();
    let offer = EdgeModel { hidden, ..edge_model("small") };
    let (_, bytes, words) = shared(Settings::in_process(service), &model, Some(&offer)).await;
    assert_eq!(bytes, 0);
    assert!(words.contains("hidden state"), "{words}");
    collector.finish();
    check_shared(&Collection::read(folder.path()).unwrap().samples().unwrap(), hidden);
}

#[tokio::test]
async fn the_figures_say_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::new(folder.path()).await;
    let session = peer.open(None, None).await;
    let (mut written, mut prefilled, mut cached, mut decoded) = (vec![], 0.0, 0.0, 0.0);
    for sequence in 1..=3 {
        let (_, answer) = peer.next(&session, &ids(sequence, &written, &json!({}))).await;
        written.push(answer["tokens"][0]["id"].as_u64().unwrap());
        prefilled += answer["prefilled"].as_f64().unwrap();
        cached += answer["cached"].as_f64().unwrap();
        decoded += answer["decoded"].as_f64().unwrap();
    }
    assert_eq!(peer.next(&session, &ids(1, &[], &json!({}))).await.0, 409);
    assert_eq!(peer.post("/nowhere", &json!({})).await.0, 404);

    let metrics = peer.metrics().await;
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for (name, kind) in [
        ("requests", "counter"),
        ("prefilled_tokens", "counter"),
        ("cached_tokens", "counter"),
        ("decoded_tokens", "counter"),
        ("collected_samples", "counter"),
        ("lost_samples", "counter"),
        ("sessions", "gauge"),
        ("queued_seconds", "histogram"),
        ("work_seconds", "histogram"),
    ] {
        assert!(metrics.contains(&format!("# HELP tandem_cloud_{name} ")), "{name}: {metrics}");
        assert!(metrics.contains(&format!("# TYPE tandem_cloud_{name} {kind}\n")), "{name}");
    }
    // Every other line is a name of ours, perhaps with labels, and a number.
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("tandem_cloud_"), "{line}");
        number.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
    }
    let next = "tandem_cloud_requests_total{route=\"/v1/sessions/{id}/next\"";
    assert!(metrics.contains(&format!("{next},status=\"200\"}} 3\n")), "{metrics}");
    assert!(metrics.contains(&format!("{next},status=\"409\"}} 1\n")), "{metrics}");
    assert!(metrics.contains("{route=\"other\",status=\"404\"} 1\n"), "{metrics}");
    assert_eq!(figure(&metrics, "tandem_cloud_prefilled_tokens_total"), prefilled);
    assert_eq!(figure(&metrics, "tandem_cloud_cached_tokens_total"), cached);
    assert_eq!(figure(&metrics, "tandem_cloud_decoded_tokens_total"), decoded);
    assert_eq!(figure(&metrics, "tandem_cloud_sessions"), 1.0);
    assert_eq!(figure(&metrics, "tandem_cloud_work_seconds_count"), 3.0);
    assert_eq!(figure(&metrics, "tandem_cloud_queued_seconds_count"), 3.0);
    assert_eq!(figure(&metrics, "tandem_cloud_collected_samples_total"), 0.0);
    // A folder is begun by the first offer, not before.
    assert!(!folder.path().join("collection.json").exists());
}
