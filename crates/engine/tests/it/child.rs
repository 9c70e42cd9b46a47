//! Tests of what would end the whole process, made in a process of their own.

use std::{
    env,
    process::{Command, Output},
};

const CHILD: &str = "TANDEM_TEST_CHILD";

/// The argument that this process was started with by [`run`], if it was.
pub fn argument() -> Option<String> {
    env::var(CHILD).ok()
}

/// Runs one test of this program again, in a process of its own, with an argument.
pub fn run(test: &str, argument: &str) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, argument);
    command.output().unwrap()
}
