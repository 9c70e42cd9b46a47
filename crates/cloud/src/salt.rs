//! What keeps the conversations of one owner apart from those of others in an engine's cache.
//!
//! An engine that serves every shared beginning from its cache answers sooner where somebody else asked
//! the same, and counts it. Engines that take a salt share nothing between texts with different salts.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};

/// Goes with every ask of one owner.
#[derive(Clone, PartialEq, Eq)]
pub struct CacheSalt(Arc<str>);

impl CacheSalt {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whoever knew it could look into the cache of its owner.
impl fmt::Debug for CacheSalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheSalt")
    }
}

/// Makes a salt for every owner from a secret of this process, so that nobody else who uses the engine
/// can guess one.
pub struct Salts([u8; 32]);

impl Salts {
    /// Fails where the system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self(secret))
    }

    pub fn of(&self, owner: u64) -> CacheSalt {
        let digest = Sha256::new().chain_update(self.0).chain_update(owner.to_le_bytes());
        CacheSalt(decode::hex(&digest.finalize()).into())
    }
}

impl fmt::Debug for Salts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_salt_that_nobody_guesses() {
        let (ours, theirs) = (Salts::random().unwrap(), Salts::random().unwrap());
        assert_eq!(ours.of(1), ours.of(1));
        assert_ne!(ours.of(1), ours.of(2));
        // Of another process.
        assert_ne!(ours.of(1), theirs.of(1));
        assert_eq!(ours.of(1).as_str().len(), 64);
        assert!(!format!("{:?} {ours:?}", ours.of(1)).contains(ours.of(1).as_str()));
    }
}
