"""What the models are asked while a router is fitted and judged, and whether an answer is right.

Questions of tasks come from files. Everything else a user may ask is made up: open requests from
templates, and requests for prompts, which the large model then writes. Prompts for multiple choice and
maths are those of `tandem eval` (crates/lab/src/eval/example.rs).
"""

import json
import random
import re
from dataclasses import dataclass

# Thresholds are chosen and positions are weighted for each of these apart.
KINDS = ("gsm8k", "maths", "commonsenseqa", "arc", "open", "code")
CHOICES = ("commonsenseqa", "arc")

SYSTEM = "You are a helpful assistant."
CHOICE_FORMAT = (
    "Please format your response in the following way: [Explanation]. "
    "Therefore, the answer is answer (label)."
)
MATHS_FORMAT = "Please reason step by step, and put your final answer within \\boxed{}."
CODE_REQUEST = (
    "Complete the following Python function. Reply with the whole function in one code block."
)

TOPICS = """
    black holes; sourdough bread; the French Revolution; remote work; photosynthesis;
    chess openings; personal budgets; marathon training; climate change; jazz music;
    the immune system; electric cars; gardening in small spaces; job interviews;
    the Roman Empire; machine learning; coffee brewing; sleep habits; volcanoes; contract law;
    public speaking; learning Spanish; solar panels; dog training; the stock market;
    medieval castles; coral reefs; meditation; SQL databases; city planning; bird watching;
    antibiotics; space travel; renting a flat; poetry; time zones; cheese making; earthquakes;
    social media; bicycle repair; vaccines; customer service; impressionist painting;
    woodworking; the water cycle; small businesses; probability; weather forecasts; board games;
    email etiquette; nutrition; honey bees; cryptography; train travel; first aid; photography;
    supply chains; ancient Egypt; recycling; stress at work; tides; football tactics;
    home insurance; dinosaurs; teaching children to read; programming in Rust; web accessibility;
    hiking in the Alps; tea ceremonies; electric circuits; negotiation; taxes; novels;
    the human heart; fermentation; traffic jams; video games; the Moon; tipping customs;
    online privacy
"""
MATHS_TOPICS = """
    number theory; modular arithmetic; combinatorics; probability; geometry of triangles;
    circles; quadratic equations; polynomials; logarithms; sequences and series; trigonometry;
    complex numbers; vectors; matrices; inequalities; functions; prime factors; counting paths;
    coordinate geometry; systems of linear equations; percentages; rates and speed; fractions;
    absolute values; exponents and radicals; polar coordinates; volumes of solids; divisors;
    base conversion; expected values
"""
TOPICS, MATHS_TOPICS = ([t.strip() for t in listed.split(";")] for listed in (TOPICS, MATHS_TOPICS))

OPEN_REQUESTS = [
    "Explain {t} to a ten-year-old.",
    "Write a short story that has something to do with {t}.",
    "Give me five tips about {t}.",
    "What are the most common misconceptions about {t}?",
    "Write a polite email to a colleague about {t}.",
    "Summarise the history of {t} in one paragraph.",
    "List the pros and cons of {t}.",
    "Write a poem of eight lines about {t}.",
    "I know nothing about {t}. Where should I start?",
    "Write a dialogue between two friends who disagree about {t}.",
    "Give a definition of {t} and an example.",
    "Suggest a title and an outline for an article about {t}.",
    "Write three quiz questions about {t}, with answers.",
    "How has {t} changed in the last fifty years?",
    "Compare {t} with something similar.",
    "Write a product description that mentions {t}.",
    "What would an expert on {t} warn beginners about?",
    "Make a table of important terms about {t} and their meanings.",
    "Write a tweet about {t}.",
    "Give step-by-step instructions for something that belongs to {t}.",
]

# What the large model is asked for: a prompt of each kind.
REQUESTS_FOR_PROMPTS = {
    "open": [
        "Write one request that a user might send to an AI assistant, about {t}. It should be "
        "specific and contain all the text it needs. Reply with the request only.",
        "Invent one task for a writing assistant about {t}: rewriting, summarising, classifying, "
        "extracting or translating a short text that you include. Reply with the task only, "
        "including the text.",
    ],
    "code": [
        "Write one programming exercise that is loosely about {t}. Say which language is to be "
        "used. Reply with the exercise only.",
        "Write the signature and the docstring, with two examples, of one Python function that is "
        "loosely about {t}. Do not implement it. Reply with the code only.",
        "Write one short question about programming that a developer might ask, loosely about "
        "{t}. Reply with the question only.",
    ],
    "maths": [
        "Write one competition mathematics problem about {t} whose answer is a single number or "
        "expression. Reply with the problem only.",
        "Write one multi-step word problem about {t} whose answer is a number. Reply with the "
        "problem only.",
    ],
}
COUNTS = (("open", 1200), ("code", 800), ("maths", 2000))

