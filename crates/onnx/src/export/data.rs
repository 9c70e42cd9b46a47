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

/// A range of the file.
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

    /// Begins a tensor.
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

/// Blocks of a matrix, quantised symmetrically: a number is (byte − middle) · scale.
pub struct Blocks {
    pub bytes: Vec<u8>,
    pub scales: Vec<f32>,
}

impl Blocks {
    /// Quantises whole rows; the last block of a row is filled up with zeros.
    pub fn quantise(rows: &[f32], columns: usize, four_bits: bool) -> Self {
        let mut blocks = Self { bytes: vec![], scales: vec![] };
        let limit = if four_bits { 7.0 } else { 127.0 };
        for row in rows.chunks(columns.max(1)) {
            for block in row.chunks(BLOCK) {
                let largest = block.iter().fold(0f32, |m, x| m.max(x.abs()));
                let scale = largest / limit;
                let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                let mut quantised = [0i16; BLOCK];
                for (q, x) in quantised.iter_mut().zip(block) {
                    *q = (x * inverse).round().clamp(-limit, limit) as i16;
                }
                if four_bits {
                    let nibble = |q: i16| (q + 8) as u8;
                    let pairs = quantised.chunks_exact(2);
                    blocks.bytes.extend(pairs.map(|p| nibble(p[0]) | nibble(p[1]) << 4));
                } else {
                    blocks.bytes.extend(quantised.map(|q| (q + 128) as u8));
                }
                blocks.scales.push(scale);
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_come_back_within_half_a_step() {
        let row: Vec<f32> = (0..70).map(|i| ((i * 37 % 71) as f32 - 35.0) * 0.01).collect();
        let blocks = Blocks::quantise(&row, 70, false);
        assert_eq!((blocks.bytes.len(), blocks.scales.len()), (96, 3));
        for (i, x) in row.iter().enumerate() {
            let scale = blocks.scales[i / 32];
            let back = (f32::from(blocks.bytes[i]) - 128.0) * scale;
            assert!((back - x).abs() <= scale * 0.5 + 1e-6, "{i}: {x} {back}");
        }
        assert!(blocks.bytes[70..].iter().all(|&b| b == 128));
    }

    #[test]
    fn four_bits_are_packed_low_half_first() {
        let mut row = vec![0.0; 32];
        (row[0], row[1], row[2]) = (0.7, -0.7, 0.1);
        let blocks = Blocks::quantise(&row, 32, true);
        assert_eq!(blocks.bytes.len(), 16);
        assert_eq!(blocks.bytes[0], 15 | 1 << 4);
        assert_eq!(blocks.bytes[1], 9 | 8 << 4);
        assert!((blocks.scales[0] - 0.1).abs() < 1e-6);
    }
}
