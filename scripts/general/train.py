"""Makes the small model's adapter and the router of a pair of Qwen2 models: for any question, not for one task.

    train.py EDGE.gguf LARGE.gguf --data FOLDER --out FOLDER

Both models answer many prompts in lock step, so that every position shows what either would have said
there. First the small model learns the large one's opinion, so that the two part less often; then the router
learns from positions where they still do how much that matters:

1. Prompts: questions of tasks, and requests of all kinds that are made up.
2. Answers on which the large model is asked wherever it objects, more or less strictly; an adapter, fitted
   to what the large model makes of every position of them. Such answers again, with the adapter.
3. Where answers can be checked, roll-outs behind either model's token: which of them come out right?
4. A first network, and answers on which that network decides who is asked.
5. The network that is kept, from the positions of both rounds.
6. Both models alone and together, judged on prompts that nothing was fitted on.

With --compare, networks with each kind of inputs and of labels are judged first, and the simplest one that
is about as good as the best is made; without, it is what that gave for the pair qwen.

FOLDER has gsm8k, commonsenseqa and arc_challenge with files to fit on, and these, math500, prompts and
humaneval with a dev.jsonl to judge on; prompts.py says which. Needs torch, gguf, tokenizers and
safetensors; a GPU makes it minutes.
"""

import argparse
import hashlib
import math
import pathlib
import random
import time

import torch

import network
import prompts
from adapters import EVERY, deltas_of, fit_adapter
from lockstep import COLUMNS, SIZES, Lockstep
from network import Fitting, Inputs, Vocabulary
from positions import (
    COMMON, Judge, Severity, caught, fit_router, quantiles, record, report, roll_out, unlikeliness,
)
from prompts import CHOICES
from qwen2 import DEVICE, Chat, Model

# The most tokens of invented prompts, of answers to learn from, behind a token, and of judged answers.
INVENTED, ANSWER, ROLLOUT, JUDGED = 256, 400, 320, 600
# The longest prompts to fit on and to judge on, and the longest beginnings of answers to go on behind.
LONGEST_FITTED, LONGEST_JUDGED, LONGEST_BEGUN = 400, 290, 560
# Of the small model's adapter: its rank, how often each text is read, and how fast it learns.
RANK, EPOCHS, RATE = 8, 2, 1e-3
# So many of so many prompts are enough for it.
ADAPTED = 2, 3
# How many positions are rolled out.
ROLLOUTS = {"choices": 6000, "sums": 4000}

