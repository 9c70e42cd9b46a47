//! What answers cost in money, at prices that the user states.

use std::str::FromStr;

use super::costs::Costs;

const MILLION: f64 = 1e6;

/// Prices for a million tokens of the large model, in any currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Read for the first time.
    pub read: f64,
    pub written: f64,
    /// Read again, from a cache.
    pub cached: f64,
}

impl Price {
    /// What an answer costs where nobody has asked about its prompt before: the points of a sweep
    /// share what was read of it, users do not. `None` where the cloud does not say what it read.
    pub fn of(&self, costs: &Costs) -> Option<f64> {
        if costs.asks == 0 {
            return Some(0.0);
        }
        let (read, cached) = (costs.cloud_prefilled?, costs.cloud_cached?);
        let shared = costs.prompt.min(cached);
        let read = (read + shared) as f64 * self.read;
        let cached = (cached - shared) as f64 * self.cached;
        Some((read + cached + costs.cloud_decoded as f64 * self.written) / MILLION)
    }
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write three prices for a million tokens: read, written, and read from a cache, as in \
             0.5,1.5,0.05"
                .to_owned()
        };
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        match numbers.map_err(|_| wrong())?.as_slice() {
            &[read, written, cached]
                if [read, written, cached].iter().all(|n| n.is_finite() && *n >= 0.0) =>
            {
                Ok(Self { read, written, cached })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_as_they_are_written() {
        let price: Price = "0.5, 1.5,0.05".parse().unwrap();
        assert_eq!(price, Price { read: 0.5, written: 1.5, cached: 0.05 });
        for bad in ["", "1", "1,2", "1,2,3,4", "1,2,-3", "a,b,c", "1,nan,2"] {
            assert!(bad.parse::<Price>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prompt_is_paid_for_once_and_then_as_cached() {
        let price = Price { read: 1.0, written: 10.0, cached: 0.1 };
        // Three asks behind a prompt of 100 tokens that another point had read: it counts as read.
        let costs = Costs {
            asks: 3,
            prompt: 100,
            cloud_prefilled: Some(20),
            cloud_cached: Some(330),
            cloud_decoded: 3,
            ..Costs::default()
        };
        let expected = (120.0 + 230.0 * 0.1 + 30.0) / 1e6;
        assert!((price.of(&costs).unwrap() - expected).abs() < 1e-12);
        assert_eq!(price.of(&Costs::default()), Some(0.0));
        assert_eq!(price.of(&Costs { cloud_cached: None, ..costs }), None);
    }
}
