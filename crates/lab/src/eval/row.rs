//! One line of a file: which fields it has to have, and what they may hold.

use serde_json::{Map, Value};

use crate::eval::{
    code::Function,
    compare::{Compare, Pattern},
    conclusion::{cue::boxes, value},
    example::{Example, Task},
    task::TaskName,
};

/// An object of fields. What is wrong with one is said in words: file and line are the reader's.
pub struct Row(Map<String, Value>);

impl Row {
    pub fn parse(line: &str) -> Result<Self, String> {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(other) => Err(format!("{} instead of a JSON object", kind(&other))),
            Err(_) if line.trim_start().starts_with('[') => {
                Err("this is the beginning of a JSON list; each object has to be on a line of its \
                     own, without brackets around them"
                    .into())
            }
            Err(e) if e.is_eof() => {
                Err("the JSON object does not end on this line; each has to be on one line".into())
            }
            Err(e) => {
                // The "line 1" of the message is not the file's.
                let message = e.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                Err(format!("not JSON: {message} at column {}", e.column()))
            }
        }
    }

    /// The question of a task whose file has this line.
    pub fn example(&self, task: TaskName, place: String) -> Result<Example, String> {
        use TaskName::*;
        let (task, worked) = match task {
            CommonsenseQa | Arc | Mmlu | Builtin => self.choice()?,
            Gsm8k | Math => self.maths(task == Gsm8k)?,
            HumanEval => self.function()?,
            Jsonl => (self.judged()?, self.optional_text("response")?),
            Text => (Task::Plain { prompt: self.text("prompt")? }, self.optional_text("response")?),
        };
        Ok(Example { id: self.id(place)?, task, worked })
    }

    /// A task whose lines have these fields.
    pub fn shape(&self) -> Result<TaskName, String> {
        let shapes = [
            (self.is_published_sum(), TaskName::Gsm8k),
            (self.has("question"), TaskName::CommonsenseQa),
            (self.has("problem"), TaskName::Math),
            (self.has("entry_point") && self.has("test"), TaskName::HumanEval),
            (self.has("prompt") && self.has("compare"), TaskName::Jsonl),
            (self.has("prompt"), TaskName::Text),
        ];
        let found = shapes.into_iter().find(|(fits, _)| *fits);
        found.map(|(_, task)| task).ok_or_else(|| "no question, problem or prompt".into())
    }

    fn choice(&self) -> Result<(Task, Option<String>), String> {
        let (question, (labels, texts)) = match self.0.get("question") {
            // As CommonsenseQA and ARC are published.
            Some(Value::Object(fields)) => {
                let inner = Self(fields.clone());
                (inner.text("stem")?, inner.choices()?)
            }
            _ => (self.text("question")?, self.choices()?),
        };
        let at = self.right_choice(&labels)?;
        let (Some(_), Some(right)) = (texts.get(at), labels.get(at).cloned()) else {
            return Err(format!("there are {} choices, and answer is {at}", labels.len()));
        };
        Ok((Task::Choice { question, labels, texts, right }, self.optional_text("cot")?))
    }

    /// The place of the right choice: by its label or, as MMLU is published, by a number from 0.
    fn right_choice(&self, labels: &[String]) -> Result<usize, String> {
        if let (false, Some(Value::Number(place))) = (self.has("answerKey"), self.0.get("answer")) {
            let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
            return place.ok_or_else(|| "answer is not the number of a choice".into());
        }
        let name =
            if self.has("answerKey") || !self.has("answer") { "answerKey" } else { "answer" };
        let right = self.text(name)?;
        let at = labels.iter().position(|label| *label == right);
        at.ok_or_else(|| format!("{name} {right:?} is none of the labels {}", labels.join(", ")))
    }

    fn maths(&self, number: bool) -> Result<(Task, Option<String>), String> {
        if self.is_published_sum() {
            return self.published_sum();
        }
        let problem = self.text("problem")?;
        let solution = self.optional_text("solution")?;
        // MATH is published without the answer alone.
        let boxed = || boxes(solution.as_deref()?).filter(|held| held.whole).last();
        let answer = match (self.has("answer"), boxed()) {
            (false, Some(held)) if !held.behind.trim().is_empty() => held.behind.to_owned(),
            _ => self.scalar("answer")?,
        };
        if number {
            check_number(&answer)?;
        }
        Ok((Task::Maths { problem, answer }, solution))
    }

    /// Whether it is a sum as GSM8K is published.
    fn is_published_sum(&self) -> bool {
        let answer = self.0.get("answer").and_then(Value::as_str).unwrap_or_default();
        !self.has("problem") && self.has("question") && answer.contains("####")
    }

    fn published_sum(&self) -> Result<(Task, Option<String>), String> {
        let problem = self.text("question")?;
        let whole = self.text("answer")?;
        let (worked, answer) = whole.rsplit_once("####").unwrap_or_default();
        let answer = answer.trim().to_owned();
        check_number(&answer)?;
        let worked = without_calculator(worked);
        let worked = format!("{}\nThe answer is \\boxed{{{answer}}}.", worked.trim());
        Ok((Task::Maths { problem, answer }, Some(worked)))
    }

    fn function(&self) -> Result<(Task, Option<String>), String> {
        let (stub, tests) = (self.text("prompt")?, self.text("test")?);
        let name = self.text("entry_point")?;
        // It is called by this name.
        let plain = |c: char| c.is_alphanumeric() || c == '_';
        if !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("entry_point {name:?} is not the name of a function"));
        }
        let solution = self.optional_text("canonical_solution")?;
        let worked = solution.map(|body| format!("```python\n{}{body}\n```", stub.trim_start()));
        Ok((Task::Code(Function { stub, name, tests }), worked))
    }

    fn judged(&self) -> Result<Task, String> {
        let prompt = self.text("prompt")?;
        let answers = self.answers()?;
        let compare = match self.text("compare")?.as_str() {
            "exact" => Compare::Exact(answers),
            "contains" => Compare::Contains(answers),
            "number" => {
                answers.iter().try_for_each(|answer| check_number(answer))?;
                Compare::Number(answers)
            }
            "regex" => {
                let pattern = |answer: &String| {
                    Pattern::new(answer)
                        .map_err(|e| format!("answer {answer:?} is not a regex: {e}"))
                };
                Compare::Regex(answers.iter().map(pattern).collect::<Result<_, _>>()?)
            }
            "choice" => {
                let (labels, texts) = match self.has("choices") {
                    true => self.choices()?,
                    false => (usual_labels(&answers)?, vec![]),
                };
                let label = |answer: String| {
                    let found = labels.iter().find(|label| label.eq_ignore_ascii_case(&answer));
                    let none = format!("answer {answer:?} is none of {}", labels.join(", "));
                    found.cloned().ok_or(none)
                };
                let right = answers.into_iter().map(label).collect::<Result<_, _>>()?;
                Compare::Choice { labels, texts, right }
            }
            other => {
                return Err(format!(
                    "compare is {other:?}; it may be exact, choice, number, contains or regex"
                ));
            }
        };
        Ok(Task::Judged { prompt, compare })
    }

    fn choices(&self) -> Result<(Vec<String>, Vec<String>), String> {
        let (labels, texts) = match self.0.get("choices") {
            None => return Err(self.missing("choices")),
            Some(Value::Object(choices)) => {
                let choices = Self(choices.clone());
                (choices.list("label")?, choices.list("text")?)
            }
            Some(Value::Array(choices)) => listed(choices)?,
            Some(other) => {
                return Err(format!("choices is {} instead of {{label, text}}", kind(other)));
            }
        };
        if labels.len() != texts.len() {
            return Err(format!("{} labels and {} texts of choices", labels.len(), texts.len()));
        }
        if labels.len() < 2 {
            return Err("fewer than two choices".into());
        }
        for (at, label) in labels.iter().enumerate() {
            if labels.iter().take(at).any(|other| other.eq_ignore_ascii_case(label)) {
                return Err(format!("two choices have the label {label:?}"));
            }
        }
        Ok((labels, texts))
    }

    /// One right answer, or a list of them.
    fn answers(&self) -> Result<Vec<String>, String> {
        match self.0.get("answer") {
            Some(Value::Array(list)) if list.is_empty() => Err("answer is an empty list".into()),
            Some(Value::Array(list)) => list.iter().map(|one| scalar("answer", one)).collect(),
            _ => Ok(vec![self.scalar("answer")?]),
        }
    }

    fn id(&self, place: String) -> Result<String, String> {
        let names = ["id", "task_id"].into_iter().find(|name| self.has(name));
        names.map_or(Ok(place), |name| self.scalar(name))
    }

    fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.optional_text(name)?
            .ok_or_else(|| self.missing(name))
            .and_then(|text| if text.trim().is_empty() { Err(blank(name)) } else { Ok(text) })
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(format!("{name} is {} instead of text", kind(other))),
        }
    }

    /// Text, or a number where a file has one instead.
    fn scalar(&self, name: &str) -> Result<String, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Err(self.missing(name)),
            Some(value) => scalar(name, value),
        }
    }

    fn list(&self, name: &str) -> Result<Vec<String>, String> {
        match self.0.get(name) {
            Some(Value::Array(list)) => {
                list.iter().map(|one| scalar(&format!("a choice's {name}"), one)).collect()
            }
            Some(other) => Err(format!("choices' {name} is {} instead of a list", kind(other))),
            None => Err(format!("choices without {name}")),
        }
    }

    /// Says what is missing, and whose file this may be.
    fn missing(&self, name: &str) -> String {
        let looks = if self.has("question") && self.has("choices") && name != "answerKey" {
            Some("commonsenseqa, arc or mmlu")
        } else if self.has("problem") {
            Some("gsm8k or math").filter(|_| name != "answer")
        } else if self.has("prompt") && self.has("compare") {
            Some("jsonl").filter(|_| name != "answer")
        } else if self.has("prompt") && !["answer", "compare"].contains(&name) {
            Some("text or jsonl")
        } else {
            None
        };
        match looks {
            Some(task) => format!("{name} is missing; the line looks like one of {task}"),
            None => format!("{name} is missing"),
        }
    }
}

