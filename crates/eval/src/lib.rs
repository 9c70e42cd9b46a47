//! Tasks: questions from files, how they are put to a model, and whether an answer is right.
//!
//! [`example`] reads files and makes prompts; [`conclusion`] finds what an answer says.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod conclusion;
pub mod example;

pub use example::{Example, ReadError, Task, Worked};
