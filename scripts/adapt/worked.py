"""Multiple-choice questions with worked answers: the prompt, the answer, and what was chosen.

The prompt is the one `tandem eval` and `tandem router collect` use (crates/lab/src/eval/example.rs).
"""

import json
import re

SYSTEM = "You are a helpful assistant."
FORMAT = (
    "Please format your response in the following way: [Explanation]. "
    "Therefore, the answer is answer (label)."
)
CONCLUSION = re.compile(r"[Tt]he answer is[^()]*\(([A-Za-z])\)")


def read(path):
    return [json.loads(line) for line in open(path) if line.strip()]


def messages(row):
    choices = zip(row["choices"]["label"], row["choices"]["text"])
    listed = "\n".join(f"({label.lower()}) {text}" for label, text in choices)
    content = f"Question: {row['question'].strip()}\nChoices:\n{listed}\n{FORMAT}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


def right_choice(row):
    return row["choices"]["text"][row["choices"]["label"].index(row["answerKey"])]


def answer(row, explain_first=False):
    """The worked answer; by default its choice comes before its reasons."""
    body = row["cot"].rpartition("Therefore, the answer is")[0].strip()
    choice, label = right_choice(row), row["answerKey"].lower()
    lead = "" if explain_first else f"The best choice is {choice}. "
    return f"{lead}{body} Therefore, the answer is {choice} ({label})."


def is_whole(row):
    """Whether the worked answer explains, and concludes with the right label."""
    return row["cot"].count("Therefore, the answer is") == 1 and chosen(row["cot"]) == row["answerKey"]


def chosen(text):
    """The label of the last conclusion, if there is one."""
    found = CONCLUSION.findall(text)
    return found[-1].upper() if found else None
