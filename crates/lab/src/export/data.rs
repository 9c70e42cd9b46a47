//! The file of weights, written from its beginning to its end.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use half::f16;

/// Weights in a block share a scale.
pub const BLOCK: usize = 32;

/// Where tensors begin: a page, so that they can be mapped.
const ALIGNMENT: u64 = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub offset: u64,
    pub length: u64,
}

pub struct Data {
    out: BufWriter<File>,
    at: u64,
    begin: u64,
    /// What the model calls it.
    pub location: &'static str,
}

impl Data {
    pub fn create(path: &Path, location: &'static str) -> io::Result<Self> {
        let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(Self { out, at: 0, begin: 0, location })
    }

    pub fn begin(&mut self) -> io::Result<()> {
        let padding = self.at.next_multiple_of(ALIGNMENT) - self.at;
        self.put(&vec![0; padding as usize])?;
        self.begin = self.at;
        Ok(())
    }

    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    pub fn put_floats(&mut self, numbers: &[f32]) -> io::Result<()> {
        numbers.iter().try_for_each(|n| self.put(&n.to_le_bytes()))
    }

    pub fn put_halves(&mut self, numbers: &[f32]) -> io::Result<()> {
        numbers.iter().try_for_each(|n| self.put(&f16::from_f32(*n).to_le_bytes()))
    }

    /// The tensor begun last, whole.
    pub fn end(&self) -> Range {
        Range { offset: self.begin, length: self.at - self.begin }
    }

    /// Closes the file and says how long it is.
    pub fn finish(self) -> io::Result<u64> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(self.at)
    }
}

/// How a block of numbers becomes small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Bytes around a middle of 128: what the vocabulary's matrix has, which is looked up too.
    Middle,
    /// Bytes with a zero of each block's own. Weights that lie on a coarse grid, as those of a
    /// quantised file do, nearly keep their values.
    Zero,
    /// Half bytes around a middle of 8.
    Half,
}

/// Blocks of a matrix: a number is (byte − zero) · scale.
#[derive(Debug, Default)]
pub struct Blocks {
    pub bytes: Vec<u8>,
    pub scales: Vec<f32>,
    /// One a block, with [`Rounding::Zero`].
    pub zeros: Vec<u8>,
}

impl Blocks {
    /// Quantises whole rows; the last block of a row is filled up with zeros.
    pub fn quantise(rows: &[f32], columns: usize, rounding: Rounding) -> Self {
        let mut blocks = Self::default();
        for row in rows.chunks(columns.max(1)) {
            for block in row.chunks(BLOCK) {
                match rounding {
                    Rounding::Zero => blocks.push_with_zero(block),
                    Rounding::Middle => blocks.push_around(block, 127.0),
                    Rounding::Half => blocks.push_around(block, 7.0),
                }
            }
        }
        blocks
    }

    fn push_around(&mut self, block: &[f32], limit: f32) {
        let largest = block.iter().fold(0f32, |m, x| m.max(x.abs()));
        let scale = largest / limit;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let mut quantised = [0i16; BLOCK];
        for (q, x) in quantised.iter_mut().zip(block) {
            *q = (x * inverse).round().clamp(-limit, limit) as i16;
        }
        if limit < 8.0 {
            let nibble = |q: i16| (q + 8) as u8;
            let pairs = quantised.chunks_exact(2);
            self.bytes.extend(pairs.map(|p| nibble(p[0]) | nibble(p[1]) << 4));
        } else {
            self.bytes.extend(quantised.map(|q| (q + 128) as u8));
        }
        self.scales.push(scale);
    }

    fn push_with_zero(&mut self, block: &[f32]) {
        // Zero must be among the numbers that can be written.
        let least = block.iter().copied().fold(0f32, f32::min);
        let most = block.iter().copied().fold(0f32, f32::max);
        let whole = (most - least) / 255.0;
        let scale = fine_step(block, least, most).unwrap_or(whole);
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let zero = (-least * inverse).round().clamp(0.0, 255.0);
        let byte = |x: f32| (x * inverse + zero).round().clamp(0.0, 255.0) as u8;
        let mut bytes = [zero as u8; BLOCK];
        bytes.iter_mut().zip(block).for_each(|(b, x)| *b = byte(*x));
        self.bytes.extend(bytes);
        self.scales.push(scale);
        self.zeros.push(zero as u8);
    }
}