# How strict the first round is, and how often: asked is where the large model finds the small one's
# token less likely than this many times its own. The last asks everywhere.
RATIOS = (0.0, 0.05, 0.15, 0.3, 0.6, 1.5)
RATIO_WEIGHTS = (0.10, 0.12, 0.24, 0.24, 0.18, 0.12)
# At which share of positions the second round asks, and how many times that.
SHARES = {"gsm8k": 0.09, "maths": 0.10, "commonsenseqa": 0.14, "arc": 0.14, "open": 0.09, "code": 0.09}
MULTIPLES = (0.6, 1.0, 1.5)
# At which share it is judged.
JUDGED_SHARES = {
    "gsm8k": 0.095, "maths": 0.11, "commonsenseqa": 0.14, "arc": 0.14, "open": 0.095, "code": 0.095
}
# Of positions of the first and of the second round: the second's are those that the router will meet.
ROUND_WEIGHTS = (0.7, 1.3)
# What a router may read, and for which kinds its labels may follow roll-outs: the simplest first.
INPUTS = {"states": Inputs(), "states and tokens": Inputs(tokens=True)}
LABELS = {"likelihood": (), "choices": CHOICES, "choices and sums": (*CHOICES, "gsm8k")}
# What is compared on these kinds, and what a simpler one may be behind: a part of the way.
COMPARED, NEARLY = ("gsm8k", "commonsenseqa", "arc"), 0.02
# A token behind which so many answers fewer come out right does all the harm there is.
WORST = 0.4
# How much of the label is from roll-outs, where they count.
ROLLED_OUT = {"choices": 0.75, "sums": 0.5}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("edge", type=pathlib.Path)
    parser.add_argument("large", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument(
        "--batch", type=int, default=SIZES[-2], choices=SIZES,
        help="texts side by side; the caches of 1024 take 38 GB",
    )
    parser.add_argument("--plain", action="store_true", help="the small model without an adapter")
    parser.add_argument("--compare", action="store_true", help="other inputs and labels too")
    parser.add_argument(
        "--dry", action="store_true", help="few prompts and short texts: does all of it run?"
    )
    return parser.parse_args()


def collect_prompts(lockstep, chat, tasks, requests):
    """Prompts to fit on: those of tasks, and those that the large model invents."""
    torch.manual_seed(1)
    ids = [chat.ids(request.text) for request in requests]
    texts = []
    for row in lockstep.large_alone(ids, INVENTED, temperature=0.9).tokens.tolist():
        cut_off = sum(token >= 0 for token in row) >= INVENTED
        texts.append(None if cut_off else chat.text(row).strip())
    every = [p for p in tasks + prompts.invented(requests, texts) if len(p.text) < 1600]
    random.Random(3).shuffle(every)
    return prompts.encoded(chat, every, LONGEST_FITTED)


def digest(some):
    hashed = hashlib.sha256()
    for prompt in some:
        hashed.update(f"{prompt.kind}\0{prompt.text}\0".encode())
    return hashed.hexdigest()[:16]


def ratios(count, seed):
    """How strict the large model is about each of so many answers."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(torch.tensor(RATIO_WEIGHTS), count, True, generator=generator)
    return torch.tensor(RATIOS)[drawn]


def adapted(lockstep, every, path):
    """Lets the small model learn what the large one makes of answers of every quality."""
    ids = [p.ids for i, p in enumerate(every) if i % ADAPTED[1] < ADAPTED[0]]
    decoded = lockstep.joint(ids, ANSWER, ratio=ratios(len(ids), 4))
    written = decoded.tokens >= 0
    differ = (decoded.edge != decoded.large)[written].float().mean().item()
    print(f"  without an adapter the models differ at {differ:.1%}", flush=True)
    answers = [[t for t in row if t >= 0] for row in decoded.tokens.tolist()]
    examples = [(prompt, answer) for prompt, answer in zip(ids, answers) if answer]
    large = lockstep.large
    fit_adapter(lockstep.edge, examples, RANK, EVERY, EPOCHS, RATE, teacher=large).write(path)
    lockstep.edge.merge(deltas_of(path))


def first_round(lockstep, every):
    """Answers of every quality, from the small model's alone to the large one's."""
    # The other half of GSM8K, which has the most prompts, is for the second round.
    numbers = [i for i, p in enumerate(every) if p.kind != "gsm8k" or i % 2 == 0]
    ratio = ratios(len(numbers), 5)
    return record(lockstep, every, numbers, ANSWER, ratio=ratio), ratio


def roll_outs(lockstep, chat, first, ratio):
    torch.manual_seed(2)
    # Where the large model was never asked, the answer before the position is the small one's alone.
    usable = (ratio > 0.01).to(DEVICE)[first.positions.row] & first.positions.differs
    found = []
    for name, kinds in (("choices", CHOICES), ("sums", ("gsm8k",))):
        candidate = usable & first.positions.of_kind(kinds)
        found.append(
            roll_out(lockstep, chat, first, candidate, ROLLOUTS[name], ROLLOUT, LONGEST_BEGUN)
        )
    (choices, choices_harm), (sums, sums_harm) = found
    return choices + sums, torch.cat([choices_harm, sums_harm])


def target(positions, severity, kinds):
    """How right it is to keep the small model's token; roll-outs count for these kinds."""
    harm = unlikeliness(positions)
    some = torch.nonzero(positions.differs & positions.of_kind(kinds))[:, 0]
    rolled_out = (severity.harm(positions.at(some)) / WORST).clamp(max=1)
    sums = positions.of_kind(("gsm8k",))[some]
    part = torch.where(sums, ROLLED_OUT["sums"], ROLLED_OUT["choices"])
    harm[some] += part * (rolled_out - harm[some])
    return 1 - torch.where(positions.differs, harm, 0)


def second_round(lockstep, every, first, router):
    """Answers on which a router decides: only these have the positions that it brings about."""
    numbers = [
        i for i, p in enumerate(every)
        if (p.kind == "gsm8k" and i % 2) or p.kind in CHOICES or i % 3 == 0
    ]
    score = router.score(first.sample)
    lockstep.set_router(router)
    found = [
        quantiles(score, first.kind, {kind: share * multiple for kind, share in SHARES.items()})
        for multiple in MULTIPLES
    ]
    generator = torch.Generator().manual_seed(11)
    drawn = torch.randint(len(MULTIPLES), (len(numbers),), generator=generator).tolist()
    threshold = [found[which][every[i].kind] for which, i in zip(drawn, numbers)]
    return record(lockstep, every, numbers, ANSWER, threshold=torch.tensor(threshold)).positions


class Comparison:
    """Tells which inputs and which labels are worth it."""

    def __init__(self, lockstep, chat, judged, first, severity, fitted):
        few = [p for p in judged if p.kind in COMPARED]
        self.judge = Judge(lockstep, chat, few, JUDGED)
        self.first, self.severity, self.fitted = first, severity, fitted
        self.ways = {}

    def way(self, inputs, label):
        """The mean part of the way with these inputs and these labels."""
        if (inputs, label) not in self.ways:
            wanted = target(self.first, self.severity, LABELS[label])
            router = self.fitted(self.first, INPUTS[inputs], wanted, self.first.balance)
            shares = caught(router, self.first, wanted, JUDGED_SHARES)
            listed = ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items())
            print(f"  {inputs}, {label}: harm caught of {listed}", flush=True)
            held = self.first.at(torch.nonzero(self.first.held_out)[:, 0])
            asked = {kind: JUDGED_SHARES[kind] for kind in COMPARED}
            ways = self.judge.way(router, router.score(held.sample), held.kind, asked)
            # Where both models are as good alone, there is no way.
            ways = [0.0 if math.isnan(way) else way for way in ways.values()]
            self.ways[inputs, label] = sum(ways) / len(ways)
        return self.ways[inputs, label]

    def simplest(self, name, ways):
        """The first of those that are about as good as the best."""
        chosen = next(option for option, way in ways.items() if way >= max(ways.values()) - NEARLY)
        listed = ", ".join(f"{option} {way:.1%}" for option, way in ways.items())
        print(f"  decided: {name} {chosen!r}; of the way: {listed}", flush=True)
        return chosen

    def decided(self, label):
        inputs = self.simplest("inputs", {name: self.way(name, label) for name in INPUTS})
        return inputs, self.simplest("labels", {name: self.way(inputs, name) for name in LABELS})


