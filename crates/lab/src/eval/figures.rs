//! What an answer cost, and what many answers say together: means with their intervals, shares, the
//! gap recovered.

use serde::{Deserialize, Serialize};

/// What one answer cost. Times are milliseconds and do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Accepted tokens.
    pub tokens: usize,
    /// Of them, from the cloud.
    pub cloud_tokens: usize,
    /// Of them, from the edge because the cloud could not be had.
    pub fallback_tokens: usize,
    /// Characters of text.
    pub characters: usize,
    /// Times the cloud answered.
    pub asks: usize,
    /// Tokens the cloud read, where it said so.
    pub cloud_prefilled: Option<usize>,
    /// Tokens the cloud found in its cache, where it said so.
    pub cloud_cached: Option<usize>,
    /// Tokens the cloud wrote, look-ahead included.
    pub cloud_decoded: usize,
    /// Bytes of weights and caches moved through memory by the edge.
    pub edge_bytes: u64,
    /// The same by the cloud; `None` where its size is not known.
    pub cloud_bytes: Option<u64>,
    /// From the prompt to the first token.
    pub first_token_ms: f64,
    /// From the prompt to the end, without loading models.
    pub total_ms: f64,
    /// The gaps between accepted spans, in order.
    pub between_ms: Vec<f64>,
    /// Where the time went.
    pub split: Split,
}

/// Where the time of an answer went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// The edge reading the prompt.
    pub edge_prefill_ms: f64,
    /// The edge writing.
    pub edge_decode_ms: f64,
    /// The edge reading what the cloud wrote.
    pub edge_reprefill_ms: f64,
    /// Scoring.
    pub router_ms: f64,
    /// The way to the cloud and back.
    pub network_ms: f64,
    /// Waiting for others at the cloud.
    pub cloud_queue_ms: f64,
    /// The cloud reading.
    pub cloud_prefill_ms: f64,
    /// The cloud writing.
    pub cloud_decode_ms: f64,
}

impl Split {
    /// Its parts by name, in the order of the pictures.
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("edge prefill", self.edge_prefill_ms),
            ("edge decode", self.edge_decode_ms),
            ("re-prefill", self.edge_reprefill_ms),
            ("router", self.router_ms),
            ("network", self.network_ms),
            ("cloud queue", self.cloud_queue_ms),
            ("cloud prefill", self.cloud_prefill_ms),
            ("cloud decode", self.cloud_decode_ms),
        ]
    }

    /// Adds another one up.
    pub fn add(&mut self, other: &Self) {
        self.edge_prefill_ms += other.edge_prefill_ms;
        self.edge_decode_ms += other.edge_decode_ms;
        self.edge_reprefill_ms += other.edge_reprefill_ms;
        self.router_ms += other.router_ms;
        self.network_ms += other.network_ms;
        self.cloud_queue_ms += other.cloud_queue_ms;
        self.cloud_prefill_ms += other.cloud_prefill_ms;
        self.cloud_decode_ms += other.cloud_decode_ms;
    }

    /// Each part times a factor.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            edge_prefill_ms: self.edge_prefill_ms * factor,
            edge_decode_ms: self.edge_decode_ms * factor,
            edge_reprefill_ms: self.edge_reprefill_ms * factor,
            router_ms: self.router_ms * factor,
            network_ms: self.network_ms * factor,
            cloud_queue_ms: self.cloud_queue_ms * factor,
            cloud_prefill_ms: self.cloud_prefill_ms * factor,
            cloud_decode_ms: self.cloud_decode_ms * factor,
        }
    }
}

/// The value below which this share of values lies; `None` of nothing.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let (below, above) = (sorted[low], sorted[high.min(last)]);
    Some(below + (above - below) * (place - low as f64))
}

/// How many times results are drawn again for an interval.
const DRAWS: usize = 2000;

/// A mean and where 95 % of its redrawn values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// 2.5 % of redrawn means are below.
    pub low: f64,
    /// 2.5 % of redrawn means are above.
    pub high: f64,
}

/// The mean of values, one a question, with a bootstrap interval; `None` of nothing.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let mean = |sum: f64| sum / values.len() as f64;
    let mut lot = Lot(seed);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| mean((0..values.len()).map(|_| values[lot.below(values.len())]).sum()))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((DRAWS as f64 * share) as usize).min(DRAWS - 1)];
    Some(Estimate { mean: mean(values.iter().sum()), low: at(0.025), high: at(0.975) })
}

/// How much of the way from the small model's accuracy to the large one's was made.
pub fn gap_recovered(small: f64, joint: f64, large: f64) -> Option<f64> {
    let gap = large - small;
    (gap.abs() > 1e-9).then(|| (joint - small) / gap)
}

/// A small generator of numbers: the same seed draws the same questions.
struct Lot(u64);

impl Lot {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (z ^ (z >> 31)) % bound.max(1) as u64;
        usize::try_from(drawn).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_about_two_standard_errors_wide() {
        // 400 questions, half right: the standard error is 0.025.
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let estimate = estimate(&values, 1).unwrap();
        assert_eq!(estimate.mean, 0.5);
        assert!((0.04..0.06).contains(&(estimate.high - estimate.mean)), "{estimate:?}");
        assert!((0.04..0.06).contains(&(estimate.mean - estimate.low)), "{estimate:?}");
        assert_eq!(super::estimate(&values, 1), Some(estimate));
        assert_eq!(super::estimate(&[], 1), None);
    }

    #[test]
    fn percentiles_of_known_values() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(percentile(&values, 0.5), Some(3.0));
        assert_eq!(percentile(&values, 0.95), Some(4.8));
        assert_eq!(percentile(&values, 1.0), Some(5.0));
        assert_eq!(percentile(&[f64::NAN], 0.5), None);
    }

    #[test]
    fn the_gap() {
        assert!((gap_recovered(0.4, 0.55, 0.7).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(gap_recovered(0.4, 0.5, 0.4), None);
    }
}
