//! What each objective asks of a sample, and how wrong an output is.

use router::Objective;

use crate::collect::{Label, LabelSource, Sample};

/// Log-probabilities below this are all the same: never.
const NEVER: f64 = -1e9;

/// What the output for one sample is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Keeping is right, or it is not.
    Keep(bool),
    /// Log-probabilities of the reference under both models.
    Mixture { edge: f32, cloud: f32 },
}

/// How wrong an output is, and how that changes with it.
pub(super) struct Loss {
    pub(super) value: f64,
    pub(super) gradient: f64,
}

/// What to learn from a sample; `None` leaves it out.
pub(super) fn target(objective: Objective, sample: &Sample) -> Option<Target> {
    match objective {
        Objective::Citer | Objective::CiterS | Objective::Agree | Objective::Query => {
            truth(objective, sample).map(Target::Keep)
        }
        Objective::CoLlm => {
            let (edge, cloud) = (sample.edge_logprob, sample.cloud_logprob);
            (!edge.is_nan() && !cloud.is_nan()).then_some(Target::Mixture { edge, cloud })
        }
    }
}

/// Whether keeping was right, as far as the objective may know.
pub(super) fn truth(objective: Objective, sample: &Sample) -> Option<bool> {
    let labelled = match sample.label {
        Label::Trust => Some(true),
        Label::Ask => Some(false),
        Label::Unknown => None,
    };
    match objective {
        Objective::Citer | Objective::CoLlm | Objective::Query => labelled,
        Objective::CiterS => match sample.label_source {
            LabelSource::RollOut | LabelSource::Neither | LabelSource::Joint => None,
            LabelSource::Edge
            | LabelSource::Cloud
            | LabelSource::Likelihood
            | LabelSource::Traffic => labelled,
        },
        Objective::Agree => sample.agrees,
    }
}

impl Target {
    /// The loss of an output z, whose sigmoid s is the probability of keeping.
    pub(super) fn loss(self, z: f32) -> Loss {
        let z = f64::from(z);
        let (s, t) = (sigmoid(z), sigmoid(-z));
        match self {
            // −ln s: the Bradley–Terry model of preferring to keep.
            Self::Keep(true) => Loss { value: softplus(-z), gradient: -t },
            Self::Keep(false) => Loss { value: softplus(z), gradient: s },
            // −ln(s·edge + t·cloud), less what even the better model of the two would lose, so that
            // references both find unlikely do not drown the rest.
            Self::Mixture { edge, cloud } => {
                let (edge, cloud) = (f64::from(edge).max(NEVER), f64::from(cloud).max(NEVER));
                let better = edge.max(cloud);
                let (edge, cloud) = ((edge - better).exp(), (cloud - better).exp());
                let mixed = (s * edge + t * cloud).max(f64::MIN_POSITIVE);
                Loss { value: -mixed.ln(), gradient: -(edge - cloud) * s * t / mixed }
            }
        }
    }
}

pub(super) fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// ln(1 + e^z).
fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::tests::sample;

    #[test]
    fn gradients_are_the_slopes_of_the_losses() {
        let targets = [
            Target::Keep(true),
            Target::Keep(false),
            Target::Mixture { edge: -0.5, cloud: -3.0 },
            Target::Mixture { edge: -20.0, cloud: -0.1 },
            Target::Mixture { edge: f32::NEG_INFINITY, cloud: -1.0 },
            Target::Mixture { edge: f32::NEG_INFINITY, cloud: f32::NEG_INFINITY },
        ];
        for target in targets {
            for z in [-8.0f32, -1.0, 0.0, 0.5, 6.0] {
                let step = 0.01;
                let (low, high) = (target.loss(z - step).value, target.loss(z + step).value);
                let slope = (high - low) / (2.0 * f64::from(step));
                let gradient = target.loss(z).gradient;
                assert!((slope - gradient).abs() < 1e-3, "{target:?} {z}: {slope} {gradient}");
            }
            for z in [-1e4, 1e4] {
                let loss = target.loss(z);
                assert!(loss.value.is_finite() && loss.gradient.is_finite(), "{target:?} {z}");
            }
        }
    }

    #[test]
    fn each_objective_leaves_out_what_it_may_not_see() {
        let edge = Sample { label: Label::Trust, label_source: LabelSource::Edge, ..sample(0, 2) };
        let rolled =
            Sample { label: Label::Ask, label_source: LabelSource::RollOut, ..edge.clone() };
        let unknown =
            Sample { label: Label::Unknown, label_source: LabelSource::Neither, ..edge.clone() };
        let truths = |objective: Objective| {
            [&edge, &rolled, &unknown].map(|sample| truth(objective, sample))
        };
        assert_eq!(truths(Objective::Citer), [Some(true), Some(false), None]);
        assert_eq!(truths(Objective::CiterS), [Some(true), None, None]);
        assert_eq!(truths(Objective::Agree), [None; 3]);
        let agreed = Sample { agrees: Some(false), ..unknown.clone() };
        assert_eq!(target(Objective::Agree, &agreed), Some(Target::Keep(false)));
        assert_eq!(target(Objective::CoLlm, &edge), None);
        let known = Sample { edge_logprob: -1.0, cloud_logprob: -2.0, ..unknown };
        let mixture = Target::Mixture { edge: -1.0, cloud: -2.0 };
        assert_eq!(target(Objective::CoLlm, &known), Some(mixture));
    }
}
