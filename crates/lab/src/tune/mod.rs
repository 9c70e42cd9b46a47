//! Tuning: prompts in, preset out.
//!
//! The way, and the module that holds each part of it:
//!
//! 1. [`prompts`]: what is asked, checked before anything runs; [`estimate`]: what it will take
//! 2. [`texts`]: the large model answers; in later rounds both do, as the last router has it
//! 3. [`collect`](mod@crate::collect): the small model reads the answers, and where the two part, the
//!    label is how far the large one objects, and what becomes of the answer
//! 4. [`train`](mod@crate::train): a router; then 2 to 4 again, for as many rounds as wanted
//! 5. [`calibrate`](mod@crate::calibrate): thresholds for shares
//! 6. `judge`: answers to prompts that nothing was fitted on
//! 7. `preset`: the folder to use, with a page about it
//!
//! Every part leaves its files in the folder's `work`, whole or not at all, and is passed over if they
//! are there: a run that was killed resumes, and ends with the same preset.

pub mod estimate;
mod judge;
mod preset;
pub mod prompts;
pub mod texts;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use decode::{Budget, Exchange, Message};
use router::{Inputs, Objective, RouterFile, atomic};
use serde::{Deserialize, Serialize};
use tandem::{NamedRouter, Share, Tandem};

use self::{
    prompts::Prompts,
    texts::{Writer, joint_text, reference, write_all},
};
use crate::{
    Error,
    calibrate::{Answers, adjust, calibrate},
    collect::{
        CollectConfig, Collection, CollectionError, LabelRule, RoundInfo, Sample, collect,
        traffic::claim,
    },
    eval::{Example, Table},
    progress::Progress,
    train::{Options, Part, SampleOrigin, plot, split, train},
};

pub use estimate::Estimate;

/// The share of prompts that the weights never see: half of them tune, half are judged on.
const HELD_OUT: f32 = 0.3;

/// Answers to measure thresholds on are cut here: a budget has to be right from the first token.
const CALIBRATED_TOKENS: usize = 96;

/// What to tune on, and how.
#[derive(Clone, Debug)]
pub struct TuneConfig {
    pub prompts: Prompts,
    /// The folder of the preset.
    pub output: PathBuf,
    /// At least 1.
    pub rounds: usize,
    /// The preset's default budget.
    pub budget: Share,
    /// No answer is longer.
    pub max_tokens: usize,
    /// At most this many positions are rolled out.
    pub rollouts: usize,
    /// At most this many of the prompts that were held out are answered to judge the router.
    pub judged: usize,
    /// Prompts at work at the same time. Only 1 gives the same preset again: batches round
    /// differently.
    pub parallel: usize,
    pub seed: u64,
    pub system: String,
}

/// What a run is about. Another run in the same folder must agree with it; more rounds may be added.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TuneInfo {
    edge: String,
    cloud: String,
    prompts: String,
    system: String,
    max_tokens: usize,
    rollouts: usize,
    seed: u64,
}

/// A preset, and how good it is.
#[derive(Debug)]
pub struct Tuned {
    pub folder: PathBuf,
    pub router: RouterFile,
    /// Answers to prompts that were held out; `None` where nobody can say what an answer is worth.
    pub table: Option<Table>,
    pub page: PathBuf,
}

/// A run, and what all its workers share.
pub(crate) struct Tuning {
    tandem: Tandem,
    config: TuneConfig,
    /// Everything that is not part of the preset.
    work: PathBuf,
    progress: Arc<dyn Progress>,
    /// Keeps others from filling the folder meanwhile.
    _claim: File,
}

/// Makes a preset. A run that was interrupted resumes where it was.
pub async fn tune(
    tandem: &Tandem,
    config: TuneConfig,
    progress: Arc<dyn Progress>,
) -> Result<Tuned, Error> {
    let tuning = Arc::new(Tuning::begin(tandem, config, progress)?);
    let mut writer = Writer::Large;
    let rounds = tuning.config.rounds.max(1);
    for round in 1..=rounds {
        let router = tuning.round(round, writer).await?;
        let table = router.table().iter().copied();
        let threshold = Budget::new(tuning.config.budget.value(), table).threshold();
        writer = Writer::Joint(router, threshold);
    }
    let calibrated = tuning.calibrated(rounds).await?;
    let judged = judge::judge(&tuning, &calibrated, rounds).await?;
    preset::write(&tuning, &calibrated, rounds, judged)
}

