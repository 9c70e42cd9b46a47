//! What a model's answer says, read by the conventions of the tasks.
//!
//! The last conclusion counts: the last "the answer is …", "Answer: …" or `\boxed{…}`. One that was
//! cut off, or that says what the answer is not, is skipped; one that says something else than
//! what was asked for is no answer, whatever stands before it. Nothing is guessed from the middle
//! of an explanation.
//!
//! - [`cue`]: where a text concludes
//! - [`choice`](mod@choice): which choice it concludes with; `words`: how its text is found
//! - [`number`](mod@number): which number; [`value`]: when two numbers are the same

pub mod choice;
pub mod cue;
pub mod number;
pub mod value;
mod words;

pub use choice::choice;
pub use number::number;
pub use value::normal_number;
