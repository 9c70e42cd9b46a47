//! How far a long command is.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar with a rate and the time left; where there is no terminal, nothing.
#[derive(Default)]
pub struct TerminalProgress(Mutex<Option<ProgressBar>>);

impl TerminalProgress {
    fn with(&self, act: impl FnOnce(&ProgressBar)) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bar.as_ref().map(act);
    }
}

impl lab::Progress for TerminalProgress {
    fn begin(&self, what: &str, steps: usize) {
        self.end();
        let bar = ProgressBar::new(steps as u64).with_message(what.to_owned());
        let style = "{msg} {wide_bar} {pos}/{len}  {per_sec}  {eta} left  {prefix}";
        // The template is ours: if it were wrong, the default is as good.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    fn step(&self) {
        self.with(|bar| bar.inc(1));
    }

    fn note(&self, text: String) {
        self.with(|bar| bar.set_prefix(text));
    }

    fn end(&self) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        lab::Progress::end(self);
    }
}
