//! Where a cloud is, and what it takes to get in.

use std::{fmt, str::FromStr};

use reqwest::Url;
use thiserror::Error;
use url::Host;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Url);

#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "{given:?} is not the address of a cloud: {reason}; write http://HOST:PORT or https://HOST"
)]
pub struct AddressError {
    given: String,
    reason: String,
}

impl Address {
    /// Whether it is this very machine, where no proxy stands between.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    /// Whether what travels is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // What was given may hold a password; an error must not repeat it.
        let given = text.rsplit_once('@').map_or(text, |(_, host)| host);
        let wrong = |reason: &str| AddressError { given: given.into(), reason: reason.into() };
        let url = Url::parse(text).map_err(|e| wrong(&e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it does not begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("keys go into --cloud-key"));
        }
        if url.host().is_none() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it is not a plain address"));
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // People give the API's root as they know it; routes are named from the server's own.
        let text = self.0.as_str().trim_end_matches('/');
        f.write_str(text.strip_suffix("/v1").unwrap_or(text))
    }
}

/// A secret: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The secret itself, for the header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let visible = text.bytes().all(|b| (0x21..0x7f).contains(&b));
        match text {
            "" => Err("a key must not be empty".into()),
            _ if visible => Ok(Self(text.into())),
            _ => Err("a key is one word of ASCII".into()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in
            ["http://127.0.0.1:8080", "http://box.local:9/", "http://[::1]:80/under", "https://x"]
        {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["", "localhost:80", "ftp://x", "http://", "http://x/?q=1", "/tmp"] {
            let error = bad.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("http://HOST:PORT"), "{error}");
        }
        assert_eq!("http://x:1/".parse::<Address>().unwrap().to_string(), "http://x:1");
        assert_eq!("http://x:1/v1".parse::<Address>().unwrap().to_string(), "http://x:1");
    }

    #[test]
    fn this_machine_is_told_from_others() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_loopback();
        assert!(is_local("http://127.0.0.1:1") && is_local("http://localhost"));
        assert!(is_local("http://[::1]:8") && !is_local("http://127.evil.com"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let error = "http://me:hunter2@host".parse::<Address>().unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("--cloud-key"), "{error}");
        let key: Key = "hunter2".parse().unwrap();
        assert!(!format!("{key:?}").contains("hunter2"));
        assert!("two words".parse::<Key>().is_err() && "".parse::<Key>().is_err());
    }
}
