//! A router of whole answers: from the small model's state behind a prompt, whether its answer will do or
//! the large model is needed. It is what routing token by token is compared with, at equal cost.
//!
//! It is learnt from results of `tandem eval`, which know of every question which of the two models alone
//! was right.

use std::{collections::HashMap, path::PathBuf};

use decode::Edge;
use half::f16;
use router::{Objective, features};
use sha2::{Digest, Sha256};
use tandem::{Mode, Prompt, Tandem};

use crate::{
    Error, Progress,
    collect::{Label, LabelSource, Sample},
    eval::{Outcome, Question, Record, merge::merge},
    train::{Options, SampleOrigin},
};

/// How such a router is trained unless something else is said: a question is one sample, so there are few.
pub fn options() -> Options {
    Options {
        objective: Objective::Query,
        batch: 32,
        epochs: 60,
        learning_rate: 3e-4,
        patience: 10,
        held_out: 0.2,
        ..Options::default()
    }
}

/// One sample for every question that both models alone answered: what the edge is in behind the prompt, and
/// whether the large model is needed.
pub async fn samples(
    tandem: &Tandem,
    results: &[PathBuf],
    progress: &dyn Progress,
) -> Result<(Vec<Sample>, SampleOrigin), Error> {
    let record = merge(results)?.record;
    let options = tandem.pair().edge_options()?;
    let (name, fingerprint) = (options.name(), options.fingerprint()?);
    let (here, there) = (format!("{name} {fingerprint}"), &record.about.edge);
    if here != *there {
        return Err(Error::usage(format!(
            "the results are of the small model {there}, and here it is {here}: give the same \
             --edge-model, adapters and --preset"
        )));
    }
    let labelled = labelled(&record);
    if labelled.is_empty() {
        return Err(Error::usage(
            "no question of these results has an answer of each model alone that is right or wrong: \
             measure a task with answers by `tandem eval`, without --no-large",
        ));
    }
    let model = tandem.pair().edge().await?;
    let mut edge = model.open().await?;
    let (mut samples, mut digest) = (vec![], Sha256::new());
    progress.begin("reading", labelled.len());
    for (example, (question, label)) in (0..).zip(labelled) {
        let messages = crate::eval::messages(&record.about.system, &question.prompt);
        let prompt = Prompt::Messages(messages.to_vec());
        let tokens = tandem.tokens(Mode::Small, &prompt).await?;
        if tokens.len() >= edge.context() {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context: edge.context() });
        }
        // Nothing is in its cache, as where the router is used.
        edge.truncate(0);
        let Some(step) = edge.steps(&tokens).await?.pop() else {
            return Err(Error::internal("a prompt has no tokens"));
        };
        digest.update(format!("{} {label:?}\n", question.id));
        samples.push(Sample {
            hidden: step.hidden.iter().map(|&x| f16::from_f32(x)).collect(),
            features: features(&step.logits),
            label,
            label_source: LabelSource::RollOut,
            edge_logprob: f32::NAN,
            cloud_logprob: f32::NAN,
            agrees: None,
            example,
            position: 0,
        });
        progress.step();
    }
    progress.end();
    let origin = SampleOrigin {
        hidden: model.hidden_len(),
        model: fingerprint,
        model_name: name,
        data: decode::hex(&digest.finalize()[..8]),
        ids: false,
    };
    Ok((samples, origin))
}

/// The questions that both models alone answered, with whether the large one is needed: where neither is
/// right, its tokens are spent for nothing.
fn labelled(record: &Record) -> Vec<(&Question, Label)> {
    let right = |mode: Mode| -> HashMap<&str, bool> {
        let point = record.points.iter().find(|point| point.mode == mode);
        let of = |o: &&Outcome| point.is_some_and(|point| o.point == point.name);
        let answers = record.outcomes.iter().filter(of);
        answers.filter_map(|o| Some((o.id.as_str(), o.right?))).collect()
    };
    let (small, large) = (right(Mode::Small), right(Mode::Large));
    let label = |question: &Question| {
        let id = question.id.as_str();
        Some(match (small.get(id)?, large.get(id)?) {
            (false, true) => Label::Ask,
            _ => Label::Trust,
        })
    };
    record.questions.iter().filter_map(|question| Some((question, label(question)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Point;

    #[test]
    fn the_large_model_is_needed_where_it_alone_is_right() {
        let point = |name: &str, mode| Point { name: name.into(), mode, ..Point::default() };
        let mut record = Record {
            points: vec![point("small", Mode::Small), point("large", Mode::Large)],
            ..Record::default()
        };
        let answers = [
            ("both", Some(true), Some(true)),
            ("large", Some(false), Some(true)),
            ("small", Some(true), Some(false)),
            ("neither", Some(false), Some(false)),
            ("not judged", None, None),
            ("half", Some(false), None),
        ];
        for (id, small, large) in answers {
            let (prompt, trust) = (format!("{id}?"), Default::default());
            record.questions.push(Question { id: id.into(), prompt, right: None, trust });
            for (point, right) in [("small", small), ("large", large)] {
                let (id, point) = (id.into(), point.into());
                record.outcomes.push(Outcome { id, point, right, ..Outcome::default() });
            }
        }
        record.outcomes.retain(|o| o.id != "half" || o.point == "small");
        let labels: Vec<_> =
            labelled(&record).into_iter().map(|(q, label)| (q.id.as_str(), label)).collect();
        let expected = [
            ("both", Label::Trust),
            ("large", Label::Ask),
            ("small", Label::Trust),
            ("neither", Label::Trust),
        ];
        assert_eq!(labels, expected);
    }
}
