//! Two `tandem cloud`s over real HTTP, of which one dies, hangs and comes back, with a whole pair of
//! models in front of them.

use std::{path::Path, sync::Arc, time::Duration};

use cloud::{Endpoint, Settings};
use decode::{Limits, OnCloudError, Sampling, Source, Threshold};
use engine::LoadOptions;
use serde_json::Value;
use tandem::{
    Answer, AskConfig, CloudConfig, EdgeConfig, Machine, Mode, Prompt, Request, Store, Tandem,
};
use tandem_server::cloud::Config;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::Instant,
};

use crate::common::{start, tiny};

const DEADLINE: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, PartialEq)]
pub enum LinkState {
    Through,
    /// Connections stay, and nothing passes.
    Hangs,
    /// As if nobody listened.
    Cut,
}

/// Stands before a cloud, so that the link to it can be cut.
pub struct CloudProxy {
    pub endpoint: Endpoint,
    link: watch::Sender<LinkState>,
    passed: Arc<std::sync::atomic::AtomicUsize>,
}

impl CloudProxy {
    pub async fn to(options: LoadOptions) -> Self {
        let cloud = start(options, Config::default()).await.to_string();
        let behind = cloud.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (link, watched) = watch::channel(LinkState::Through);
        let passed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = passed.clone();
        tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let (mut link, behind, count) = (watched.clone(), behind.clone(), count.clone());
                tokio::spawn(async move {
                    let mut there = TcpStream::connect(behind).await.unwrap();
                    if *link.borrow_and_update() == LinkState::Through {
                        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        tokio::select! {
                            _ = copy_bidirectional(&mut here, &mut there) => return,
                            _ = link.wait_for(|state| *state != LinkState::Through) => {}
                        }
                    }
                    // What hung does not go on later: whoever waited gave up.
                    drop(link.wait_for(|state| *state != LinkState::Hangs).await);
                });
            }
        });
        Self { endpoint: Endpoint { address, key: None, authority: None }, link, passed }
    }

    pub fn set(&self, state: LinkState) {
        self.link.send(state).unwrap();
    }
}

fn tandem(edge: &Path, proxies: &[&CloudProxy], on_error: OnCloudError) -> Tandem {
    let clouds = proxies.iter().map(|proxy| Settings::new(proxy.endpoint.clone())).collect();
    Tandem::builder()
        .store(Store::open().unwrap())
        .edge_config(EdgeConfig {
            model: Some(edge.display().to_string()),
            ..EdgeConfig::default()
        })
        .cloud_config(CloudConfig::Remote(clouds))
        .ask_config(AskConfig {
            deadline: DEADLINE,
            on_error,
            in_flight: 2,
            ..AskConfig::default()
        })
        .machine(Machine { context: 512, threads: Some(1), gpu_layers: Some(0) })
        .sampling(Sampling::default(), Some(1))
        .router(router::RouterKind::Top1)
        .mode(Mode::Joint)
        .build()
        .unwrap()
}

fn request() -> Request {
    let routing = tandem::RoutingOverrides {
        threshold: Some(Threshold::ALWAYS),
        ..tandem::RoutingOverrides::default()
    };
    let limits = Limits { max_tokens: 40, stops: vec![] };
    Request::new(Prompt::Text("the cat sat".into()))
        .mode(Mode::Joint)
        .limits(limits)
        .routing(routing)
}

/// A text, in the middle of which something happens.
async fn text(tandem: &Tandem, mut happens: impl FnMut(usize)) -> Answer {
    let mut generation = tandem.generate(request()).await.unwrap();
    for span in 0.. {
        happens(span);
        if generation.next().await.unwrap().is_none() {
            break;
        }
    }
    Answer::new(&generation)
}

fn answered_by(answer: &Answer) -> Vec<usize> {
    answer.tokens.iter().filter_map(|token| token.cloud?.answered_by).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_dies_or_hangs_is_replaced_and_used_again() {
    let home = tempfile::tempdir().unwrap();
    let (edge, large) = (home.path().join("edge.gguf"), home.path().join("large.gguf"));
    tiny::model(&edge, 4);
    tiny::model(&large, 5);
    let options = || LoadOptions::new(&large, 512, 1);
    let (one, two) = (CloudProxy::to(options()).await, CloudProxy::to(options()).await);
    let pair = tandem(&edge, &[&one, &two], OnCloudError::Keep);
    let undisturbed = text(&pair, |_| {}).await;
    assert!(undisturbed.tokens.len() > 20, "{}", undisturbed.tokens.len());
    assert!(answered_by(&undisturbed).iter().all(|&cloud| cloud == 1));
    assert_eq!(two.passed.load(std::sync::atomic::Ordering::SeqCst), 0);
    for trouble in [LinkState::Cut, LinkState::Hangs] {
        let started = Instant::now();
        let answer = text(&pair, |span| {
            if span == 8 {
                one.set(trouble);
            }
        });
        let answer = answer.await;
        // The same text, all of it the cloud's, within the deadline of one ask.
        assert_eq!(answer.text, undisturbed.text);
        assert!(answer.tokens.iter().all(|token| token.source == Source::Cloud));
        assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
        let by = answered_by(&answer);
        let moved = by.iter().position(|&cloud| cloud == 2).unwrap();
        assert!(moved >= 4 && by[moved..].iter().all(|&cloud| cloud == 2), "{by:?}");
        // The summary says so too, as `--json` and the API write it.
        let json: Value = serde_json::to_value(&answer).unwrap();
        assert_eq!(json["stats"]["failovers"], 1, "{}", json["stats"]);
        assert_eq!(json["stats"]["fallbacks"], 0);
        let counts = json["stats"]["asks_by_cloud"].as_array().unwrap();
        assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), json["stats"]["asks"]);
        // While the first is away, texts begin at the second and wait for nobody.
        let started = Instant::now();
        assert!(answered_by(&text(&pair, |_| {}).await).iter().all(|&cloud| cloud == 2));
        assert!(started.elapsed() < DEADLINE / 2, "{:?}", started.elapsed());
        // Once it is back, texts begin there again.
        one.set(LinkState::Through);
        let begun = Instant::now();
        while answered_by(&text(&pair, |_| {}).await).first() != Some(&1) {
            assert!(begun.elapsed() < Duration::from_secs(30), "the first is never used again");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_is_refused_and_the_edge_stands_in() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    tiny::model(&file("edge.gguf"), 4);
    let one = CloudProxy::to(tiny::model(&file("large.gguf"), 5)).await;
    let other = CloudProxy::to(tiny::model(&file("other.gguf"), 6)).await;
    let pair = tandem(&file("edge.gguf"), &[&one, &other], OnCloudError::Keep);
    let undisturbed = text(&pair, |_| {}).await;
    let answer = text(&pair, |span| {
        if span == 8 {
            one.set(LinkState::Cut);
        }
    });
    let answer = answer.await;
    assert!(answer.tokens.iter().any(|token| token.source == Source::Fallback));
    assert!(!answered_by(&answer).contains(&2));
    assert_eq!(undisturbed.tokens[0].text, answer.tokens[0].text);
}
