//! What the campaigns of `make chaos` have in common: a seeded script, and counts for one table.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::{collections::BTreeMap, env, fs};

use decode::sampling::hash;

/// A number of the environment, or what is usual.
pub fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// What a process holds in memory, in kilobytes: `self`, or a process's number.
pub fn resident(process: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Memory may settle after a tenth of a campaign, and not grow with what follows.
pub fn assert_flat(warm: usize, after: usize) {
    assert!(after as f64 <= warm as f64 * 1.2 + 20_000.0, "memory grows: {warm} to {after} kB");
}

/// Draws that are the same for the same seed.
pub struct Random {
    seed: u64,
    draws: usize,
}

impl Random {
    /// Those of one of several that are at work together.
    pub fn new(seed: u64, worker: usize) -> Self {
        Self { seed: hash(seed, worker), draws: 0 }
    }

    pub fn below(&mut self, below: usize) -> usize {
        self.draws += 1;
        (hash(self.seed, self.draws) >> 20) as usize % below.max(1)
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}

/// What happened how often.
#[derive(Debug, Default)]
pub struct Counts {
    rows: BTreeMap<&'static str, usize>,
}

impl Counts {
    pub fn add(&mut self, row: &'static str, count: usize) {
        *self.rows.entry(row).or_default() += count;
    }

    /// For what is not counted but measured.
    pub fn set(&mut self, row: &'static str, value: usize) {
        self.rows.insert(row, value);
    }

    pub fn of(&self, row: &str) -> usize {
        self.rows.get(row).copied().unwrap_or(0)
    }

    pub fn join(&mut self, other: &Self) {
        other.rows.iter().for_each(|(row, count)| self.add(row, *count));
    }

    /// One column of the table that scripts/chaos.sh puts together.
    pub fn print(&self, column: &str) {
        println!();
        for (row, count) in &self.rows {
            println!("CHAOS\t{column}\t{row}\t{count}");
        }
    }
}
