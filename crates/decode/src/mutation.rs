//! Random damage to texts and files, for tests of what reads them. It is drawn from a seed, so that what
//! was found can be tried again: `TANDEM_SEED` draws other damage, `TANDEM_ROUNDS` more of it.

use std::env;

use crate::sampling::hash;

/// What readers stumble over.
const PIECES: [&str; 24] = [
    "null",
    "-1",
    "1e18",
    "1e999",
    "NaN",
    "4294967295",
    "18446744073709551616",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[",
    "{\"a\":{\"a\":",
    "\\ud800",
    "\0",
    "\u{feff}",
    "\r\n\r\n",
    "😀",
    "true",
    ",",
    "\"",
    "\u{202e}",
    "00",
    "0.5",
    "../../x",
];

/// Reads every text of the corpus, and each of them damaged in many ways. A panic names the input.
pub fn each(corpus: &[Vec<u8>], rounds: usize, mut read: impl FnMut(&[u8])) {
    for number in 0..corpus.len() + count(rounds) {
        let input = input(corpus, number);
        let named = Named(number, &input);
        read(&input);
        drop(named);
    }
}

/// As many rounds as the test wants, or as `TANDEM_ROUNDS` says.
pub fn count(rounds: usize) -> usize {
    variable("TANDEM_ROUNDS").map_or(rounds, |rounds| rounds as usize)
}

/// One input: first the corpus as it is, then damaged.
pub fn input(corpus: &[Vec<u8>], number: usize) -> Vec<u8> {
    if let Some(whole) = corpus.get(number) {
        return whole.clone();
    }
    let seed = hash(variable("TANDEM_SEED").unwrap_or(1), number);
    let mut draws = 0;
    let mut draw = |below: usize| {
        draws += 1;
        (hash(seed, draws) >> 16) as usize % below.max(1)
    };
    let mut bytes = corpus.get(draw(corpus.len())).cloned().unwrap_or_default();
    for _ in 0..1 + draw(3) {
        let at = draw(bytes.len() + 1);
        let to = at + draw((bytes.len() - at).min(24) + 1);
        match draw(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..to)),
            2 => bytes.splice(at..to, PIECES[draw(PIECES.len())].bytes()).for_each(drop),
            3 => {
                let again = bytes[at..to].repeat(1 + draw(64));
                bytes.splice(at..at, again).for_each(drop);
            }
            4 => {
                let other = &corpus[draw(corpus.len())];
                let from = draw(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 0xff, 0x7f, 0x80, draw(256) as u8][draw(5)];
                }
            }
        }
    }
    bytes
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Says which input it was, if the reader panics.
struct Named<'a>(usize, &'a [u8]);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input {}: {:?}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}
