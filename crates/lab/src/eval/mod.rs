//! Tasks: questions from files, how they are put to a model, and whether an answer is right; and
//! what many answers say of a way to decode.
//!
//! - [`task`]: the tasks by name; [`mod@read`] checks and reads their files, line by line with `row`,
//!   from bytes with [`encoding`]; [`builtin`]: questions that come along
//! - [`example`] makes prompts and judges; [`conclusion`] finds what an answer says, [`compare`]
//!   whether that is right
//! - [`sweep`]: every question at every point; [`costs`]: what an answer cost
//! - [`results`]: answers as they come in; [`figures`]: what they cost, and statistics;
//!   [`table`]: what they say together

pub mod builtin;
pub mod compare;
pub mod conclusion;
pub mod costs;
pub mod encoding;
pub mod example;
pub mod figures;
pub mod read;
pub mod results;
mod row;
pub mod sweep;
pub mod table;
pub mod task;

pub use compare::Compare;
pub use example::{Example, Task, Worked};
pub use figures::{Figures, Split};
pub use read::{ReadError, read};
pub use results::{
    Mode, Outcome, Piece, Point, Question, Record, Results, ResultsError, ResultsInfo, Spent,
};
pub use sweep::{Decoder, Run, Sweep, Way};
pub use table::{Row, Table};
pub use task::{TaskName, UnknownTask};
