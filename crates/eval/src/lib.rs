//! Tasks: questions from files, how they are put to a model, and whether an answer is right; and
//! what many answers say of a way to decode.
//!
//! - [`example`] reads files and makes prompts; [`conclusion`] finds what an answer says
//! - [`results`]: answers as they come in; [`figures`]: what they cost, and statistics;
//!   [`table`]: what they say together
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod conclusion;
pub mod costs;
pub mod example;
pub mod figures;
pub mod results;
pub mod sweep;
pub mod table;
pub mod task;

pub use example::{Example, ReadError, Task, Worked};
pub use figures::{Figures, Split};
pub use results::{
    About, Mode, Outcome, Piece, Point, Question, Record, Results, ResultsError, Spent,
};
pub use sweep::{Decoder, Run, Sweep, Way};
pub use table::{Row, Table};
pub use task::TaskName;
