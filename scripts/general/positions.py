"""Positions of answers that both models wrote: recorded, labelled, and turned into a router.

A position's label is how right it is to keep the small model's token there: 1 where the models agree,
less the more harm the token does. Harm is read from how unlikely the large model finds the token and,
where answers can be checked, from roll-outs: which answers come out right behind either token?
"""

from dataclasses import dataclass

import torch

import network
from network import Fitting, Inputs, Router, Sample, chunked, fit
from prompts import KINDS
from qwen2 import DEVICE

# One prompt in so many is held out.
HELD_OUT = 12
# A token that is seen less often than this as a choice has no row of its own.
COMMON = 20


@dataclass
class Positions:
    """Positions of recorded texts, one row each."""

    states: torch.Tensor
    features: torch.Tensor
    edge: torch.Tensor
    second: torch.Tensor
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
    def sample(self):
        return Sample(self.states, self.features, torch.stack([self.edge, self.second], 1).long())

    @property
    def differs(self):
        return self.edge != self.large

    @property
    def ratio(self):
        """How likely the large model finds the small one's token, as a share of its own."""
        return (self.edge_logp - self.large_logp).exp()

    @property
    def held_out(self):
        # By prompt, because many prompts are in several rounds.
        return self.prompt % HELD_OUT == 0

    @property
    def balance(self):
        """Weights with which every kind counts alike."""
        count = torch.bincount(self.kind, minlength=len(KINDS)).float()
        return (len(self.kind) / (count > 0).sum() / count)[self.kind]

    def of_kind(self, kinds):
        numbers = torch.tensor([KINDS.index(k) for k in kinds], dtype=torch.long, device=DEVICE)
        return torch.isin(self.kind, numbers)


@dataclass
class Round:
    prompts: list
    tokens: torch.Tensor
    positions: Positions


def record(lockstep, every, numbers, most, **rule):
    """Joint answers to the prompts with these numbers, and their positions."""
    chosen = [every[i] for i in numbers]
    decoded = lockstep.joint([p.ids for p in chosen], most, states=True, **rule)
    row, place = decoded.position.unbind(1)
    kinds = torch.tensor([KINDS.index(p.kind) for p in chosen], device=DEVICE)
    values = {
        name: getattr(decoded, name)[row, place]
        for name in ("edge", "second", "large", "edge_logp", "large_logp")
    } | {"states": decoded.states, "features": decoded.features}
    number = torch.tensor(numbers, device=DEVICE)
    positions = Positions(**values, kind=kinds[row], row=row, prompt=number[row], place=place)
    differ = positions.differs.float().mean().item()
    print(f"  {len(row)} positions, the models differ at {differ:.1%}", flush=True)
    return Round(chosen, decoded.tokens.cpu(), positions)


def roll_out(lockstep, chat, recorded, candidate, count, most, longest):
    """Goes on with the large model behind either token, at some of the candidates.

    Returns the positions and what keeping the small model's token did there: 1 where that alone made
    the answer wrong, -1 where it alone made it right, 0 where both came out alike.
    """
    candidates = torch.nonzero(candidate)[:, 0]
    drawn = candidates[torch.randperm(len(candidates), device=DEVICE)][:count]
    positions = recorded.positions.at(drawn)
    kept, begun = [], []
    columns = positions.row, positions.place, positions.edge, positions.large
    for i, (row, place, edge, large) in enumerate(zip(*(c.tolist() for c in columns))):
        prompt, written = recorded.prompts[row], recorded.tokens[row, :place].tolist()
        ends = edge in chat.ends or large in chat.ends
        if not ends and len(prompt.ids) + len(written) <= longest:
            kept.append(i)
            begun += [(prompt, written + [edge]), (prompt, written + [large])]
    rest = lockstep.large_alone([prompt.ids + written for prompt, written in begun], most)
    right = [
        prompt.check.right(chat.text(written + behind))
        for (prompt, written), behind in zip(begun, rest.tokens.tolist())
    ]
    right = torch.tensor(right, device=DEVICE).float().view(len(kept), 2)
    kept_edge, kept_large = right.unbind(1)
    print(f"  right behind the small model's token {kept_edge.mean():.3f}, "
          f"behind the large one's {kept_large.mean():.3f}", flush=True)
    kept = torch.tensor(kept, dtype=torch.long, device=DEVICE)
    return positions.at(kept), kept_large - kept_edge


def known(positions):
    """What only the large model knows, and a router does not: for estimating harm alone."""
    numbers = [
        positions.edge_logp.clamp(min=-15),
        positions.large_logp,
        positions.ratio,
        torch.log1p(positions.place.float()),
    ]
    numbers += [(positions.kind == kind).float() for kind in range(len(KINDS))]
    features = torch.cat([positions.features, torch.stack(numbers, -1)], -1)
    return positions.sample._replace(features=features)


