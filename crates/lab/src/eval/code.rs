//! Answers that are programs: what of an answer is the program, and whether it passes its tests.

use super::confine;

/// A function to write, and how it is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its head and what it is to do, with the imports before it.
    pub stub: String,
    pub name: String,
    /// Defines `check(candidate)`.
    pub tests: String,
}

impl Function {
    /// How it is put to a model.
    pub fn prompt(&self) -> String {
        format!(
            "Complete this Python function. Answer with the whole function in one code block.\n\n\
             ```python\n{}\n```",
            self.stub.trim()
        )
    }

    /// The program that an answer makes with the tests; `None` where the answer has no code.
    pub fn program(&self, answer: &str) -> Option<String> {
        let code = code(answer, &self.name)?;
        let head = format!("def {}", self.name);
        let whole = if code.contains(&head) {
            // Imports and helpers stand before the function in its stub.
            let before = self.stub.split(&head).next().unwrap_or_default();
            format!("{before}\n{code}")
        } else {
            // The body alone, as a model goes on that was given the stub.
            format!("{}\n{code}", self.stub.trim_end())
        };
        Some(format!("{whole}\n\n{}\n\ncheck({})\n", self.tests, self.name))
    }

    /// Whether an answer passes the tests. Where programs cannot be confined, none does; whoever
    /// measures checks that beforehand.
    pub fn passes(&self, answer: &str) -> bool {
        let Some(program) = self.program(answer) else { return false };
        confine::run(&program).unwrap_or_else(|error| {
            tracing::warn!("an answer was not run: {error}");
            false
        })
    }
}

/// The block of code with the function in it, else the first block, else an answer without blocks that
/// looks like code.
fn code<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = format!("def {name}");
    let blocks = blocks(answer);
    let wanted = blocks.iter().find(|block| block.contains(&head)).or(blocks.first());
    if let Some(block) = wanted {
        return Some(block);
    }
    let looks_like_code = answer.contains(&head) || answer.starts_with([' ', '\t']);
    (looks_like_code && !answer.trim().is_empty()).then_some(answer)
}

/// What stands between lines of ``` in an answer; the last may have been cut off.
fn blocks(answer: &str) -> Vec<&str> {
    let mut blocks = vec![];
    let mut rest = answer;
    while let Some((_, behind)) = rest.split_once("```") {
        let Some((_, body)) = behind.split_once('\n') else { break };
        let (block, after) = body.split_once("```").unwrap_or((body, ""));
        blocks.push(block);
        rest = after;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double() -> Function {
        Function {
            stub: "from typing import List\n\n\ndef double(x: int) -> int:\n    \"\"\"Twice x.\"\"\"\n"
                .into(),
            name: "double".into(),
            tests: "def check(candidate):\n    assert candidate(3) == 6\n".into(),
        }
    }

    #[test]
    fn the_program_of_an_answer() {
        let function = double();
        let whole =
            "Sure!\n```python\ndef double(x):\n    return 2 * x\n```\nUse it:\n```\ndouble(1)\n```";
        let program = function.program(whole).unwrap();
        assert!(program.starts_with("from typing import List\n"), "{program}");
        assert!(program.contains("return 2 * x\n") && !program.contains("Use it"), "{program}");
        assert!(program.ends_with("check(double)\n"));
        // A body, as a model goes on.
        let body = function.program("    return 2 * x\n").unwrap();
        assert!(body.contains("\"\"\"Twice x.\"\"\"\n    return 2 * x"), "{body}");
        // Cut off in the middle of the block.
        assert!(function.program("```python\ndef double(x):\n    return 2 *").is_some());
        assert_eq!(function.program("I cannot do that."), None);
        assert_eq!(function.program(""), None);
        assert!(function.prompt().contains("```python\nfrom typing import List\n"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn answers_are_judged_by_their_tests() {
        let function = double();
        assert!(function.passes("```python\ndef double(x):\n    return 2 * x\n```"));
        assert!(!function.passes("```python\ndef double(x):\n    return x\n```"));
        assert!(!function.passes("```python\nimport os\nos._exit(0)\ndef double(x): pass\n```"));
        assert!(!function.passes("Nothing."));
    }
}
