//! How a long run tells how far it is.

/// Shows how far a run is. Every method does nothing unless it is written.
pub trait Progress: Send + Sync {
    /// Work of this kind begins, with so many steps.
    fn begin(&self, what: &str, steps: usize) {
        let _ = (what, steps);
    }

    /// One more step is done.
    fn step(&self) {}

    /// What came out so far.
    fn note(&self, text: String) {
        let _ = text;
    }

    /// The work that began last is over.
    fn end(&self) {}
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {}