class Severity:
    """How much harm a token does, estimated from roll-outs.

    They are few and each is a matter of luck: a small network sees what they have in common.
    """

    def __init__(self, positions, harm, vocabulary):
        fitting = Fitting(
            epochs=10, width=128, dropout=0.5, learning_rate=3e-4, weight_decay=0.1, batch=512
        )
        self.network = fit(
            known(positions), Inputs(), vocabulary, 0.5 + 0.5 * harm, torch.ones_like(harm),
            positions.held_out, fitting,
        )

    def harm(self, positions):
        """How much less often answers come out right behind the small model's token: 0 to 1."""
        sample = known(positions)

        def some(index):
            return self.network(sample.numbers(index), sample.tokens[index])

        # It was fitted to 0.5 where either token is as good.
        return (2 * torch.sigmoid(chunked(len(positions.row), some)) - 1).clamp(min=0)


def unlikeliness(positions):
    """Harm by likelihood: a token that the large model finds nearly as likely as its own does none."""
    return ((0.3 - positions.ratio) / 0.3).clamp(min=0) ** 0.5


def fit_router(positions, inputs, vocabulary, target, weight, fitting):
    sample, held_out = positions.sample, positions.held_out
    return fit(sample, inputs, vocabulary, target, weight, held_out, fitting).folded()


def caught(router, positions, target, shares):
    """For each kind: how much of all harm is where the router asks at a share, on prompts held out."""
    held = torch.nonzero(positions.held_out)[:, 0]
    judged, harm = positions.at(held), 1 - target[held]
    score = router.score(judged.sample)
    result = {}
    for kind, share in shares.items():
        rows = judged.of_kind([kind])
        limit = quantile(score[rows], share)
        result[kind] = (harm[rows & (score < limit)].sum() / harm[rows].sum()).item()
    return result


def quantile(score, share):
    """The threshold below which this share of scores is; of no scores, one that never asks."""
    return torch.quantile(score.double(), share).item() if len(score) else 0.0


def quantiles(score, kinds, shares):
    """For each kind, the threshold below which this share of its scores is."""
    return {
        kind: quantile(score[kinds == KINDS.index(kind)], share) for kind, share in shares.items()
    }


def report(router, positions):
    """How the router does on positions it was not fitted to, as a router file tells it.

    They have chosen the epoch, so these numbers are a little better than on other prompts.
    """
    judged = positions.at(torch.nonzero(positions.held_out)[:, 0])
    fitted = positions.prompt[~positions.held_out]
    counts = {"samples": len(fitted), "examples": len(fitted.unique())}
    return counts | network.measures(router.score(judged.sample), ~judged.differs)


def judge(lockstep, chat, judged, most, **rule):
    """For each kind: how good the answers are, and at which share of tokens the large model was asked.

    Good is the share that is right or, without a check, the mean log-likelihood of a token under the
    large model.
    """
    decoded = lockstep.joint([p.ids for p in judged], most, **rule)
    texts = [chat.text(row) for row in decoded.tokens.tolist()]
    written = decoded.tokens >= 0
    result = {}
    for kind in dict.fromkeys(p.kind for p in judged):
        rows = [i for i, p in enumerate(judged) if p.kind == kind]
        if judged[rows[0]].check:
            good = sum(judged[i].check.right(texts[i]) for i in rows) / len(rows)
        else:
            good = decoded.written_logp[rows][written[rows]].mean().item()
        result[kind] = good, decoded.asked[rows][written[rows]].float().mean().item()
    return result


class Judge:
    """Tells how much of the way from the small model to the large one a router goes."""

    def __init__(self, lockstep, chat, judged, most):
        self.lockstep, self.chat, self.judged, self.most = lockstep, chat, judged, most
        self.small = judge(lockstep, chat, judged, most)
        self.large = judge(lockstep, chat, judged, most, ratio=2.0)

    def objections(self, ratio):
        """What asking exactly where the large model objects comes to: no router does better."""
        found = judge(self.lockstep, self.chat, self.judged, self.most, ratio=ratio)
        for kind, (good, share) in found.items():
            worst, best = self.small[kind][0], self.large[kind][0]
            way = (good - worst) / (best - worst) if best != worst else float("nan")
            print(f"  {kind}, less than {ratio} times as likely: {good:.3f} ({way:.0%} of the way) "
                  f"with {share:.1%} asked", flush=True)

    def way(self, router: Router, score, kinds, shares, tries=2):
        """Prints it for every kind at its share; the part of the way by kind, of the last try.

        Other prompts are asked at another share than those the thresholds are from; every further
        try makes up for that.
        """
        self.lockstep.set_router(router)
        aimed, ways = dict(shares), {}
        for _ in range(tries):
            found = quantiles(score, kinds, aimed)
            threshold = torch.tensor([found[p.kind] for p in self.judged])
            result = judge(self.lockstep, self.chat, self.judged, self.most, threshold=threshold)
            for kind, (good, share) in result.items():
                worst, best = self.small[kind][0], self.large[kind][0]
                ways[kind] = (good - worst) / (best - worst) if best != worst else float("nan")
                print(f"  {kind}: small {worst:.3f}, large {best:.3f}, together {good:.3f} "
                      f"({ways[kind]:.0%} of the way) with {share:.1%} asked", flush=True)
                aimed[kind] = min(0.6, aimed[kind] * (shares[kind] / max(share, 1e-3)) ** 0.9)
        return ways