# Where an answer concludes: behind these words, or before "is the answer".
CUES = re.compile(
    r"(?:\b(?<!best )(?:answer|(?:correct|right) (?:choice|option))(?: (?:choice|option))?"
    r"(?: is\b|\s*[:=])|\\boxed\{)(?=(?P<behind>\s*.{0,200}))"
    r"|(?P<subject>[^\n]*?) is the (?:correct |right |best )?(?:answer|choice|option)\b",
    re.I | re.S,
)
# What may stand between such words and a label.
BEFORE_LABEL = re.compile(
    r"^[\s:\\]*(boxed\{)?[\s:\"'${]*((option|choice|label|letter|answer)\b[\s:]*)*", re.I
)
NUMBER = r"-?\d[\d,]*\.?\d*"
# What may be written in more than one way without being another answer; done in this order.
REWRITES = (
    (",", ""), ("$", ""), ("\\!", ""), ("\\%", ""), ("%", ""), ("\\text{", "{"), (" ", ""),
    ("\\left", ""), ("\\right", ""), ("dfrac", "frac"), ("tfrac", "frac"), ("^\\circ", ""),
    ("\\(", ""), ("\\)", ""),
)


@dataclass
class MathsCheck:
    answer: str
    # Whether the answer is always a number, so that words around it are no part of it.
    numeric: bool

    def right(self, text):
        concluded = self.conclusion(text)
        return concluded is not None and concluded == normal(self.answer)

    def conclusion(self, text):
        """What is in the last box, or else the number behind the last "answer is"."""
        content = boxed(text)
        if content is None:
            found = re.findall(rf"answer is[^\d\-\n]*({NUMBER})", text)
            return normal(found[-1]) if found else None
        if self.numeric and not is_number(normal(content)):
            found = re.findall(NUMBER, content)
            return normal(found[0]) if found else None
        return normal(content)


@dataclass
class ChoiceCheck:
    labels: list
    texts: list
    answer: str

    def right(self, text):
        return self.conclusion(text) == self.answer.upper()

    def conclusion(self, text):
        """The label that the answer concludes with, about as `tandem eval` reads it.

        That of the last "answer is", "correct option:" or "… is the answer"; without any, an answer
        that is a label or a choice and little more.
        """
        text = re.sub(r"[*`]", "", text)
        for cue in reversed(list(CUES.finditer(text))):
            if cue.group("subject"):
                label = self.ending(cue.group("subject"))
            else:
                label = self.named(cue.group("behind").split("\n")[0])
            if label:
                return label
        return self.alone(text)

    def named(self, rest):
        """The label behind such words: first of all, in brackets, or else of the choice's text."""
        rest = BEFORE_LABEL.sub("", rest)
        marked = re.match(r"[(\[]\s*(\w)\s*[)\]]|(\w)(?=[)\].,:;!?}$\\]|$)", rest)
        inside = re.search(r"\((\w)\)", rest)
        marked = marked and self.known(marked.group(1) or marked.group(2))
        return marked or (inside and self.known(inside.group(1))) or self.text(rest)

    def ending(self, said):
        """The choice that a sentence ends with."""
        said = re.split(r"[.!?]\s", said)[-1].strip(" .\"'")
        label = re.search(r"\((\w)\)$", said)
        if label and self.known(label.group(1)):
            return self.known(label.group(1))
        return self.only(lambda choice: said.lower().endswith(choice))

    def only(self, fits):
        """The label of the choice that fits, if it is the only one."""
        choices = zip(self.labels, (text.lower().strip(" .") for text in self.texts))
        found = [label for label, choice in choices if fits(choice)]
        return found[0].upper() if len(found) == 1 else None

    def alone(self, text):
        """The label of an answer that is little more than a label or a choice."""
        lines = [line.strip(" #>-") for line in text.split("\n") if line.strip()]
        for line in lines[:1] + lines[-1:]:
            marked = re.match(r"[(\[](\w)[)\]]|(\w)(?=[).:]|$)", line)
            label = marked and self.known(marked.group(1) or marked.group(2))
            if label:
                rest = line[marked.end() :].strip(" ).:,;-")
                own = self.texts[[l.upper() for l in self.labels].index(label)].lower().strip(" .")
                rest = rest[len(own) :] if rest.lower().startswith(own) else rest
                reason = re.match(r"[\s,]*(because|since|as|for|which)\b", rest)
                if reason or not re.search(r"\w", rest):
                    return label
        whole = text.strip(" .\"'\n").lower()
        label = self.only(lambda choice: choice == whole)
        if label:
            return label
        # The last sentence of worked answers: "mountain (b)", with its own label.
        last = re.search(r"([^\n.]*)\((\w)\)[.\s]*$", text)
        label = last and self.known(last.group(2))
        return label if label and self.ending(last.group(1)) == label else None

    def known(self, label):
        known = label and label.upper() in [own.upper() for own in self.labels]
        return label.upper() if known else None

    def text(self, rest):
        """The choice whose text stands first; of two that begin there, the longer."""
        rest, choices = rest.lower(), zip(self.labels, self.texts)
        found = [(rest.find(t.lower()), -len(t), l) for l, t in choices if t.lower() in rest]
        return min(found)[2].upper() if found else None


