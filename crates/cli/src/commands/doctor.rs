//! `tandem doctor`: would a joint decode work, and if not, what is to be done?

use std::{io::Write, process::ExitCode, time::Instant};

use cloud::{Address, Engine, Introduction, Remote};
use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Exchange, Limits, Message, OnCloudError,
    Sampling, Threshold, Vocabulary, statistics::percentile,
};
use serde::Serialize;
use tandem::{
    Introduction as Opening, Mode, NamedRouter, Prompt, Request, RoutingOverrides, Tandem, preset,
};

use crate::{
    args::{DoctorArgs, SYSTEM},
    show::print_json,
};

/// How often the way there and back is measured.
const PINGS: usize = 20;

/// Tokens written to measure the cloud's speed.
const TOKENS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    level: Level,
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Check>);

impl Findings {
    fn ok(&mut self, name: &'static str, found: impl Into<String>) {
        self.0.push(Check { name, level: Level::Ok, found: found.into(), advice: None });
    }

    fn add(&mut self, name: &'static str, level: Level, found: String, advice: &str) {
        self.0.push(Check { name, level, found, advice: Some(advice.into()) });
    }

    fn works(&self) -> bool {
        self.0.iter().all(|check| check.level != Level::Fail)
    }
}

pub async fn doctor(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    // A doctor does not wait for the patient to get well, and chooses the router by himself.
    let builder = args.pair.builder(args.preset.as_ref())?;
    let tandem = builder.on_cloud_error(OnCloudError::Fail).mode(Mode::Small).build()?;
    examine(&mut findings, &tandem, &args).await;
    tandem.close().await;
    let works = findings.works();
    if args.json {
        print_json(&serde_json::json!({ "works": works, "checks": findings.0 }))?;
    } else {
        let mut out = std::io::stdout().lock();
        for check in &findings.0 {
            let mark = match check.level {
                Level::Ok => "ok  ",
                Level::Warn => "warn",
                Level::Fail => "FAIL",
            };
            writeln!(out, "{mark}  {:13} {}", check.name, check.found)?;
            if let Some(advice) = &check.advice {
                writeln!(out, "      {:13} → {advice}", "")?;
            }
        }
        let verdict = if works { "a joint decode works" } else { "a joint decode does not work" };
        writeln!(out, "{verdict}")?;
    }
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks which router would score the small model's tokens.
fn router(findings: &mut Findings, tandem: &Tandem, args: &DoctorArgs) -> anyhow::Result<()> {
    let (store, edge) = (args.pair.edge.store()?, tandem.pair().edge_options()?);
    let mut wanted = args.router.clone();
    if let Some(given) = &args.preset {
        let (mut edge, preset) = (args.pair.edge.config(), preset::load(&store, given)?);
        preset::apply(&store, &preset, &mut edge, None, &mut wanted)?;
    }
    let router = NamedRouter::choose(wanted.as_ref(), &store, &edge)?;
    match (router.fallback(), router.description()) {
        (Some(reason), _) => {
            let advice = "top1 judges any model, a trained router judges better: docs/routers.md";
            findings.add("router", Level::Warn, format!("top1: {reason}"), advice);
        }
        (None, Some(trained)) => findings.ok("router", format!("{router}: {trained}")),
        (None, None) => {
            findings.ok("router", format!("{router}: needs no training, fits any model"));
        }
    }
    Ok(())
}

/// What computes: the CPU's instruction sets in use, and GPUs.
fn hardware(findings: &mut Findings) {
    let hardware = match engine::hardware() {
        Ok(hardware) => hardware,
        Err(reason) => {
            let advice = "unpack the whole archive again";
            return findings.add("cpu", Level::Fail, reason, advice);
        }
    };
    // llama.cpp lists what each back end could use as `CPU : NAME = 1 | NAME = 0 | …`.
    let (_, cpu) = hardware.cpu.rsplit_once("CPU :").unwrap_or(("", &hardware.cpu));
    let names: Vec<_> = cpu.split('|').filter_map(|set| set.trim().strip_suffix(" = 1")).collect();
    findings.ok("cpu", names.join(" "));
    let gb = |bytes: u64| bytes as f64 / 1e9;
    for gpu in &hardware.gpus {
        let (free, total) = (gb(gpu.free), gb(gpu.total));
        let (name, description) = (&gpu.name, &gpu.description);
        findings.ok("gpu", format!("{name}: {description}, {free:.1} of {total:.1} GB free"));
    }
    if hardware.gpus.is_empty() {
        let found = match hardware.gpu_back_ends.as_slice() {
            [] => "none: this program computes on the CPU only".into(),
            names => format!("none: {} found no device", names.join(", ")),
        };
        findings.ok("gpu", found);
    }
}

async fn examine(findings: &mut Findings, tandem: &Tandem, args: &DoctorArgs) {
    hardware(findings);
    let model = match tandem.pair().edge().await {
        Ok(model) => model,
        Err(error) => {
            let advice =
                "run `tandem pull`, or name a GGUF file or an ONNX model with --edge-model";
            return findings.add("edge model", Level::Fail, format!("{error:#}"), advice);
        }
    };
    let vocabulary = model.vocabulary();
    findings.ok(
        "edge model",
        format!(
            "{} tokens in its vocabulary (fingerprint {}), trained on contexts of {}",
            vocabulary.len(),
            vocabulary.fingerprint(),
            model.trained_context()
        ),
    );
    if let Err(error) = router(findings, tandem, args) {
        let advice = "a router reads hidden states, and those differ from model to model, \
            from precision to precision (GGUF, ONNX int8, fp16, …) and with every adapter: \
            train one for this model as it is (docs/routers.md), or use --router top1";
        findings.add("router", Level::Fail, format!("{error:#}"), advice);
    }
    if args.pair.cloud.location.offline {
        let advice = "leave out --offline to use a cloud";
        return findings.add("cloud", Level::Fail, "offline".into(), advice);
    }
    let prompt = Prompt::Messages(vec![Message::system(SYSTEM), Message::user("Count to ten.")]);
    match check_cloud(findings, tandem, &prompt, args).await {
        Ok(true) => decode_jointly(findings, tandem, prompt).await,
        Ok(false) => {}
        Err(error) => {
            let advice =
                "run `tandem pull`, name a file with --cloud-model, or a cloud with --cloud";
            findings.add("cloud", Level::Fail, error.to_string(), advice);
        }
    }
}

/// Whether everything works, now that the cloud was looked at too.
async fn check_cloud(
    findings: &mut Findings,
    tandem: &Tandem,
    prompt: &Prompt,
    args: &DoctorArgs,
) -> Result<bool, tandem::Error> {
    let tokens = tandem.tokens(Mode::Joint, prompt).await?;
    let mut lease = tandem.lease(Mode::Joint, &tokens).await?;
    let on_error = OnCloudError::Fail;
    let clouds = lease
        .introduce(Opening { prompt, edge: Some(&tokens), on_error, grammar: None, origin: None })
        .await?;
    let addresses = args.pair.cloud.location.addresses().unwrap_or_default();
    let (group, remotes) = clouds.each();
    let several = remotes.len() > 1;
    for (at, remote) in remotes.iter_mut().enumerate() {
        let Some(introduction) = identify(findings, remote, addresses.get(at), args).await else {
            continue;
        };
        try_out(findings, remote, &introduction).await;
        if several {
            match group.prove(at).await {
                Ok(()) => findings.ok("same model", "it writes what the first cloud writes"),
                Err(error) => {
                    findings.add("same model", Level::Fail, error.to_string(), advice(&error));
                }
            }
        }
    }
    Ok(findings.works())
}

/// Who answers, and what it has in common with the edge.
async fn identify(
    findings: &mut Findings,
    remote: &Remote,
    address: Option<&Address>,
    args: &DoctorArgs,
) -> Option<Introduction> {
    let introduction = match remote.identify().await {
        Ok(introduction) => introduction,
        Err(error) => {
            findings.add("cloud", Level::Fail, error.to_string(), advice(&error));
            return None;
        }
    };
    let about = &introduction.about;
    let mut words = vec![introduction.engine.title().to_owned()];
    words.extend(about.version.iter().map(|v| format!("version {v}")));
    words.extend(about.model.iter().map(|m| format!("model {m}")));
    words.extend(about.context.iter().map(|c| format!("context {c}")));
    findings.ok("cloud", words.join(", "));
    match address {
        None => findings.ok("tls", "not needed: the cloud is in this process"),
        Some(address) if address.is_encrypted() => findings.ok("tls", "certificate verified"),
        Some(address) if address.is_loopback() => findings.ok("tls", "not needed on loopback"),
        Some(_) => {
            let found = "everything travels in the clear, the key included".into();
            findings.add("tls", Level::Warn, found, "serve it as https");
        }
    }
    if let Some(matched) = &introduction.matched {
        match &matched.vocabulary {
            Ok(_) => findings.ok("vocabulary", "the edge's: token ids travel"),
            Err(reason) => {
                let advice = "nothing, or choose two models of one family: ids are exact";
                let found = format!("text is exchanged: {reason}");
                findings.add("vocabulary", Level::Warn, found, advice);
            }
        }
        match &matched.template {
            Ok(()) => findings.ok("template", "the edge's"),
            Err(_) if args.pair.cloud.location.cloud_template.is_some() => {
                findings.ok("template", "the one you gave");
            }
            Err(_) if introduction.engine == Engine::OpenAi => {
                let advice = "give --cloud-template chatml, or a Jinja file";
                let found = "the server takes only text and applies none".into();
                findings.add("template", Level::Fail, found, advice);
            }
            Err(reason) => findings.ok("template", format!("the cloud's own: {reason}")),
        }
    }
    Some(introduction)
}

/// Two real answers, and the way there and back.
async fn try_out(findings: &mut Findings, remote: &mut Remote, introduction: &Introduction) {
    let opened = match remote.open().await {
        Ok(opened) => opened,
        Err(error) => {
            return findings.add("session", Level::Fail, error.to_string(), advice(&error));
        }
    };
    if introduction.matched.is_none() {
        match opened.exchange {
            Exchange::Ids => findings.ok("vocabulary", "the edge's: token ids travel"),
            Exchange::Text => {
                let found = "text travels: the fingerprints differ".into();
                let advice = "nothing, or choose two models of one family: ids are exact";
                findings.add("vocabulary", Level::Warn, found, advice);
            }
        }
    }
    let answers = async {
        let first = next(remote, &Answer::default()).await?;
        let started = Instant::now();
        // What the first ask wrote is accepted, so only little is new to the second.
        let again = next(remote, &first).await?;
        Ok::<_, CloudError>((again, started.elapsed()))
    };
    match answers.await {
        Err(error) => findings.add("answer", Level::Fail, error.to_string(), advice(&error)),
        Ok((answer, took)) => {
            let rate = answer.usage.decoded as f64 / took.as_secs_f64();
            findings.ok("answer", format!("{rate:.1} tokens/s, the network included"));
            cache(findings, &answer, introduction.engine);
        }
    }
    match pings(remote).await {
        Ok((p50, p95)) => findings.ok("round trip", format!("p50 {p50:.1} ms, p95 {p95:.1} ms")),
        Err(error) => findings.add("round trip", Level::Fail, error.to_string(), advice(&error)),
    }
}

/// A real text of a few tokens, every one of them the cloud's.
async fn decode_jointly(findings: &mut Findings, tandem: &Tandem, prompt: Prompt) {
    let threshold = Some(Threshold::ALWAYS);
    let routing = RoutingOverrides { threshold, ..RoutingOverrides::default() };
    let limits = Limits { max_tokens: 8, stops: vec![] };
    let request = Request::new(prompt).mode(Mode::Joint).limits(limits).routing(routing);
    match tandem.answer(request).await {
        Ok(answer) => findings.ok("joint decode", format!("{:?}", answer.text)),
        Err(error) => {
            let advice = "see the checks above; `tandem run -vv` tells more";
            findings.add("joint decode", Level::Fail, error.to_string(), advice);
        }
    }
}

async fn next(remote: &mut Remote, before: &Answer) -> Result<Answer, CloudError> {
    let tokens: Vec<_> = before.tokens.iter().filter_map(|t| t.id).collect();
    let (text, want, sampling) = (before.text(), AnswerLength::Tokens(TOKENS), Sampling::default());
    remote.next(Ask { tokens: &tokens, text: &text, want, sampling: &sampling }).await
}

fn cache(findings: &mut Findings, answer: &Answer, engine: Engine) {
    let switch = match engine {
        Engine::Sglang => "start it with --enable-cache-report",
        Engine::Vllm => "start it with --enable-prompt-tokens-details",
        _ => "nothing: this server does not report it, so reuse cannot be shown",
    };
    match (answer.usage.cached, answer.usage.prefilled) {
        (Some(cached), Some(prefilled)) if cached > 0 => findings.ok(
            "cache",
            format!("reused: the second answer read {prefilled} tokens, {cached} were cached"),
        ),
        // Engines that keep whole blocks have none of so short a text.
        (Some(0), _) if engine == Engine::Vllm => {
            findings.ok("cache", "reported; this text is shorter than a block of it");
        }
        (Some(_), _) => {
            let found = "nothing was reused: every ask reads the whole text again".into();
            findings.add("cache", Level::Warn, found, "switch prefix caching on at the server");
        }
        (None, _) => findings.add("cache", Level::Warn, "not reported".into(), switch),
    }
}

/// The median and the 95th percentile of the way there and back, in milliseconds.
async fn pings(remote: &mut Remote) -> Result<(f64, f64), CloudError> {
    let mut times = vec![];
    for _ in 0..PINGS {
        times.push(remote.ping().await?.as_secs_f64() * 1000.0);
    }
    let at = |share| percentile(times.iter().copied(), share).unwrap_or(0.0);
    Ok((at(0.5), at(0.95)))
}

fn advice(error: &CloudError) -> &'static str {
    match error {
        CloudError::Unreachable { .. } => "is it running, and is the address right?",
        CloudError::TimedOut { .. } => "is it overloaded? raise --ask-deadline if it is only slow",
        CloudError::Refused { status: 401 | 403, .. } => "give its key with --cloud-key",
        CloudError::Refused { status: 404, .. } => "is --cloud-model a model it serves?",
        CloudError::Refused { .. } => "read its log",
        CloudError::Redirected { .. } => "give the address it redirects to",
        CloudError::InvalidAnswer { .. } => {
            "name the engine with --cloud-engine if it is one we know"
        }
        CloudError::NoTemplate { .. } => "give --cloud-template chatml, or a Jinja file",
        CloudError::ContextFull => "raise the server's context",
        CloudError::AnotherModel { .. } => "serve the same file there, or leave that --cloud out",
        _ => "see above",
    }
}
