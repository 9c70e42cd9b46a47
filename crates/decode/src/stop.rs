//! Stop strings are found even across tokens and are never shown.

use crate::trace::Accepted;

/// Holds back tokens that may be the start of a stop string.
#[derive(Debug)]
pub struct StopFilter {
    stops: Vec<String>,
    held: Vec<Accepted>,
    found: Option<String>,
}

impl StopFilter {
    /// Ignores empty stop strings, which would match everywhere.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        let stops = stops.into_iter().filter(|s| !s.is_empty()).collect();
        Self { stops, held: vec![], found: None }
    }

    /// Takes the next token; returns those that can be shown now, and whether a stop string was
    /// found, which ends the text before it.
    pub fn push(&mut self, token: Accepted) -> (Vec<Accepted>, bool) {
        if self.stops.is_empty() {
            return (vec![token], false);
        }
        self.held.push(token);
        let text: String = self.held.iter().map(|t| t.text.as_str()).collect();
        let places = self.stops.iter().filter_map(|s| Some((text.find(s.as_str())?, s)));
        if let Some((at, stop)) = places.min_by_key(|(at, _)| *at) {
            self.found = Some(stop.clone());
            return (self.cut(at), true);
        }
        let certain = self.certain(&text);
        let mut end = 0;
        let whole = self.held.iter().take_while(|t| {
            end += t.text.len();
            end <= certain
        });
        let release = whole.count();
        (self.held.drain(..release).collect(), false)
    }

    /// The stop string that ended the text; where several begin at one place, the one given first.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Whether one of the stop strings is in this text.
    pub fn is_in(&self, text: &str) -> bool {
        self.stops.iter().any(|stop| text.contains(stop.as_str()))
    }

    /// Returns what is still held back, at the end of the text.
    pub fn finish(&mut self) -> Vec<Accepted> {
        std::mem::take(&mut self.held)
    }

    /// How much of the text cannot be part of a stop string any more.
    fn certain(&self, text: &str) -> usize {
        let starts_stop = |tail: &str| self.stops.iter().any(|s| s.starts_with(tail));
        text.char_indices().map(|(i, _)| i).find(|&i| starts_stop(&text[i..])).unwrap_or(text.len())
    }

    fn cut(&mut self, at: usize) -> Vec<Accepted> {
        let mut left = at;
        let mut kept = vec![];
        for mut token in self.held.drain(..) {
            if left == 0 {
                break;
            }
            token.text.truncate(left);
            left -= token.text.len();
            kept.push(token);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown after each token, `|` between them, `!` where it stops.
    fn shown(stops: &[&str], tokens: &[&str]) -> String {
        let mut filter = StopFilter::new(stops.iter().map(ToString::to_string));
        let mut out = vec![];
        for text in tokens {
            let token = Accepted { text: text.to_string(), ..Accepted::default() };
            let (released, stopped) = filter.push(token);
            let mut now: String = released.iter().map(|t| t.text.as_str()).collect();
            if stopped {
                now.push('!');
                out.push(now);
                return out.join("|");
            }
            out.push(now);
        }
        out.push(filter.finish().iter().map(|t| t.text.as_str()).collect());
        out.join("|")
    }

    #[test]
    fn stop_strings() {
        assert_eq!(shown(&[], &["a", "b"]), "a|b|");
        assert_eq!(shown(&["END"], &["a", "EN", "D", "x"]), "a||!");
        assert_eq!(shown(&["END"], &["a", "EN", "T", "x"]), "a||ENT|x|");
        assert_eq!(shown(&["END"], &["a", "E"]), "a||E");
        assert_eq!(shown(&["\n\n"], &["one.\n", "\ntwo"]), "|one.!");
        assert_eq!(shown(&["b", "abc"], &["ab"]), "a!");
        assert_eq!(shown(&["中文"], &["x中", "文"]), "|x!");
        assert_eq!(shown(&["", "z"], &["a", "z"]), "a|!");
    }

    #[test]
    fn the_stop_string_that_was_found_is_known() {
        let found = |tokens: &[&str]| {
            let mut filter = StopFilter::new(["sat", "cat sat", "."].map(String::from));
            for text in tokens {
                filter.push(Accepted { text: text.to_string(), ..Accepted::default() });
            }
            filter.found().map(String::from)
        };
        assert_eq!(found(&["the cat", " sat."]).as_deref(), Some("cat sat"));
        assert_eq!(found(&["the dog", " sat"]).as_deref(), Some("sat"));
        assert_eq!(found(&["the dog"]), None);
    }
}
