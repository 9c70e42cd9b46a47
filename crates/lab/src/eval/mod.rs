//! Tasks: questions from files, how they are put to a model, and whether an answer is right; and
//! what many answers say of a way to decode.
//!
//! - [`task`]: the tasks by name; [`mod@read`] checks and reads their files, line by line with `row`,
//!   from bytes with [`encoding`]; [`builtin`]: questions that are built in
//! - [`example`] makes prompts and judges; [`conclusion`] finds what an answer says, [`compare`]
//!   whether that is right
//! - [`code`]: answers that are programs; [`confine`] runs what nobody has read
//! - [`points`]: what is measured; [`sweep`]: every question at every point, by `models` or by fakes;
//!   [`costs`]: what an answer cost
//! - [`results`]: answers as they come in; [`merge`]: several files as one; [`price`]: what they cost;
//!   [`table`]: what they say together
//! - [`mod@run`]: all of it, from a configuration to a table

pub mod builtin;
pub mod code;
pub mod compare;
pub mod conclusion;
pub mod confine;
pub mod costs;
pub mod encoding;
pub mod example;
pub mod merge;
mod models;
pub mod points;
pub mod price;
pub mod read;
pub mod results;
mod row;
pub mod run;
pub mod sweep;
pub mod table;
pub mod task;

pub use compare::Compare;
pub use costs::{Costs, TimeSplit};
pub use example::{Example, Task};
pub(crate) use models::messages;
pub use price::Price;
pub use read::{ReadError, read};
pub use results::{
    Outcome, Point, Question, Record, Results, ResultsError, ResultsInfo, Spent, TokenRecord,
};
pub use run::{EvalConfig, Evaluation, RunTime};
pub use sweep::{DecodeOptions, Decoder, Judges, Run, Sweep};
pub use table::{Row, Table};
pub use task::{TaskName, UnknownTask};
