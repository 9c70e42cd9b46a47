//! Why training gives no router.

use router::{Flaw, Objective};
use thiserror::Error;

/// Why there is no router.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A setting outside its range.
    #[error("{name} must be {range}, not {given}")]
    Option {
        /// The setting.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it was.
        given: f32,
    },
    /// Nothing to learn from.
    #[error(
        "none of the {all} samples can be used for {objective}: collect samples with what it needs \
         ({}), or choose another objective", needs(*.objective)
    )]
    NoSamples {
        /// How many there are in all.
        all: usize,
        /// What they were for.
        objective: Objective,
    },
    /// Live use has no right answers.
    #[error(
        "all {all} samples are of live traffic, which says whether the cloud agrees and not what \
         was right: train with --objective agree, or add a folder of `tandem router collect` for \
         {objective}"
    )]
    OnlyTraffic {
        /// How many there are in all.
        all: usize,
        /// What they were for.
        objective: Objective,
    },
    /// Too few to hold some out.
    #[error(
        "the samples are from {found} examples, and at least {wanted} are needed: collect more"
    )]
    FewExamples {
        /// How many there are.
        found: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// Nothing to tell apart.
    #[error(
        "none of the {found} usable samples of the {part} examples says {missing}: collect more \
         examples, or from where the edge is right at some positions and wrong at others"
    )]
    OneClass {
        /// Training, tuning or report.
        part: &'static str,
        /// How many there are.
        found: usize,
        /// Trust or ask.
        missing: &'static str,
    },
    /// Samples of different models.
    #[error(
        "example {example}, position {position} has a hidden state of {found} numbers where the \
         model's has {wanted}: train with the samples of one model only"
    )]
    HiddenSize {
        /// Where.
        example: u32,
        /// Where in it.
        position: u32,
        /// The sample's.
        found: usize,
        /// The model's.
        wanted: usize,
    },
    /// Inputs that are no numbers.
    #[error(
        "example {example}, position {position} holds numbers that are not finite: the model's file \
         or its adapter is damaged; leave this example out or collect again"
    )]
    NotFinite {
        /// Where.
        example: u32,
        /// Where in it.
        position: u32,
    },
    /// The loss is no number any more.
    #[error("training lost its way in epoch {epoch}: choose a lower learning rate")]
    Diverged {
        /// When.
        epoch: usize,
    },
    /// Tensors could not be computed.
    #[error("training failed: {0}")]
    Tensors(#[from] candle_core::Error),
    /// The weights make no router.
    #[error("the trained router {0}")]
    Router(#[from] Flaw),
}

fn needs(objective: Objective) -> &'static str {
    match objective {
        Objective::Citer => "labels trust and ask",
        Objective::CiterS => "labels trust and ask that need no roll-out",
        Objective::CoLlm => "log-probabilities of both models",
        Objective::Agree => "whether the cloud agrees",
    }
}