def main():
    options, started = arguments(), time.time()
    options.out.mkdir(parents=True, exist_ok=True)

    def stage(name):
        print(f"{time.time() - started:4.0f} s: {name}", flush=True)

    torch.backends.cuda.matmul.allow_tf32 = True
    chat = Chat(options.edge, prompts.SYSTEM)
    tasks, requests = prompts.training(options.data)
    judged = prompts.encoded(chat, prompts.judged(options.data), LONGEST_JUDGED)
    if options.dry:
        tasks, requests, judged = (prompts.few(some, 12) for some in (tasks, requests, judged))
    edge, large = Model(options.edge), Model(options.large)
    lockstep = Lockstep(edge, large, chat, options.batch, 40 if options.dry else COLUMNS)

    stage("prompts")
    every = collect_prompts(lockstep, chat, tasks, requests)
    if not options.plain:
        stage("the adapter")
        adapted(lockstep, every, options.out / "edge.gguf")
    stage(f"the first round, with {len(every)} prompts")
    first, ratio = first_round(lockstep, every)
    least = 1 if options.dry else COMMON
    vocabulary = Vocabulary.of(edge.embedding, first.positions.sample.tokens, least)
    print(f"  {len(vocabulary.common)} common tokens", flush=True)
    stage("roll-outs")
    severity = Severity(*roll_outs(lockstep, chat, first, ratio), vocabulary)
    first = first.positions
    fitting = Fitting(epochs=5, width=edge.width, dropout=0.3)

    def fitted(positions, inputs, wanted, weight):
        return fit_router(positions, inputs, vocabulary, wanted, weight, fitting)

    inputs, label = "states", "choices"
    if options.compare:
        stage("which inputs and labels")
        comparison = Comparison(lockstep, chat, judged, first, severity, fitted)
        inputs, label = comparison.decided(label)
        del comparison
    inputs, kinds = INPUTS[inputs], LABELS[label]
    model, name = network.fingerprint(options.edge), options.edge.stem
    if not options.plain:
        model = f"{model}+{network.fingerprint(options.out / 'edge.gguf')}*1"
        name += "+edge"
    about = network.describe(inputs, edge.width, model, name, digest(every))

    def write(router, positions, recent):
        """The file, with thresholds for the shares of the last round."""
        score, figures = router.score(recent.sample), report(router, positions)
        print(f"  held out: {figures}", flush=True)
        points = network.thresholds(score, recent.balance)
        path = options.out / "router.safetensors"
        network.write(path, router, vocabulary, about, points, figures)
        return score

    stage("the first network")
    router = fitted(first, inputs, target(first, severity, kinds), first.balance)
    # To be replaced: what comes next takes minutes.
    write(router, first, first)
    stage("the second round")
    second = second_round(lockstep, every, first, router)
    stage("the network of both rounds")
    both = first + second
    weight = both.balance
    weight[: len(first.row)] *= ROUND_WEIGHTS[0]
    weight[len(first.row) :] *= ROUND_WEIGHTS[1]
    router = fitted(both, inputs, target(both, severity, kinds), weight)
    score = write(router, both, second)
    stage("judging")
    judge = Judge(lockstep, chat, judged, JUDGED)
    judge.way(router, score, second.kind, JUDGED_SHARES)
    stage("less often")
    for part in (0.5, 0.75):
        fewer = {kind: share * part for kind, share in JUDGED_SHARES.items()}
        judge.way(router, score, second.kind, fewer, tries=1)
    stage("what a router could reach: asked where the large model objects")
    for ratio in (0.15, 0.4, 1.5):
        judge.objections(ratio)
    stage("done")


if __name__ == "__main__":
    main()
