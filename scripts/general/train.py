"""Makes the general router of a pair of Qwen2 models: for any question, not for one task.

    train.py EDGE.gguf LARGE.gguf --data FOLDER --out router.safetensors

Both models answer many prompts in lock step, so that every position shows what either would have said
there. The router learns from positions where they differ how much that matters:

1. Prompts: questions of tasks, and requests of all kinds that are made up.
2. Answers on which the large model is asked wherever it objects, more or less strictly.
3. For multiple choice, answers that go on behind either model's token: which of them come out right?
4. A first network, and answers on which that network decides who is asked.
5. The network that is kept, from the positions of both rounds.
6. Both models alone and together, judged on prompts that nothing was fitted on.

FOLDER has gsm8k, commonsenseqa and arc_challenge with files to fit on, and these, math500, prompts and
humaneval with a dev.jsonl to judge on; prompts.py says which. Needs torch, gguf, tokenizers and
safetensors; a GPU makes it minutes.
"""

import argparse
import hashlib
import pathlib
import random
import time
from dataclasses import dataclass

import torch

import network
import prompts
from lockstep import COLUMNS, SIZES, Lockstep
from network import Fitting, chunked, fit
from prompts import CHOICES, KINDS
from qwen2 import DEVICE, Chat, Model

# The most tokens of invented prompts, of answers to learn from, behind a token, and of judged answers.
INVENTED, ANSWER, ROLLOUT, JUDGED = 256, 400, 200, 600
# The longest prompts to fit on and to judge on, and the longest beginnings of answers to go on behind.
LONGEST_FITTED, LONGEST_JUDGED, LONGEST_BEGUN = 400, 290, 600
ROLLOUTS = 9000
# One text in so many is held out.
HELD_OUT = 12

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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("edge", type=pathlib.Path)
    parser.add_argument("large", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument(
        "--batch", type=int, default=SIZES[-1], choices=SIZES,
        help="texts side by side; the caches of 2048 take 75 GB",
    )
    parser.add_argument(
        "--dry", action="store_true", help="few prompts and short texts: does all of it run?"
    )
    return parser.parse_args()


@dataclass
class Positions:
    """Positions of recorded texts, one row each."""

    hidden: torch.Tensor
    features: torch.Tensor
    edge: torch.Tensor
    large: torch.Tensor
    edge_logp: torch.Tensor
    large_logp: torch.Tensor
    kind: torch.Tensor
    # Its text's place in its round, its prompt's among all, and its own in the text.
    row: torch.Tensor
    prompt: torch.Tensor
    place: torch.Tensor

    def at(self, index):
        return Positions(**{name: values[index] for name, values in vars(self).items()})

    def __add__(self, other):
        both = {name: torch.cat([v, vars(other)[name]]) for name, v in vars(self).items()}
        return Positions(**both)

    @property
    def inputs(self):
        return self.hidden, self.features

    @property
    def differs(self):
        return self.edge != self.large

    @property
    def ratio(self):
        """How likely the large model finds the small one's token, as a share of its own."""
        return (self.edge_logp - self.large_logp).exp()

    @property
    def balance(self):
        """Weights with which every kind counts alike."""
        count = torch.bincount(self.kind, minlength=len(KINDS)).float()
        return (len(self.kind) / len(KINDS) / count)[self.kind]


@dataclass
class Round:
    prompts: list
    tokens: torch.Tensor
    positions: Positions


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
    return encoded(chat, every, LONGEST_FITTED)


def encoded(chat, some, longest):
    """Those prompts that are shorter than that many tokens."""
    for prompt in some:
        prompt.ids = chat.ids(prompt.text)
    return [prompt for prompt in some if len(prompt.ids) < longest]


def digest(some):
    hashed = hashlib.sha256()
    for prompt in some:
        hashed.update(f"{prompt.kind}\0{prompt.text}\0".encode())
    return hashed.hexdigest()[:16]


def record(lockstep, every, numbers, **rule):
    """Joint answers to the prompts with these numbers, and their positions."""
    chosen = [every[i] for i in numbers]
    decoded = lockstep.joint([p.ids for p in chosen], ANSWER, states=True, **rule)
    row, place = torch.nonzero(decoded.tokens >= 0, as_tuple=True)
    kinds = torch.tensor([KINDS.index(p.kind) for p in chosen], device=DEVICE)
    positions = Positions(
        hidden=decoded.hidden[row, place],
        features=decoded.features[row, place],
        edge=decoded.edge[row, place],
        large=decoded.large[row, place],
        edge_logp=decoded.edge_logp[row, place],
        large_logp=decoded.large_logp[row, place],
        kind=kinds[row],
        row=row,
        prompt=torch.tensor(numbers, device=DEVICE)[row],
        place=place,
    )
    differ = positions.differs.float().mean().item()
    print(f"  {len(row)} positions, the models differ at {differ:.1%}", flush=True)
    return Round(chosen, decoded.tokens.cpu(), positions)


def first_round(lockstep, every):
    """Answers of every quality, from the small model's alone to the large one's."""
    # The other half of GSM8K, which has the most prompts, is for the second round.
    numbers = [i for i, p in enumerate(every) if p.kind != "gsm8k" or i % 2 == 0]
    drawn = torch.multinomial(
        torch.tensor(RATIO_WEIGHTS), len(numbers), True, generator=torch.Generator().manual_seed(5)
    )
    ratio = torch.tensor(RATIOS)[drawn]
    return record(lockstep, every, numbers, ratio=ratio), ratio


def roll_out(lockstep, chat, first, ratio):
    """Goes on with the large model behind either token, where they differ in answers to choices.

    Returns the positions and what keeping the small model's token did there: 1 where that alone made
    the answer wrong, -1 where it alone made it right, 0 where both came out alike.
    """
    torch.manual_seed(2)
    # Where the large model was never asked, the answer before the position is the small one's alone.
    usable = torch.tensor([p.kind in CHOICES for p in first.prompts]) & (ratio > 0.01)
    candidate = first.positions.differs & usable.to(DEVICE)[first.positions.row]
    candidates = torch.nonzero(candidate)[:, 0]
    drawn = candidates[torch.randperm(len(candidates), device=DEVICE)][:ROLLOUTS]
    positions = first.positions.at(drawn)
    kept, begun = [], []
    columns = positions.row, positions.place, positions.edge, positions.large
    for i, (row, place, edge, large) in enumerate(zip(*(c.tolist() for c in columns))):
        prompt, written = first.prompts[row], first.tokens[row, :place].tolist()
        ends = edge in chat.ends or large in chat.ends
        if not ends and len(prompt.ids) + len(written) <= LONGEST_BEGUN:
            kept.append(i)
            begun += [(prompt, written + [edge]), (prompt, written + [large])]
    rest = lockstep.large_alone([prompt.ids + written for prompt, written in begun], ROLLOUT)
    right = [
        prompt.check.right(chat.text(written + behind))
        for (prompt, written), behind in zip(begun, rest.tokens.tolist())
    ]
    kept_edge, kept_large = torch.tensor(right, device=DEVICE).float().view(-1, 2).unbind(1)
    print(f"  right behind the small model's token {kept_edge.mean():.3f}, "
          f"behind the large one's {kept_large.mean():.3f}", flush=True)
    return positions.at(torch.tensor(kept, device=DEVICE)), kept_large - kept_edge


def severity_inputs(positions):
    """What a router sees, and what only the large model knows: this network is for fitting alone."""
    known = [
        positions.edge_logp.clamp(min=-15),
        positions.large_logp,
        positions.ratio,
        torch.log1p(positions.place.float()),
    ]
    known += [(positions.kind == kind).float() for kind in range(len(KINDS))]
    return *positions.inputs, torch.stack(known, -1)


def fit_severity(positions, harm):
    """Roll-outs are few and each is a matter of luck: a small network sees what they have in common."""
    fitting = Fitting(
        epochs=10, width=128, dropout=0.5, learning_rate=3e-4, weight_decay=0.1, batch=512
    )
    held_out = positions.row % HELD_OUT == 0
    inputs, weight = severity_inputs(positions), torch.ones_like(harm)
    return fit(inputs, 0.5 + 0.5 * harm, weight, held_out, fitting)


def target(positions, severity):
    """How right it is to keep the small model's token: 1 where the models agree."""
    # A token that the large model finds nearly as likely as its own does no harm.
    harm = ((0.3 - positions.ratio) / 0.3).clamp(min=0) ** 0.5
    kinds = torch.tensor([KINDS.index(kind) for kind in CHOICES], device=DEVICE)
    choices = torch.nonzero(positions.differs & torch.isin(positions.kind, kinds))[:, 0]
    output = chunked(severity_inputs(positions.at(choices)), severity)
    # At 0.5 either token is as good; the factor makes the estimate more decided.
    harm[choices] = torch.sigmoid(2.5 * output)
    return 1 - torch.where(positions.differs, harm, 0)


def quantiles(score, kinds, shares):
    """For each kind, the threshold below which this share of its scores is."""
    return {
        kind: torch.quantile(score[kinds == KINDS.index(kind)].double(), share).item()
        for kind, share in shares.items()
    }


def second_round(lockstep, every, first, router):
    """Answers on which a router decides: only these have the positions that it brings about."""
    numbers = [
        i for i, p in enumerate(every)
        if (p.kind == "gsm8k" and i % 2) or p.kind in CHOICES or i % 3 == 0
    ]
    score = torch.sigmoid(chunked(first.inputs, router))
    lockstep.set_router(router.folded())
    found = [
        quantiles(score, first.kind, {kind: share * multiple for kind, share in SHARES.items()})
        for multiple in MULTIPLES
    ]
    generator = torch.Generator().manual_seed(11)
    drawn = torch.randint(len(MULTIPLES), (len(numbers),), generator=generator).tolist()
    threshold = [found[which][every[i].kind] for which, i in zip(drawn, numbers)]
    return record(lockstep, every, numbers, threshold=torch.tensor(threshold))


def fit_both(first, second, severity, width):
    """The network from both rounds, and which of their positions were held out."""
    both = first + second
    weight = both.balance
    weight[: len(first.row)] *= ROUND_WEIGHTS[0]
    weight[len(first.row) :] *= ROUND_WEIGHTS[1]
    # By prompt, because many prompts are in both rounds.
    held_out = both.prompt % HELD_OUT == 0
    fitting = Fitting(epochs=5, width=width, dropout=0.3)
    return fit(both.inputs, target(both, severity), weight, held_out, fitting), both, held_out


def report(maps, positions, held_out):
    """How the router in the file does on positions it was not fitted to.

    They have chosen the epoch, and the networks of the first round were fitted to some of them, so
    these numbers are a little better than on other prompts.
    """
    judged = positions.at(torch.nonzero(held_out)[:, 0])
    score = chunked(judged.inputs, lambda x: network.folded_score(maps, x))
    fitted = positions.prompt[~held_out]
    counts = {"samples": len(fitted), "examples": len(fitted.unique())}
    return counts | network.measures(score, ~judged.differs)


def judge(lockstep, chat, judged, **rule):
    """For each kind: how good the answers are, and at which share of tokens the large model was asked.

    Good is the share that is right or, without a check, the mean log-likelihood of a token under the
    large model.
    """
    decoded = lockstep.joint([p.ids for p in judged], JUDGED, **rule)
    texts = [chat.text(row) for row in decoded.tokens.tolist()]
    written = decoded.tokens >= 0
    result = {}
    for kind in KINDS:
        rows = [i for i, p in enumerate(judged) if p.kind == kind]
        if judged[rows[0]].check:
            good = sum(judged[i].check.right(texts[i]) for i in rows) / len(rows)
        else:
            good = decoded.written_logp[rows][written[rows]].mean().item()
        result[kind] = good, decoded.asked[rows][written[rows]].float().mean().item()
    return result


def judge_all(lockstep, chat, judged, score, kinds):
    """Prints how much of the way from the small model to the large one the router goes."""
    small = judge(lockstep, chat, judged)
    large = judge(lockstep, chat, judged, ratio=2.0)
    shares = JUDGED_SHARES
    # Other prompts are asked at another share; the second time, that is made up for.
    for _ in range(2):
        found = quantiles(score, kinds, shares)
        result = judge(lockstep, chat, judged, threshold=torch.tensor([found[p.kind] for p in judged]))
        for kind, (good, share) in result.items():
            worst, best = small[kind][0], large[kind][0]
            way = (good - worst) / (best - worst) if best != worst else float("nan")
            print(f"  {kind}: small {worst:.3f}, large {best:.3f}, together {good:.3f} "
                  f"({way:.0%} of the way) with {share:.1%} asked", flush=True)
        shares = {
            kind: min(0.6, shares[kind] * (JUDGED_SHARES[kind] / max(share, 1e-3)) ** 0.9)
            for kind, (_, share) in result.items()
        }


def main():
    options, started = arguments(), time.time()

    def stage(name):
        print(f"{time.time() - started:4.0f} s: {name}", flush=True)

    torch.backends.cuda.matmul.allow_tf32 = True
    chat = Chat(options.edge, prompts.SYSTEM)
    tasks, requests = prompts.training(options.data)
    judged = encoded(chat, prompts.judged(options.data), LONGEST_JUDGED)
    if options.dry:
        tasks, requests, judged = (prompts.few(some, 8) for some in (tasks, requests, judged))
    edge, large = Model(options.edge), Model(options.large)
    longest = 24 if options.dry else COLUMNS
    lockstep = Lockstep(edge, large, chat, options.batch, longest)

    stage("prompts")
    every = collect_prompts(lockstep, chat, tasks, requests)
    stage(f"the first round, with {len(every)} prompts")
    first, ratio = first_round(lockstep, every)
    stage("roll-outs")
    severity = fit_severity(*roll_out(lockstep, chat, first, ratio))
    first = first.positions
    stage("the first network")
    held_out = first.row % HELD_OUT == 0
    fitting = Fitting(epochs=4, width=edge.width, dropout=0.3)
    router = fit(first.inputs, target(first, severity), first.balance, held_out, fitting)
    stage("the second round")
    second = second_round(lockstep, every, first, router).positions
    stage("the network of both rounds")
    router, both, held_out = fit_both(first, second, severity, edge.width)

    score = torch.sigmoid(chunked(second.inputs, router))
    maps = router.folded()
    with open(options.edge, "rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    about = {
        "format": 1,
        "hidden": edge.width,
        "inputs": "hidden+logits",
        "model": fingerprint,
        "model_name": options.edge.stem,
        "objective": "agree",
        "data": digest(every),
        "ids": True,
        "calibration": {"points": network.thresholds(score, second.balance)},
        "report": report(maps, both, held_out),
    }
    print(f"  held out: {about['report']}", flush=True)
    network.write(options.out, maps, about)
    stage("judging")
    lockstep.set_router(maps)
    judge_all(lockstep, chat, judged, score, second.kind)
    stage("done")


if __name__ == "__main__":
    main()