impl Tuning {
    fn begin(
        tandem: &Tandem,
        config: TuneConfig,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, Error> {
        let pair = tandem.pair();
        let info = TuneInfo {
            edge: pair.edge_options()?.fingerprint()?,
            cloud: pair.cloud_description()?,
            prompts: config.prompts.digest(),
            system: config.system.clone(),
            max_tokens: config.max_tokens,
            rollouts: config.rollouts,
            seed: config.seed,
        };
        let work = config.output.join("work");
        let claim = claim(&work)?;
        info.check(&work)?;
        Ok(Self { tandem: tandem.clone(), config, work, progress, _claim: claim })
    }

    fn example(&self, prompt: usize) -> Result<&Example, Error> {
        let found = self.config.prompts.examples.get(prompt);
        found.ok_or_else(|| Error::internal("no such prompt"))
    }

    fn messages(&self, prompt: usize) -> Result<[Message; 2], Error> {
        let example = self.example(prompt)?;
        Ok([Message::system(&self.config.system), Message::user(example.prompt())])
    }

    fn folder(&self, round: usize) -> PathBuf {
        self.work.join(format!("round-{round}"))
    }

    /// Answers, samples and a router: one round.
    async fn round(self: &Arc<Self>, round: usize, writer: Writer) -> Result<NamedRouter, Error> {
        let folder = self.folder(round);
        let path = folder.join("router.safetensors");
        if !path.exists() {
            create(&folder)?;
            if let Writer::Joint(router, threshold) = &writer {
                let with = RoundInfo::new(router, *threshold);
                let json = serde_json::to_vec_pretty(&with).map_err(Error::internal)?;
                write(&folder.join("round.json"), &json)?;
            }
            let own = matches!(writer, Writer::Large);
            let texts = write_all(self, folder.join("texts.jsonl"), writer).await?;
            let worked = if own { reference } else { joint_text };
            let mut examples = vec![];
            for (&prompt, text) in &texts {
                examples.push(worked(self.example(prompt)?, text));
            }
            self.collect(round, examples, LabelRule::Likelihood { own }).await?;
            self.train(round, &path)?;
        }
        Ok(NamedRouter::read(&path, &self.tandem.pair().edge_options()?)?)
    }

    async fn collect(
        &self,
        round: usize,
        examples: Vec<Example>,
        labels: LabelRule,
    ) -> Result<(), Error> {
        let config = CollectConfig {
            examples,
            labels,
            output: self.folder(round),
            // Where texts are joint ones, what became of a token is known already.
            rollouts: if round == 1 { self.config.rollouts } else { 0 },
            roll_out_asks: true,
            joint: None,
            parallel: self.config.parallel,
            seed: self.config.seed,
            max_tokens: self.config.max_tokens,
            system: self.config.system.clone(),
        };
        let collected = collect(&self.tandem, config, self.progress.clone()).await?;
        self.progress.note(collected.to_string());
        tracing::info!("round {round}: {collected}");
        Ok(())
    }

    /// The samples of all rounds so far. A prompt has the same number in all of them.
    fn samples(&self, rounds: usize) -> Result<(Vec<Sample>, SampleOrigin), Error> {
        let (mut samples, mut digests, mut first) = (vec![], vec![], None);
        for round in 1..=rounds {
            let collection = Collection::read(&self.folder(round))?;
            samples.extend(collection.samples()?);
            digests.push(collection.digest()?);
            first.get_or_insert(collection);
        }
        let first = first.ok_or_else(|| Error::internal("no round was collected"))?;
        Ok((samples, SampleOrigin::new(&first, &digests)))
    }

    fn train(&self, rounds: usize, path: &Path) -> Result<(), Error> {
        let (samples, origin) = self.samples(rounds)?;
        let options = self.options();
        self.progress.begin("training", options.epochs);
        let trained = train(&samples, origin, &options, &mut |epoch| {
            self.progress.step();
            self.progress.note(format!("loss {:.4}", epoch.tuning_loss));
        })?;
        self.progress.end();
        let curves = plot::svg(&trained.curves).map_err(Error::internal)?;
        write(&path.with_extension("svg"), curves.as_bytes())?;
        // The router comes last: where it is, the round is done.
        Ok(trained.file.write(path)?)
    }

    fn options(&self) -> Options {
        Options {
            objective: Objective::Citer,
            inputs: Inputs::HiddenLogits,
            seed: self.config.seed,
            learning_rate: 3e-4,
            batch: 256,
            held_out: HELD_OUT,
            ..Options::default()
        }
    }

    /// The prompts that play this part, as training splits them.
    fn prompts(&self, rounds: usize, part: Part) -> Result<Vec<usize>, Error> {
        let (samples, _) = self.samples(rounds)?;
        let options = self.options();
        let parts = split(samples.iter().map(|s| s.example), options.held_out, options.seed)?;
        let mut prompts: Vec<usize> = parts
            .into_iter()
            .filter_map(|(example, is)| (is == part).then_some(example as usize))
            .collect();
        prompts.sort_unstable();
        Ok(prompts)
    }

    /// The last round's router with thresholds measured on prompts that it was not fitted to. Its name
    /// is the preset's.
    async fn calibrated(&self, rounds: usize) -> Result<PathBuf, Error> {
        let folder = self.work.join(format!("calibrated-{rounds}"));
        let path = folder.join(format!("{}.safetensors", self.name()));
        if path.exists() {
            return Ok(path);
        }
        create(&folder)?;
        let trained = self.folder(rounds).join("router.safetensors");
        let file = RouterFile::read(&trained)?;
        let router = NamedRouter::read(&trained, &self.tandem.pair().edge_options()?)?;
        let mut conversations = vec![];
        for prompt in self.prompts(rounds, Part::Tuning)? {
            conversations.push(self.messages(prompt)?.to_vec());
        }
        let max_tokens = self.config.max_tokens.min(CALIBRATED_TOKENS);
        let answers = Answers { conversations: &conversations, max_tokens };
        let exchange = if file.metadata().ids { Exchange::Ids } else { Exchange::Text };
        let (tandem, progress) = (&self.tandem, &*self.progress);
        let routers = std::slice::from_ref(&router);
        let alone = calibrate(tandem, routers, exchange, answers, progress).await?;
        let alone = alone.first().ok_or_else(|| Error::internal("no table"))?;
        let table = adjust(tandem, &router, alone, answers, progress).await?;
        file.with_calibration(table).write(&path)?;
        Ok(path)
    }

    /// The preset's name: its folder's.
    fn name(&self) -> String {
        let output = std::path::absolute(&self.config.output);
        let folder = output.as_deref().unwrap_or(&self.config.output);
        folder.file_name().map_or("tuned".into(), |name| name.to_string_lossy().into_owned())
    }
}

impl TuneInfo {
    /// Refuses a folder that holds another run; a new one is marked with this.
    fn check(&self, work: &Path) -> Result<(), Error> {
        let path = work.join("tune.json");
        if !path.exists() {
            let json = serde_json::to_vec_pretty(self).map_err(Error::internal)?;
            return write(&path, &json);
        }
        let json = fs::read(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        let there: Self = serde_json::from_slice(&json).map_err(|error| {
            Error::usage(format!("{} cannot be read: {error}; give another folder", path.display()))
        })?;
        for (what, there, here) in [
            ("the small model", &there.edge, &self.edge),
            ("the cloud", &there.cloud, &self.cloud),
            ("the prompts", &there.prompts, &self.prompts),
            ("--system", &there.system, &self.system),
            ("--max-tokens", &there.max_tokens.to_string(), &self.max_tokens.to_string()),
            ("--rollouts", &there.rollouts.to_string(), &self.rollouts.to_string()),
            ("--seed", &there.seed.to_string(), &self.seed.to_string()),
        ] {
            if there != here {
                let (path, there, here) = (work.to_owned(), there.clone(), here.clone());
                return Err(CollectionError::Mismatch { path, what, there, here }.into());
            }
        }
        Ok(())
    }
}

fn create(folder: &Path) -> Result<(), Error> {
    let failed = |source| Error::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    atomic::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> TuneInfo {
        TuneInfo {
            edge: "small".into(),
            cloud: "large".into(),
            prompts: "p".into(),
            system: "s".into(),
            max_tokens: 10,
            rollouts: 5,
            seed: 1,
        }
    }

    #[test]
    fn a_folder_is_of_one_run() {
        let folder = tempfile::tempdir().unwrap();
        info().check(folder.path()).unwrap();
        info().check(folder.path()).unwrap();
        for (other, says) in [
            (TuneInfo { prompts: "q".into(), ..info() }, "the prompts differs"),
            (TuneInfo { max_tokens: 11, ..info() }, "--max-tokens"),
            (TuneInfo { cloud: "huge".into(), ..info() }, "huge"),
        ] {
            let error = other.check(folder.path()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("another folder"), "{error}");
        }
        fs::write(folder.path().join("tune.json"), "{").unwrap();
        assert!(info().check(folder.path()).unwrap_err().to_string().contains("tune.json"));
    }
}
