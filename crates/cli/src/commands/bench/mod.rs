//! `tandem bench`: what this machine can do.

mod ask;
mod edge;
mod joint;

use std::process::ExitCode;

use crate::args::{BenchArgs, BenchCommand};

pub async fn bench(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BenchCommand::Edge(args) => edge::edge(args).await?,
        BenchCommand::Ask(args) => ask::ask(args).await?,
        BenchCommand::Joint(args) => joint::joint(args).await?,
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

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }
}
