"""Makes a preset for one kind of question: adapters for both Qwen2 models, and a router for them.

    preset.py commonsenseqa EDGE.gguf LARGE.gguf --data FOLDER --out FOLDER
    preset.py maths EDGE.gguf LARGE.gguf --data FOLDER --out FOLDER

The answers that adapters are fitted to are worked ones for common sense, which name the choice before
the reasons, and for maths those of the large model itself that come out right. The router is fitted as
the general one is (train.py), on answers of both models with their adapters. What it comes to is
printed; `tandem router calibrate` and a manifest make a preset of the files (docs/presets.md).
"""

import argparse
import hashlib
import pathlib
import random
import time

import torch

import network
import prompts
from adapters import EVERY, deltas_of, fit_adapter
from lockstep import SIZES, Lockstep
from network import Fitting, Inputs, Vocabulary
from positions import (
    COMMON, Judge, Severity, fit_router, quantiles, record, report, roll_out, unlikeliness,
)
from qwen2 import Chat, Model

# Of the large model without the last, which would be a quarter of the file.
LARGE = EVERY[:-1]
RANK = 4
RATIOS = (0.0, 0.05, 0.15, 0.3, 0.6, 1.5)
RATIO_WEIGHTS = (0.15, 0.15, 0.2, 0.2, 0.15, 0.15)
# Of positions of the first and of the second round.
ROUND_WEIGHTS = (0.7, 1.3)
# Positions that are rolled out before this place in an answer, and from there on.
EARLY, ROLLOUTS = 16, (5000, 3000)
# A token behind which so many answers fewer come out right does all the harm there is.
WORST = 0.4
CONCLUSION = "Therefore, the answer is"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("task", choices=("commonsenseqa", "maths"))
    parser.add_argument("edge", type=pathlib.Path)
    parser.add_argument("large", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=SIZES[-2], choices=SIZES)
    parser.add_argument("--adapters", type=pathlib.Path, help="a folder with those to keep")
    parser.add_argument("--limit", type=int, help="of questions of each file: does all of it run?")
    return parser.parse_args()


class CommonSense:
    kind, share, answer, rollout, judged = "commonsenseqa", 0.045, 160, 160, 200
    shares = (0.02, 0.045, 0.07)
    # How much of a label is from roll-outs; the rest is how unlikely the large model finds the token.
    rolled_out = 0.9
    epochs, rate = (3, 2), (1e-3, 2e-4)

    def __init__(self, data, limit):
        def questions(name):
            return prompts.read(data / f"commonsenseqa/{name}.jsonl")[:limit]

        self.worked = [row for row in questions("train_slm") if self.whole(row)]
        self.fitted = [prompts.choice(row, self.kind) for row in questions("train_router")]
        self.dev = [prompts.choice(row, self.kind) for row in questions("dev")]

    def whole(self, row):
        check = prompts.choice(row, self.kind).check
        return row["cot"].count(CONCLUSION) == 1 and check.right(row["cot"])

    def examples(self, lockstep, chat):
        result = []
        for row in self.worked:
            prompt = prompts.choice(row, self.kind)
            label = row["answerKey"]
            text = row["choices"]["text"][row["choices"]["label"].index(label)]
            reasons = row["cot"].rpartition(CONCLUSION)[0].strip()
            answer = f"The best choice is {text}. {reasons} {CONCLUSION} {text} ({label.lower()})."
            result.append((chat.ids(prompt.text), chat.encode(answer) + [chat.ends[0]]))
        return result, result


