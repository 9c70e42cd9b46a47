//! What a run will take, from a few words of both models.

use std::{
    fmt,
    time::{Duration, Instant},
};

use decode::{Cloud, Message, Threshold};
use tandem::{CloudLocation, Mode, Tandem};

use super::TuneConfig;
use crate::{
    Error,
    worker::{Decoding, Worker},
};

/// How long answers are, as a part of the longest there may be. Most end by themselves.
const TYPICAL: f64 = 0.6;

/// At which part of the positions the two models part: 6 % on sums, 22 % on open questions.
const PARTING: f64 = 0.12;

/// What a token is in bytes, on its way to another machine.
const TOKEN_BYTES: f64 = 6.0;

/// What a request has beside its text.
const REQUEST_BYTES: f64 = 300.0;

/// The seconds of a pass over one sample, at the length of hidden state of the smallest models.
const TRAINING: f64 = 2e-4;

/// Words that are written to see how fast that is.
const PROBE: usize = 12;

/// Tokens a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub edge_read: f64,
    pub edge_write: f64,
    pub cloud_read: f64,
    pub cloud_write: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub prompts: usize,
    pub rounds: usize,
    pub time: Duration,
    /// Tokens that the large model writes.
    pub cloud_written: usize,
    /// Tokens that it reads, where nothing is in its cache.
    pub cloud_read: usize,
    /// What leaves this machine; 0 where the large model is in this process.
    pub bytes: usize,
}

impl Estimate {
    /// Loads both models and has each write a few words.
    pub async fn measure(tandem: &Tandem, config: &TuneConfig) -> Result<Self, Error> {
        let mut worker = Worker::new(tandem).await?;
        let example = config.prompts.examples.first();
        let example = example.ok_or_else(|| Error::usage("there are no prompts"))?;
        let messages = [Message::system(&config.system), Message::user(example.prompt())];
        let tokens = worker.tokens(&messages).await?;
        let rate =
            |tokens: usize, since: Instant| tokens as f64 / since.elapsed().as_secs_f64().max(1e-6);
        let started = Instant::now();
        worker.read_alone(&tokens[..tokens.len().saturating_sub(1)]).await?;
        let edge_read = rate(tokens.len(), started);
        let started = Instant::now();
        let alone = || Decoding::edge_alone(std::sync::Arc::new(router::Constant::Never), PROBE);
        let written = worker.decode(&messages, vec![], alone()).await?;
        let edge_write = rate(written.tokens().len().max(1), started);
        // Loads the model, which is not what is measured.
        worker.introduce(&messages, true).await?.open().await?;
        let large = |max_tokens| Decoding {
            mode: Mode::Large,
            router: std::sync::Arc::new(router::Constant::Always),
            policy: Threshold::ALWAYS.into(),
            max_tokens,
        };
        let started = Instant::now();
        worker.decode(&messages, vec![], large(1)).await?;
        let cloud_read = rate(tokens.len(), started);
        let started = Instant::now();
        let written = worker.decode(&messages, vec![], large(PROBE)).await?;
        let cloud_write = rate(written.tokens().len().max(1), started);
        worker.close().await?;

        let mut length = 0;
        for example in &config.prompts.examples {
            let messages = [Message::system(&config.system), Message::user(example.prompt())];
            length += worker.tokens(&messages).await?.len();
        }
        let rates = Rates { edge_read, edge_write, cloud_read, cloud_write };
        let prompt = length as f64 / config.prompts.examples.len() as f64;
        let local = tandem.pair().location() == CloudLocation::Embedded;
        Ok(Self::of(config, prompt, rates, local))
    }

