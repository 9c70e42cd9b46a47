//! How far a long command is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar with a rate and the time left; where there is no terminal, nothing.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(what: &str, steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64).with_message(what.to_owned());
        let style = "{msg} {wide_bar} {pos}/{len}  {per_sec}  {eta} left  {prefix}";
        // The template is ours: if it were wrong, the default is as good.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    /// One more is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// What came out so far.
    pub fn note(&self, text: String) {
        self.0.set_prefix(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
