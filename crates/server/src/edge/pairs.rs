//! The pairs that are served: the server's own, and further ones under names of their own.

use futures_util::future::select_all;
use tandem::{Mode, Pair, Tandem};

use super::{ServerInfo, metrics::PairMetrics};

/// The name of the server's own pair.
pub const OWN: &str = "tandem";

/// The longest name of a further pair.
const MAX_NAME_LENGTH: usize = 32;

/// A pair beside the server's own.
pub struct FurtherPair<P: Pair> {
    /// What the names of its models begin with, as in `NAME-joint`.
    pub name: String,
    pub tandem: Tandem<P>,
    /// What callers may know of its models.
    pub about: ServerInfo,
}

/// Refuses names that could not stand before `-joint`, or are taken.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    if name == OWN {
        return Err(format!("{OWN:?} is the name of the server's own pair: choose another"));
    }
    if !(1..=MAX_NAME_LENGTH).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(format!(
            "{name:?} is no name for a pair: write at most {MAX_NAME_LENGTH} small letters, digits, \
             -, _ and ."
        ));
    }
    Ok(())
}

/// A pair with its figures.
pub struct ServedPair<P: Pair> {
    pub name: String,
    pub tandem: Tandem<P>,
    pub about: ServerInfo,
    pub metrics: PairMetrics,
}

impl<P: Pair> ServedPair<P> {
    /// The name of this pair in a mode, as a model's.
    pub fn model(&self, mode: Mode) -> String {
        model_name(&self.name, mode)
    }
}

/// The name of a pair in a mode, as a model's.
pub fn model_name(pair: &str, mode: Mode) -> String {
    format!("{pair}-{mode}")
}

/// The pair and the mode that a model's name stands for.
pub fn parse_model(model: &str) -> Option<(&str, Mode)> {
    let (pair, mode) = model.rsplit_once('-')?;
    Some((pair, mode.parse().ok()?))
}

/// Which of a server's pairs a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairId(usize);

/// All pairs of a server; the first is its own.
pub struct Pairs<P: Pair>(Vec<ServedPair<P>>);

impl<P: Pair> Pairs<P> {
    pub fn new(own: ServedPair<P>, further: impl IntoIterator<Item = ServedPair<P>>) -> Self {
        Self([own].into_iter().chain(further).collect())
    }

    /// The server's own.
    pub fn own(&self) -> &ServedPair<P> {
        &self.0[0]
    }

    /// The pair of an id, which only [`Pairs::with_ids`] gives out.
    pub fn get(&self, id: PairId) -> &ServedPair<P> {
        &self.0[id.0]
    }

    pub fn iter(&self) -> impl Iterator<Item = &ServedPair<P>> {
        self.0.iter()
    }

    pub fn with_ids(&self) -> impl Iterator<Item = (PairId, &ServedPair<P>)> {
        (0..).map(PairId).zip(&self.0)
    }

    /// The pair and the mode of a model's name.
    pub fn find(&self, model: &str) -> Option<(&ServedPair<P>, Mode)> {
        let (name, mode) = parse_model(model)?;
        Some((self.iter().find(|pair| pair.name == name)?, mode))
    }

    /// Texts that are made, by all of them.
    pub fn running(&self) -> usize {
        self.iter().map(|pair| pair.tandem.running()).sum()
    }

    /// Requests that wait for a seat of theirs.
    pub fn waiting(&self) -> usize {
        self.iter().map(|pair| pair.tandem.waiting()).sum()
    }

    /// Whether the models of any of them cannot be used any more.
    pub fn have_failed(&self) -> bool {
        self.iter().any(|pair| pair.tandem.pair().has_failed())
    }

    /// Waits until a model of any cannot be used any more, and says why.
    pub async fn failure(&self) -> String {
        select_all(self.iter().map(|pair| Box::pin(pair.tandem.failure()))).await.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_is_a_pairs_and_a_modes() {
        assert_eq!(parse_model("tandem-joint"), Some(("tandem", Mode::Joint)));
        assert_eq!(parse_model("my-maths-2-verify"), Some(("my-maths-2", Mode::Verify)));
        for wrong in ["joint", "tandem", "tandem-", "tandem-jointly", "tandem-joint-"] {
            assert_eq!(parse_model(wrong), None, "{wrong}");
        }
        assert_eq!(model_name("maths", Mode::Large), "maths-large");
    }

    #[test]
    fn names_are_plain_and_not_taken() {
        for name in ["maths", "qwen2.5", "a-b_c", "7"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "tandem", "Maths", "a b", "a:latest", "a/b", "\u{e9}", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