class Maths:
    kind, share, answer, rollout, judged = "gsm8k", 0.07, 400, 320, 600
    shares = (0.04, 0.07, 0.1)
    rolled_out = 0.3
    epochs, rate = (2, 1), (1e-3, 2e-4)

    def __init__(self, data, limit):
        def questions(name):
            return prompts.read(data / f"gsm8k/{name}.jsonl")[:limit]

        self.worked = [prompts.maths(row, self.kind) for row in questions("train_slm")]
        self.fitted = [prompts.maths(row, self.kind) for row in questions("train_router")]
        # Half of the worked ones a second time: the router needs more than the other file has.
        self.fitted += self.worked[: len(self.worked) // 2]
        self.dev = [prompts.maths(row, self.kind) for row in questions("dev")]

    def examples(self, lockstep, chat):
        """Right answers of the large model, for both: the small one learns to write like it."""
        asked = prompts.encoded(chat, self.worked, 400)
        result = []
        torch.manual_seed(3)
        for temperature in (0.0, 0.7):
            decoded = lockstep.large_alone([p.ids for p in asked], self.answer, temperature)
            for prompt, row in zip(asked, decoded.tokens.tolist()):
                answer = [token for token in row if token >= 0]
                if answer and answer[-1] in chat.ends and prompt.check.right(chat.text(answer)):
                    result.append((prompt.ids, answer[:-1] + [chat.ends[0]]))
        random.Random(4).shuffle(result)
        print(f"  {len(result)} right answers of the large model", flush=True)
        return result, result


def roll_outs(lockstep, chat, recorded, task):
    """Many of them near the beginning, where answers that name the choice first are decided."""
    positions = recorded.positions
    early = positions.place < EARLY
    found = [
        roll_out(lockstep, chat, recorded, positions.differs & part, count, task.rollout, 560)
        for part, count in zip((early, ~early), ROLLOUTS)
    ]
    (first, first_harm), (later, later_harm) = found
    return first + later, torch.cat([first_harm, later_harm])


def fit_adapters(task, lockstep, chat, out):
    examples = task.examples(lockstep, chat)
    models = lockstep.edge, lockstep.large
    for name, model, some, names, epochs, rate in zip(
        ("edge", "cloud"), models, examples, (EVERY, LARGE), task.epochs, task.rate
    ):
        fit_adapter(model, some, RANK, names, epochs, rate).write(out / f"{name}.gguf")


def main():
    options, started = arguments(), time.time()
    options.out.mkdir(parents=True, exist_ok=True)

    def stage(name):
        print(f"{time.time() - started:4.0f} s: {name}", flush=True)

    torch.backends.cuda.matmul.allow_tf32 = True
    task = {"commonsenseqa": CommonSense, "maths": Maths}[options.task](options.data, options.limit)
    chat = Chat(options.edge, prompts.SYSTEM)
    edge, large = Model(options.edge), Model(options.large)
    lockstep = Lockstep(edge, large, chat, options.batch)

    stage("adapters")
    adapters = options.adapters or options.out
    if not options.adapters:
        fit_adapters(task, lockstep, chat, options.out)
    for name, model in (("edge", edge), ("cloud", large)):
        model.merge(deltas_of(adapters / f"{name}.gguf"))

    stage("a round in which the large model objects")
    every = prompts.encoded(chat, task.fitted, 400)
    drawn = torch.multinomial(
        torch.tensor(RATIO_WEIGHTS), len(every), True, generator=torch.Generator().manual_seed(5)
    )
    ratio = torch.tensor(RATIOS)[drawn]
    recorded = record(lockstep, every, list(range(len(every))), task.answer, ratio=ratio)
    first = recorded.positions
    vocabulary = Vocabulary.of(edge.embedding, first.sample.tokens, 1 if options.limit else COMMON)
    stage("roll-outs")
    torch.manual_seed(2)
    severity = Severity(*roll_outs(lockstep, chat, recorded, task), vocabulary)

    def target(positions):
        harm, rolled_out = unlikeliness(positions), (severity.harm(positions) / WORST).clamp(max=1)
        harm += task.rolled_out * (rolled_out - harm)
        return 1 - torch.where(positions.differs, harm, 0)

    stage("the first network")
    fitting, inputs = Fitting(epochs=5, width=edge.width, dropout=0.3), Inputs(tokens=True)
    model = "+".join(network.fingerprint(path) for path in (options.edge, adapters / "edge.gguf"))
    model += "*1"
    data = hashlib.sha256("\0".join(p.text for p in every).encode()).hexdigest()[:16]
    about = network.describe(inputs, edge.width, model, f"{options.edge.stem}+edge", data)

    def fitted(positions, weight):
        return fit_router(positions, inputs, vocabulary, target(positions), weight, fitting)

    def write(router, positions, recent):
        """The file, with thresholds for the shares of the last round."""
        score, figures = router.score(recent.sample), report(router, positions)
        print(f"  held out: {figures}", flush=True)
        points = network.thresholds(score, torch.ones_like(score))
        path = options.out / "router.safetensors"
        network.write(path, router, vocabulary, about, points, figures)
        return score

    router = fitted(first, torch.ones_like(first.ratio))
    # To be replaced: what comes next takes minutes.
    score = write(router, first, first)
    stage("a round in which that network decides")
    limits = torch.tensor(
        [quantiles(score, first.kind, {task.kind: share})[task.kind] for share in task.shares]
    )
    drawn = torch.randint(3, (len(every),), generator=torch.Generator().manual_seed(11))
    lockstep.set_router(router)
    second = record(
        lockstep, every, list(range(len(every))), task.answer, threshold=limits[drawn]
    ).positions
    stage("the network of both rounds")
    both = first + second
    weight = torch.ones_like(both.ratio)
    weight[: len(first.row)] *= ROUND_WEIGHTS[0]
    weight[len(first.row) :] *= ROUND_WEIGHTS[1]
    router = fitted(both, weight)
    score = write(router, both, second)
    stage("judging")
    dev = prompts.encoded(chat, task.dev, 290)
    judge = Judge(lockstep, chat, dev, task.judged)
    for share in task.shares:
        judge.way(router, score, second.kind, {task.kind: share}, tries=2 if share == task.share else 1)
    stage("done")


if __name__ == "__main__":
    main()
