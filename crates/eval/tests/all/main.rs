//! What is read out of answers.
#![allow(missing_docs)]

mod answers;
mod any_text;
