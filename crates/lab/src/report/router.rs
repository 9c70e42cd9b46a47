//! What training says of a router: how well it tells places to keep from places to ask, on prompts
//! that its weights have not seen.

use router::Metadata;
use serde::Serialize;

use super::numbers::{decimal, percent};

#[derive(Clone, Debug, Serialize)]
pub struct RouterSection {
    headline: Vec<String>,
    /// Its ROC curve and its calibration, as SVG.
    curves: String,
    /// Shares and the thresholds that ask at them.
    thresholds: Vec<(String, String)>,
}

impl RouterSection {
    pub fn new(metadata: &Metadata, rounds: usize, curves: String) -> Self {
        let report = metadata.report;
        let round = if rounds == 1 { "one round".into() } else { format!("{rounds} rounds") };
        let headline = vec![
            format!(
                "Trained for {} in {round}, on {} positions of {} answers.",
                metadata.model_name, report.samples, report.examples
            ),
            format!(
                "On {} positions of other answers: area under the ROC curve {} (0.5 is chance), \
                 calibration error {}.",
                report.held_out,
                decimal::<3>(f64::from(report.auc)),
                decimal::<3>(f64::from(report.ece)),
            ),
        ];
        let points = metadata.calibration.points().iter();
        let threshold =
            |p: &router::Point| (percent(f64::from(p.share)), decimal::<4>(f64::from(p.threshold)));
        Self { headline, curves, thresholds: points.map(threshold).collect() }
    }
}