fn scalar(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.trim().is_empty() => Err(blank(name)),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("{name} is {} instead of text", kind(other))),
    }
}

fn blank(name: &str) -> String {
    format!("{name} is blank")
}

fn check_number(answer: &str) -> Result<(), String> {
    match value::is_number(answer) {
        true => Ok(()),
        false => Err(format!("answer {answer:?} is not a number")),
    }
}

/// Choices one by one: texts, whose labels are A, B, C …, or objects with label and text.
fn listed(choices: &[Value]) -> Result<(Vec<String>, Vec<String>), String> {
    let one = |(letter, choice): (char, &Value)| match choice {
        Value::Object(fields) => {
            let field = |name: &str| {
                let value = fields.get(name).ok_or_else(|| format!("a choice without {name}"))?;
                scalar(&format!("a choice's {name}"), value)
            };
            Ok((field("label")?, field("text")?))
        }
        text => Ok((letter.to_string(), scalar("a choice", text)?)),
    };
    let pairs: Result<Vec<_>, String> = ('A'..='Z').zip(choices).map(one).collect();
    Ok(pairs?.into_iter().unzip())
}

/// Without the marks of a calculator that GSM8K has in its answers: `3*4=<<3*4=12>>12`.
fn without_calculator(text: &str) -> String {
    let mut parts = text.split("<<");
    let first = parts.next().unwrap_or_default().to_owned();
    let behind = |part: &str| part.split_once(">>").map_or(part, |(_, rest)| rest).to_owned();
    parts.map(behind).fold(first, |text, part| text + &part)
}

/// A to E, or 1 to 5, and further if an answer says so.
fn usual_labels(answers: &[String]) -> Result<Vec<String>, String> {
    let wanted = || "without choices, answer has to be one letter or digit".to_owned();
    let mut last = ' ';
    for answer in answers {
        let mut chars = answer.chars();
        let (Some(c), None) = (chars.next(), chars.next()) else { return Err(wanted()) };
        let c = c.to_ascii_uppercase();
        let same = last == ' ' || c.is_ascii_digit() == last.is_ascii_digit();
        if !(c.is_ascii_uppercase() || ('1'..='9').contains(&c)) || !same {
            return Err(wanted());
        }
        last = last.max(c);
    }
    let labels = if last.is_ascii_digit() { '1'..=last.max('5') } else { 'A'..=last.max('E') };
    Ok(labels.map(String::from).collect())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
