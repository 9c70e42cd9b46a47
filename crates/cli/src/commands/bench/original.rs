//! `tandem bench original`: Tandem beside the loop of the system it grew from.
//!
//! The original's demo has no cache on either side: its small model reads the whole text again for
//! every token, and every ask sends the whole text, has it read again, and brings one token. Here
//! both loops run the same pair, prompts, router, threshold and network, in turn.

use std::{io::Write, sync::Arc, time::Duration};

use cloud::Clouds;
use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Edge, EdgeError, Handshake, Limits, Message,
    OnCloudError, Router, Routing, Sampling, Session, SessionInput, Stats, Step, ThresholdPolicy,
    Token, Vocabulary,
};
use engine::Sequence;
use serde::Serialize;
use tandem::{Introduction, Pair, Prompt, Tandem};

use super::joint::QUESTIONS;
use crate::{args::BenchOriginalArgs, show::print_json};

/// The two models, apart from each other so that either loop can wrap them.
struct Models {
    pair: Arc<tandem::Models>,
    edge: Sequence,
    cloud: Clouds,
}

impl Models {
    /// Tells the cloud which conversation comes next.
    fn introduce(&mut self, messages: &[Message]) -> anyhow::Result<Vec<Token>> {
        let (prompt, on_error) = (&Prompt::Messages(messages.to_vec()), OnCloudError::Fail);
        let tokens = self.pair.tokens(prompt)?;
        let to =
            Introduction { prompt, edge: Some(&tokens), on_error, grammar: None, origin: None };
        self.pair.introduce(&mut self.cloud, to)?;
        Ok(tokens)
    }
}

/// An edge that reads everything again at every step.
struct ForgetfulEdge<E> {
    edge: E,
    text: Vec<Token>,
}

impl<E: Edge> Edge for ForgetfulEdge<E> {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.edge.vocabulary()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn held(&self) -> &[Token] {
        &[]
    }

    fn keep_common(&mut self, _: &[Token]) -> usize {
        self.text.clear();
        0
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.text.extend_from_slice(unread);
        self.edge.keep_common(&[]);
        self.edge.step(&self.text).await
    }
}

/// A cloud that is given the whole conversation at every ask, and says one token.
struct ForgetfulCloud<'a>(&'a mut Clouds);

impl Cloud for ForgetfulCloud<'_> {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.0.open().await
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        self.0.close().await;
        self.0.open().await?;
        self.0.next(Ask { want: AnswerLength::Tokens(1), ..ask }).await
    }
}

/// One loop over all prompts.
#[derive(Serialize)]
struct LoopSummary {
    tokens: usize,
    routed_share: f64,
    asks: usize,
    tokens_per_second: f64,
    time_between_tokens_ms: f64,
    edge_seconds: f64,
    cloud_prefilled: Option<usize>,
    cloud_prefilled_per_ask: Option<f64>,
}

pub async fn original(args: BenchOriginalArgs) -> anyhow::Result<()> {
    args.generate.pair.cloud.location.require_cloud("asks are measured")?;
    let tandem = args.generate.builder()?.build()?;
    let pair = tandem.pair().clone();
    let (edge, cloud) = (pair.open_edge().await?, pair.open_cloud().await?);
    let mut models = Models { pair, edge, cloud };
    let bench = Bench {
        router: tandem.routers().own().build(args.generate.sampling.seed.unwrap_or_default()),
        // Both loops judge alike: a budget would follow each its own way.
        policy: tandem.routers().policy().threshold().into(),
        system: args.generate.system.clone(),
        tokens: args.tokens,
    };
    // Loading the models is not what is measured.
    models.introduce(&bench.messages("Say hi."))?;
    models.cloud.open().await?;
    let (mut ours, mut theirs) = (vec![], vec![]);
    // In turn, so that a slow moment of the machine is shared.
    for question in QUESTIONS.iter().take(args.prompts) {
        ours.push(bench.tandem(&mut models, question).await?);
        theirs.push(bench.original(&mut models, question).await?);
    }
    models.cloud.close().await;
    print(&figures(&ours), &figures(&theirs), &tandem, args.json)
}

struct Bench {
    router: Box<dyn Router>,
    policy: ThresholdPolicy,
    system: String,
    tokens: usize,
}

impl Bench {
    fn messages(&self, question: &str) -> [Message; 2] {
        [Message::system(&self.system), Message::user(question)]
    }

