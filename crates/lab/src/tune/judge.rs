//! What the router is worth: answers to prompts that nothing was fitted on, beside both models alone,
//! random routing and `top1`.

use std::{path::Path, sync::Arc};

use decode::{Cloud, CloudError};
use router::RouterKind;
use tandem::{NamedRouter, Share};

use super::Tuning;
use crate::{
    Error,
    eval::{
        EvalConfig, Evaluation, Example, Record, Task, TaskName,
        points::{Points, Target},
        run::{ResultsFile, ResultsPath},
    },
    train::Part,
    worker::Worker,
};

/// The budgets that are measured, as multiples of the preset's own.
const MULTIPLES: [f32; 3] = [0.5, 1.0, 2.0];

/// Answers the prompts that were held out. `None` where no answer is right or wrong and the cloud
/// cannot say how likely it finds one.
pub(super) async fn judge(
    tuning: &Tuning,
    router: &Path,
    rounds: usize,
) -> Result<Option<Record>, Error> {
    let mut examples = vec![];
    for prompt in tuning.prompts(rounds, Part::Report)?.into_iter().take(tuning.config.judged) {
        examples.push(tuning.example(prompt)?.clone());
    }
    let checked = examples.iter().all(|example| example.is_right("").is_some());
    if examples.is_empty() || (!checked && !gives_likelihoods(tuning).await?) {
        return Ok(None);
    }
    // One measure for all of them: right answers, or the large model's opinion.
    let task = if checked { TaskName::Jsonl } else { TaskName::Text };
    if !checked {
        examples.iter_mut().for_each(make_plain);
    }
    let (store, edge) = (tuning.tandem.pair().store(), tuning.tandem.pair().edge_options()?);
    let own = NamedRouter::read(router, &edge)?;
    let top1 = NamedRouter::choose(Some(&RouterKind::Top1.into()), store, &edge)?;
    let mut targets = vec![];
    for multiple in MULTIPLES {
        let share = Share::try_from((tuning.config.budget.value() * multiple).min(1.0))?;
        targets.push(Target::Budget(share));
    }
    let results = tuning.work.join(format!("results-{rounds}.jsonl"));
    let config = EvalConfig {
        task,
        data: vec![],
        skip: 0,
        limit: None,
        points: Points {
            routers: vec![own, top1],
            targets,
            query_routers: vec![],
            random: true,
            oracles: vec![],
            large: true,
            verify: false,
            networks: vec![],
        },
        results: ResultsFile { path: ResultsPath::File(results), fresh: false },
        parallel: tuning.config.parallel,
        max_tokens: tuning.config.max_tokens,
        seed: tuning.config.seed,
        system: tuning.config.system.clone(),
    };
    let evaluation = Evaluation::of(&tuning.tandem, config, examples)?;
    evaluation.run(Arc::clone(&tuning.progress)).await?;
    Ok(Some(evaluation.record()))
}

fn make_plain(example: &mut Example) {
    example.task = Task::Plain { prompt: example.prompt() };
}

/// Whether the cloud says how likely it finds a text.
async fn gives_likelihoods(tuning: &Tuning) -> Result<bool, Error> {
    let mut worker = Worker::new(&tuning.tandem).await?;
    let messages = tuning.messages(0)?;
    let exchange = worker.introduce(&messages, false).await?.open().await?.exchange;
    let scored = worker.score(exchange, "Yes").await;
    worker.close().await?;
    match scored {
        Err(Error::Cloud(CloudError::Unsupported { .. })) => Ok(false),
        scored => scored.map(|_| true),
    }
}
