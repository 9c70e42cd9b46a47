//! A generator that gives the same numbers for the same seed.

use decode::sampling;

pub(super) struct Random {
    seed: u64,
    drawn: usize,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.drawn += 1;
        sampling::hash(self.seed, self.drawn)
    }

    /// Numbers between −bound and bound.
    pub(super) fn uniform(&mut self, count: usize, bound: f32) -> Vec<f32> {
        let unit = |bits: u64| (bits >> 40) as f32 / (1u64 << 24) as f32;
        (0..count).map(|_| (unit(self.next()) * 2.0 - 1.0) * bound).collect()
    }

    /// 0 with this probability, and otherwise what keeps the mean at 1.
    pub(super) fn dropout(&mut self, count: usize, probability: f32) -> Vec<f32> {
        let bound = (probability * 65_536.0) as u64;
        let keep = 1.0 / (1.0 - probability);
        let mut mask = Vec::with_capacity(count + 3);
        while mask.len() < count {
            let bits = self.next();
            let four = [0, 16, 32, 48].map(|shift| (bits >> shift) & 0xffff);
            mask.extend(four.map(|drawn| if drawn < bound { 0.0 } else { keep }));
        }
        mask.truncate(count);
        mask
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_everything_and_follows_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<usize> = (0..100).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn dropout_drops_its_share_and_keeps_the_mean() {
        let mask = Random::new(1).dropout(100_001, 0.1);
        assert_eq!(mask.len(), 100_001);
        let dropped = mask.iter().filter(|&&m| m == 0.0).count();
        assert!((9_500..10_500).contains(&dropped), "{dropped}");
        assert!((mask.iter().sum::<f32>() / 100_001.0 - 1.0).abs() < 0.01);
        assert!(Random::new(1).dropout(10, 0.0).iter().all(|&m| m == 1.0));
    }
}
