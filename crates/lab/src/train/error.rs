//! Why training gives no router.

use router::{Flaw, Inputs, Objective};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum TrainError {
    #[error("{name} must be {range}, not {given}")]
    Option { name: &'static str, range: &'static str, given: f32 },
    #[error(
        "none of the {all} samples can be used for {objective}: collect samples with what it needs \
         ({}), or choose another objective", needs(*.objective)
    )]
    NoSamples { all: usize, objective: Objective },
    #[error(
        "all {all} samples are of live traffic, which says whether the cloud agrees and not what \
         was right: train with --objective agree, or add a folder of `tandem router collect` for \
         {objective}"
    )]
    OnlyTraffic { all: usize, objective: Objective },
    #[error(
        "the samples are from {found} examples, and at least {wanted} are needed: collect more"
    )]
    FewExamples { found: usize, wanted: usize },
    #[error(
        "none of the {found} usable samples of the {part} examples says {missing}: collect more \
         examples, or from where the edge is right at some positions and wrong at others"
    )]
    OneClass { part: &'static str, found: usize, missing: &'static str },
    #[error(
        "example {example}, position {position} has a hidden state of {found} numbers where the \
         model's has {wanted}: train with the samples of one model only"
    )]
    HiddenSize { example: u32, position: u32, found: usize, wanted: usize },
    #[error(
        "example {example}, position {position} holds numbers that are not finite: the model's file \
         or its adapter is damaged; leave this example out or collect again"
    )]
    NotFinite { example: u32, position: u32 },
    #[error(
        "samples do not hold tokens, so no router for {0} is trained here: train one for hidden+logits"
    )]
    Inputs(Inputs),
    #[error("training diverged in epoch {epoch}: choose a lower learning rate")]
    Diverged { epoch: usize },
    #[error("training failed: {0}")]
    Tensors(#[from] candle_core::Error),
    #[error("the trained router {0}")]
    Router(#[from] Flaw),
}

fn needs(objective: Objective) -> &'static str {
    match objective {
        Objective::Citer => "labels trust and ask",
        Objective::CiterS => "labels trust and ask that need no roll-out",
        Objective::CoLlm => "log-probabilities of both models",
        Objective::Agree => "whether the cloud agrees",
        Objective::Query => "whether the small model's answer will do",
    }
}