/// A step that divides the grid a block lies on, and on which the grid's own offset nearly lies:
/// of the fractions of the grid's step that fit into a byte, the one that leaves the least over.
fn fine_step(block: &[f32], least: f32, most: f32) -> Option<f32> {
    let mut sorted = [f32::INFINITY; BLOCK];
    sorted.iter_mut().zip(block).for_each(|(s, x)| *s = *x);
    sorted[..block.len()].sort_unstable_by(f32::total_cmp);
    let sorted = &sorted[..block.len()];
    let (range, first) = (most - least, *sorted.first()?);
    let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    let gap = gaps.filter(|gap| *gap > range * 2e-3).fold(f32::INFINITY, f32::min);
    if !gap.is_finite() {
        return None;
    }
    // Where not every level is used, the smallest gap is some levels wide.
    let on_grid = |step: f32| {
        let off = |x: &f32| ((x - first) / step - ((x - first) / step).round()).abs();
        sorted.iter().all(|x| off(x) < 0.01)
    };
    let step = (1..=3).map(|parts| gap / parts as f32).find(|step| on_grid(*step))?;
    let left_over = |step: f32| ((first / step) - (first / step).round()).abs() * step;
    (1..=255)
        .map(|parts| step / parts as f32)
        .take_while(|step| range / step <= 254.0)
        .min_by(|a, b| left_over(*a).total_cmp(&left_over(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_come_back_within_half_a_step() {
        let row: Vec<f32> = (0..70).map(|i| ((i * 37 % 71) as f32 - 35.0) * 0.01).collect();
        let blocks = Blocks::quantise(&row, 70, Rounding::Middle);
        assert_eq!((blocks.bytes.len(), blocks.scales.len()), (96, 3));
        for (i, x) in row.iter().enumerate() {
            let scale = blocks.scales[i / 32];
            let back = (f32::from(blocks.bytes[i]) - 128.0) * scale;
            assert!((back - x).abs() <= scale * 0.5 + 1e-6, "{i}: {x} {back}");
        }
        assert!(blocks.bytes[70..].iter().all(|&b| b == 128));
    }

    #[test]
    fn a_grid_of_sixteen_levels_keeps_its_values() {
        let back = |blocks: &Blocks, i: usize| {
            (f32::from(blocks.bytes[i]) - f32::from(blocks.zeros[i / 32])) * blocks.scales[i / 32]
        };
        let (mut fine, mut coarse) = (0f32, 0f32);
        for seed in 0..50u32 {
            let step = 0.011 + seed as f32 * 3e-4;
            let offset = -0.09 - seed as f32 * 7e-4;
            let level = |i: u32| (i * i * 3 + i * 7 + seed * 13) % 16;
            let row: Vec<f32> = (0..32).map(|i| offset + step * level(i) as f32).collect();
            let (zero, middle) = (
                Blocks::quantise(&row, 32, Rounding::Zero),
                Blocks::quantise(&row, 32, Rounding::Middle),
            );
            for (i, x) in row.iter().enumerate() {
                fine += (back(&zero, i) - x).powi(2);
                let middle = (f32::from(middle.bytes[i]) - 128.0) * middle.scales[0];
                coarse += (middle - x).powi(2);
            }
        }
        assert!(fine * 5.0 < coarse, "{fine} {coarse}");
    }

    #[test]
    fn any_block_comes_back_within_a_step() {
        for row in
            [vec![0.0; 40], vec![0.25; 32], (0..64).map(|i| (i as f32).sin() + 2.0).collect()]
        {
            let blocks = Blocks::quantise(&row, row.len(), Rounding::Zero);
            assert_eq!(blocks.zeros.len(), blocks.scales.len());
            for (i, x) in row.iter().enumerate() {
                let (scale, zero) = (blocks.scales[i / 32], f32::from(blocks.zeros[i / 32]));
                let back = (f32::from(blocks.bytes[i]) - zero) * scale;
                assert!((back - x).abs() <= scale + 1e-6, "{i}: {x} {back}");
            }
        }
    }

    #[test]
    fn four_bits_are_packed_low_half_first() {
        let mut row = vec![0.0; 32];
        (row[0], row[1], row[2]) = (0.7, -0.7, 0.1);
        let blocks = Blocks::quantise(&row, 32, Rounding::Half);
        assert_eq!(blocks.bytes.len(), 16);
        assert_eq!(blocks.bytes[0], 15 | 1 << 4);
        assert_eq!(blocks.bytes[1], 9 | 8 << 4);
        assert!((blocks.scales[0] - 0.1).abs() < 1e-6);
    }
}