    async fn tandem(&self, models: &mut Models, question: &str) -> anyhow::Result<Stats> {
        let input = self.input(models, question).await?;
        let cloud = &mut models.cloud;
        finish(Session::new(&mut models.edge, Some(self.routing(cloud)), input)?).await
    }

    async fn original(&self, models: &mut Models, question: &str) -> anyhow::Result<Stats> {
        let input = self.input(models, question).await?;
        let edge = ForgetfulEdge { edge: &mut models.edge, text: vec![] };
        let cloud = ForgetfulCloud(&mut models.cloud);
        finish(Session::new(edge, Some(self.routing(cloud)), input)?).await
    }

    fn routing<C>(&self, cloud: C) -> Routing<&dyn Router, C> {
        let (policy, on_error) = (self.policy.clone(), OnCloudError::Fail);
        Routing { router: &*self.router, policy, cloud, on_error }
    }

    /// Every answer begins with nothing read.
    async fn input(&self, models: &mut Models, question: &str) -> anyhow::Result<SessionInput> {
        let messages = self.messages(question);
        models.edge.truncate(0);
        models.cloud.close().await;
        Ok(SessionInput {
            prompt: models.introduce(&messages)?,
            written: vec![],
            sampling: Sampling::default(),
            limits: Limits { max_tokens: self.tokens, stops: vec![] },
        })
    }
}

async fn finish<E: Edge, R: Router, C: Cloud>(
    mut session: Session<E, R, C>,
) -> anyhow::Result<Stats> {
    while session.next().await?.is_some() {}
    Ok(session.transcript().stats())
}

fn figures(stats: &[Stats]) -> LoopSummary {
    let sum = |f: fn(&Stats) -> usize| stats.iter().map(f).sum::<usize>();
    let seconds = |f: fn(&Stats) -> Duration| stats.iter().map(f).sum::<Duration>().as_secs_f64();
    let (tokens, asks) = (sum(|s| s.tokens), sum(|s| s.asks));
    let prefilled: Option<usize> = stats.iter().map(|s| s.cloud_prefilled).sum();
    // The first token is the prompt's price.
    let between = seconds(|s| s.total.saturating_sub(s.time_to_first_token));
    let gaps = tokens.saturating_sub(stats.len()).max(1);
    LoopSummary {
        tokens,
        routed_share: sum(|s| s.cloud_tokens) as f64 / tokens.max(1) as f64,
        asks,
        tokens_per_second: tokens as f64 / seconds(|s| s.total).max(f64::EPSILON),
        time_between_tokens_ms: between * 1000.0 / gaps as f64,
        edge_seconds: seconds(|s| s.times.edge_prefill + s.times.edge_decode),
        cloud_prefilled: prefilled,
        cloud_prefilled_per_ask: prefilled.map(|n| n as f64 / asks.max(1) as f64),
    }
}

fn print(
    ours: &LoopSummary,
    theirs: &LoopSummary,
    tandem: &Tandem,
    json: bool,
) -> anyhow::Result<()> {
    let speed = ours.tokens_per_second / theirs.tokens_per_second;
    let between = theirs.time_between_tokens_ms / ours.time_between_tokens_ms;
    let prefilled = ours
        .cloud_prefilled_per_ask
        .zip(theirs.cloud_prefilled_per_ask)
        .map(|(ours, theirs)| theirs / ours.max(f64::EPSILON));
    if json {
        return print_json(&serde_json::json!({
            "tandem": ours,
            "original": theirs,
            "ratios": {
                "tokens_per_second": speed,
                "time_between_tokens": between,
                "cloud_prefilled_per_ask": prefilled,
            },
        }));
    }
    let mut out = std::io::stdout().lock();
    let routers = tandem.routers();
    writeln!(out, "router {}, threshold {}", routers.own(), routers.policy().threshold())?;
    for (name, f) in [("tandem", ours), ("original", theirs)] {
        writeln!(
            out,
            "  {name:8}  {:6.2} tokens/s, one every {:6.1} ms; {} tokens, {:.1} % from the cloud, \
             {} asks, {} tokens prefilled there an ask",
            f.tokens_per_second,
            f.time_between_tokens_ms,
            f.tokens,
            f.routed_share * 100.0,
            f.asks,
            f.cloud_prefilled_per_ask.map_or("?".into(), |n| format!("{n:.1}")),
        )?;
    }
    writeln!(
        out,
        "tandem writes {speed:.1} times as many tokens a second; {between:.1} times shorter gaps"
    )?;
    if let Some(prefilled) = prefilled {
        writeln!(out, "the original prefills {prefilled:.1} times as many tokens an ask")?;
    }
    Ok(())
}
