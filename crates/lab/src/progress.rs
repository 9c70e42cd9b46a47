//! How a long run tells how far it is.

/// Shows how far a run is.
pub trait Progress: Send + Sync {
    /// Work of this kind begins, with so many steps.
    fn begin(&self, what: &str, steps: usize);

    /// One more step is done.
    fn step(&self);

    /// Shows what came out so far.
    fn note(&self, text: String);

    /// The work that began last is over.
    fn end(&self);
}