    /// From the mean length of prompts and the speed of both models.
    pub fn of(config: &TuneConfig, prompt: f64, rates: Rates, local: bool) -> Self {
        let prompts = config.prompts.examples.len() as f64;
        let (rounds, share) = (config.rounds.max(1) as f64, f64::from(config.budget.value()));
        let answer = TYPICAL * config.max_tokens as f64;
        let whole = prompt + answer;
        let held_out = prompts * f64::from(super::HELD_OUT) / 2.0;
        let judged = held_out.min(config.judged as f64);
        // Judging: three budgets with the router, `top1` and at random; each model alone; and what
        // the large one thinks of all that.
        let (joint, all) = (9.0, 11.0);
        let mean_share = share * 7.0 / 6.0;

        let references = prompts * answer;
        let later = (rounds - 1.0) * prompts * answer;
        let parted = rounds * references * PARTING;
        let judging = judged * answer;
        let cloud_written = references + later * share + judging * (1.0 + joint * mean_share);
        let cloud_read = prompts * whole * 2.0
            + (rounds - 1.0) * prompts * whole * 3.0
            + parted
            + judged * (prompt + all * answer);
        let rolled = (config.rollouts as f64).min(references * PARTING) * answer / 2.0;
        let short = answer.min(super::CALIBRATED_TOKENS as f64);
        let calibrating = held_out * short * 4.0;
        let edge_written = rolled + later + calibrating + judging * (1.0 + joint);
        let edge_read = rounds * prompts * whole + judged * prompt;
        let training = rounds * references * 15.0 * TRAINING;
        let seconds = cloud_written / rates.cloud_write
            + cloud_read / rates.cloud_read
            + edge_written / rates.edge_write
            + edge_read / rates.edge_read
            + training;
        let requests = cloud_written / 16.0 + parted + judged * answer * joint * mean_share;
        let bytes = cloud_read * TOKEN_BYTES + parted * whole * TOKEN_BYTES / 2.0;
        Self {
            prompts: config.prompts.examples.len(),
            rounds: config.rounds.max(1),
            time: Duration::from_secs_f64(seconds.clamp(1.0, 1e9)),
            cloud_written: cloud_written as usize,
            cloud_read: cloud_read as usize,
            bytes: if local { 0 } else { (bytes + requests * REQUEST_BYTES) as usize },
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompts, rounds, time, cloud_written, cloud_read, bytes } = self;
        let minutes = (time.as_secs_f64() / 60.0).ceil();
        let minutes =
            if minutes <= 1.0 { "a minute".into() } else { format!("{minutes:.0} minutes") };
        let round = if *rounds == 1 { "1 round".into() } else { format!("{rounds} rounds") };
        write!(
            f,
            "{prompts} prompts, {round}: about {minutes}, {cloud_written} tokens written \
             and {cloud_read} read by the large model, "
        )?;
        match bytes {
            0 => write!(f, "nothing leaves this machine"),
            bytes => write!(f, "{:.1} MB sent to it", *bytes as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Example, Task};
    use crate::tune::prompts::Prompts;

    fn config(prompts: usize, rounds: usize) -> TuneConfig {
        let task = Task::Plain { prompt: "Hi".into() };
        let example = Example { id: "x".into(), task, worked: None };
        TuneConfig {
            prompts: Prompts { examples: vec![example; prompts], left_out: vec![] },
            output: "mine".into(),
            rounds,
            budget: tandem::Share::new(0.1).unwrap(),
            max_tokens: 320,
            rollouts: 200,
            judged: 15,
            parallel: 1,
            seed: 1,
            system: String::new(),
        }
    }

    #[test]
    fn more_work_takes_longer_and_a_local_cloud_gets_nothing() {
        let rates =
            Rates { edge_read: 300.0, edge_write: 48.0, cloud_read: 90.0, cloud_write: 28.0 };
        let of = |prompts, rounds| Estimate::of(&config(prompts, rounds), 90.0, rates, true);
        let one = of(100, 1);
        assert!(of(200, 1).time > one.time && of(100, 2).time > one.time);
        assert!(of(100, 2).cloud_written > one.cloud_written);
        assert!(one.cloud_written > 100 * 150 && one.cloud_written < 100 * 320);
        assert!(one.to_string().contains("nothing leaves this machine"), "{one}");
        let away = Estimate::of(&config(100, 1), 90.0, rates, false);
        assert!(away.bytes > 100_000 && away.to_string().contains("MB sent"), "{away}");
    }
}