def normal(answer):
    for written, meant in REWRITES:
        answer = answer.replace(written, meant)
    answer = answer.strip("{}.= ")
    return repr(float(answer)) if is_number(answer) else answer


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def boxed(text):
    """What the last \\boxed{} holds, if it is closed."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for end in range(start, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[start:end]
    return None


@dataclass
class Prompt:
    kind: str
    text: str
    # How to tell a right answer; prompts without one are judged by likelihood.
    check: MathsCheck | ChoiceCheck | None = None
    # Its tokens, chat format included, once there is a tokenizer.
    ids: list | None = None


def choice(row, kind):
    labels, texts = row["choices"]["label"], row["choices"]["text"]
    listed = "\n".join(f"({label.lower()}) {text}" for label, text in zip(labels, texts))
    text = f"Question: {row['question'].strip()}\nChoices:\n{listed}\n{CHOICE_FORMAT}"
    return Prompt(kind, text, ChoiceCheck(labels, texts, row["answerKey"]))


def maths(row, kind):
    check = MathsCheck(str(row["answer"]), numeric=kind == "gsm8k")
    return Prompt(kind, f"{row['problem'].strip()}\n{MATHS_FORMAT}", check)


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def training(folder):
    """Prompts to fit on, and requests for more of them."""
    # Every draw is from this one, in this order: another order gives another router.
    rng = random.Random(7)
    rows = read(folder / "gsm8k/train_router.jsonl")
    rows += read(folder / "gsm8k/train_slm.jsonl")
    prompts = [maths(row, "gsm8k") for row in rows]
    rows = read(folder / "commonsenseqa/train_router.jsonl")
    prompts += [choice(row, "commonsenseqa") for row in rows]
    prompts += [choice(row, "arc") for row in read(folder / "arc_challenge/train.jsonl")]
    requests = [request.format(t=topic) for topic in TOPICS for request in OPEN_REQUESTS]
    prompts += [Prompt("open", text) for text in rng.sample(requests, 800)]
    return prompts, list(requests_for_prompts(rng))


def requests_for_prompts(rng):
    for kind, count in COUNTS:
        for i in range(count):
            # Two in three of the maths problems are those of competitions.
            competition = kind == "maths" and i % 3 > 0
            wordings = REQUESTS_FOR_PROMPTS[kind]
            topic = rng.choice(MATHS_TOPICS if competition else TOPICS)
            wording = rng.choice(wordings[:1] if competition else wordings)
            yield Prompt(kind, wording.format(t=topic))


def invented(requests, texts):
    """Prompts from what the large model wrote on request; `None` where it did not come to an end."""
    prompts, begun = [], set()
    for request, text in zip(requests, texts):
        # Many a request is answered alike; one prompt of these is enough.
        if text is None or not 20 <= len(text) <= 1200 or text[:60] in begun:
            continue
        begun.add(text[:60])
        suffix = "\n" + MATHS_FORMAT if request.kind == "maths" else ""
        prompts.append(Prompt(request.kind, text + suffix))
    return prompts


def judged(folder):
    """Prompts that nothing is fitted on."""
    prompts = [maths(row, "gsm8k") for row in read(folder / "gsm8k/dev.jsonl")[:600]]
    prompts += [maths(row, "maths") for row in read(folder / "math500/dev.jsonl")]
    rows = read(folder / "commonsenseqa/dev.jsonl")[:500]
    prompts += [choice(row, "commonsenseqa") for row in rows]
    prompts += [choice(row, "arc") for row in read(folder / "arc_challenge/dev.jsonl")[:500]]
    prompts += [Prompt("open", row["prompt"]) for row in read(folder / "prompts/dev.jsonl")[:200]]
    rows = read(folder / "humaneval/dev.jsonl")
    prompts += [Prompt("code", f"{CODE_REQUEST}\n\n{row['prompt']}") for row in rows]
    return prompts


def encoded(chat, some, longest):
    """Those prompts that are shorter than that many tokens."""
    for prompt in some:
        prompt.ids = chat.ids(prompt.text)
    return [prompt for prompt in some if len(prompt.ids) < longest]


def few(prompts, count):
    """The first prompts of every kind."""
    return [p for kind in KINDS for p in [p for p in prompts if p.kind == kind][:count]]
