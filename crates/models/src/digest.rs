//! SHA-256 as lower-case hexadecimal digits.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

const BUFFER: usize = 1 << 20;

pub fn of_file(path: &Path) -> io::Result<String> {
    of(File::open(path)?)
}

pub fn of(reader: impl Read) -> io::Result<String> {
    copy(reader, |_| Ok(())).map(|(_, hash)| hash)
}

/// Copies a reader to `write`; returns the number of bytes and their hash.
pub fn copy(
    mut reader: impl Read,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok((bytes, decode::hex(&hash.finalize())));
        }
        hash.update(&buffer[..count]);
        write(&buffer[..count])?;
        bytes += count as u64;
    }
}
