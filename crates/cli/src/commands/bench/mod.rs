//! `tandem bench`: what this machine can do.

#[cfg(feature = "lab")]
mod agree;
mod ask;
mod edge;
mod joint;
#[cfg(feature = "lab")]
mod original;
mod serve;

use std::process::ExitCode;

use crate::args::{BenchArgs, BenchCommand};

pub async fn bench(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BenchCommand::Edge(args) => edge::edge(args).await?,
        #[cfg(feature = "lab")]
        BenchCommand::Agree(args) => agree::agree(args).await?,
        #[cfg(feature = "lab")]
        BenchCommand::Original(args) => original::original(*args).await?,
        #[cfg(not(feature = "lab"))]
        BenchCommand::Agree(args) => return args.refuse("bench agree"),
        #[cfg(not(feature = "lab"))]
        BenchCommand::Original(args) => return args.refuse("bench original"),
        BenchCommand::Ask(args) => ask::ask(args).await?,
        BenchCommand::Joint(args) => joint::joint(args).await?,
        BenchCommand::Serve(args) => serve::serve(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The middle one; the mean of the two middle ones of an even count.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// The smallest value that this share of them does not exceed.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{median, percentile};

    #[test]
    fn the_share() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 50.0);
        assert_eq!(percentile(&values, 0.95), 95.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }
}
