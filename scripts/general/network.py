"""The router's network: fitting it, folding it into three affine maps, how good it is, and its file.

What is read of a position is put together for a few rows at a time: all of them at once would need
twice the memory.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors.numpy import save
from torch import nn

from qwen2 import DEVICE

# Rows that go through the network at once where nothing is fitted.
CHUNK = 65536
BINS = 10
# Numbers in a row of the tokens' table.
TOKEN_WIDTH = 32
SHARES = (
    0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1,
    0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
)


class Inputs(NamedTuple):
    """What a router reads beside the last state and the features of the distribution."""

    # The best token and the one behind it, by a row each of a table that is fitted too.
    tokens: bool = False


class Sample(NamedTuple):
    """Positions as a router reads them, one row each."""

    states: torch.Tensor
    features: torch.Tensor
    tokens: torch.Tensor

    def at(self, index):
        return Sample(*(part[index] for part in self))

    def numbers(self, index):
        """What is read as numbers, for some rows."""
        return torch.cat([self.states[index].float(), self.features[index].float()], -1)


class Router(NamedTuple):
    """A network in use: three affine maps, weights rounded to 16 bits, as in a file."""

    maps: list
    # A row for each token of the vocabulary, or nothing.
    table: torch.Tensor | None

    def score(self, sample):
        """The scores of all rows."""
        def some(index):
            x = sample.numbers(index)
            if self.table is not None:
                x = torch.cat([x, self.table[sample.tokens[index]].flatten(1)], -1)
            return folded_score(self.maps, x)

        return chunked(len(sample.features), some)


class Network(nn.Module):
    def __init__(self, inputs, mean, deviation, vocabulary, width, dropout):
        super().__init__()
        self.inputs = inputs
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.register_buffer("rows", vocabulary.rows)
        self.table = nn.Parameter(vocabulary.table.clone()) if inputs.tokens else None
        read = len(mean) + (2 * TOKEN_WIDTH if inputs.tokens else 0)
        self.layers = nn.Sequential(
            nn.Linear(read, 2 * width, bias=False),
            nn.BatchNorm1d(2 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, 1),
        )

    def forward(self, numbers, tokens):
        """The score before the sigmoid."""
        x = (numbers - self.mean) / self.deviation
        if self.table is not None:
            x = torch.cat([x, self.table[self.rows[tokens]].flatten(1)], -1)
        return self.layers(x)[:, 0]

    @torch.no_grad()
    def folded(self):
        first, first_norm, _, _, second, second_norm, _, _, third = self.layers
        w1, b1 = without_norm(first, first_norm)
        w1[:, : len(self.mean)] /= self.deviation
        w1 = rounded(w1)
        # With the rounded weights, so that rounding does not shift the mean.
        b1 = b1 - w1[:, : len(self.mean)] @ self.mean
        w2, b2 = without_norm(second, second_norm)
        maps = [w1, b1, rounded(w2), b2, rounded(third.weight), third.bias.clone()]
        table = None if self.table is None else rounded(self.table)[self.rows]
        return Router(maps, table)


class Vocabulary(NamedTuple):
    """Tokens that are common enough to have a row of their own; all others share the first."""

    common: torch.Tensor
    # The row of each token, and what the rows begin with.
    rows: torch.Tensor
    table: torch.Tensor

    @classmethod
    def of(cls, embedding, tokens, least):
        """From a model's embedding, by its principal components, and the tokens that were seen."""
        common = torch.nonzero(torch.bincount(tokens.flatten()) >= least)[:, 0]
        rows = torch.zeros(len(embedding), dtype=torch.long, device=DEVICE)
        rows[common] = torch.arange(1, len(common) + 1, device=DEVICE)
        centred = embedding.float() - embedding.float().mean(0)
        _, vectors = torch.linalg.eigh(centred.T @ centred)
        table = centred[common] @ vectors[:, -TOKEN_WIDTH:]
        table = table / table.std(0).clamp(min=1e-6)
        return cls(common, rows, torch.cat([torch.zeros_like(table[:1]), table]))


def without_norm(linear, norm):
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return linear.weight * scale[:, None], norm.bias - norm.running_mean * scale


def rounded(weight):
    return weight.half().float()


def folded_score(maps, x):
    """The score as the program computes it."""
    w1, b1, w2, b2, w3, b3 = maps
    x = F.relu(F.linear(x, w1, b1))
    return torch.sigmoid(F.linear(F.relu(F.linear(x, w2, b2)), w3, b3))[:, 0]


@dataclass
class Fitting:
    epochs: int
    width: int
    dropout: float
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    batch: int = 4096


def chunked(count, function):
    """A function of places, for all places."""
    index = torch.arange(count, device=DEVICE)
    with torch.no_grad():
        return torch.cat([function(some) for some in index.split(CHUNK)])


def fit(sample, inputs, vocabulary, target, weight, held_out, fitting):
    """Fits to probabilities; the epoch that is best on the rows held out is kept."""
    torch.manual_seed(0)
    fitted, judged = torch.nonzero(~held_out)[:, 0], torch.nonzero(held_out)[:, 0]
    batch = max(8, min(fitting.batch, len(fitted) // 4))
    some = fitted[torch.randint(len(fitted), (min(200_000, len(fitted)),), device=DEVICE)]
    numbers = sample.numbers(some)
    mean, deviation = numbers.mean(0), numbers.std(0).clamp(min=1e-4)
    network = Network(inputs, mean, deviation, vocabulary, fitting.width, fitting.dropout).to(DEVICE)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=fitting.learning_rate, weight_decay=fitting.weight_decay
    )
    steps = max(40, fitting.epochs * (len(fitted) // batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, fitting.learning_rate, total_steps=steps, pct_start=0.1
    )

    def output(index):
        return network(sample.numbers(index), sample.tokens[index])

    best = None
    for epoch in range(fitting.epochs):
        network.train()
        order = fitted[torch.randperm(len(fitted), device=DEVICE)]
        for begin in range(0, len(order) - batch + 1, batch):
            some = order[begin : begin + batch]
            loss = mean_loss(output(some), target[some], weight[some])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        network.eval()
        outputs = chunked(len(judged), lambda some: output(judged[some]))
        loss = mean_loss(outputs, target[judged], weight[judged]).item()
        if best is None or loss < best[0]:
            state = {name: value.clone() for name, value in network.state_dict().items()}
            best = (loss, epoch, state)
    loss, epoch, state = best
    network.load_state_dict(state)
    print(f"  loss {loss:.4f} on positions held out, after epoch {epoch + 1}", flush=True)
    return network.eval()


def mean_loss(outputs, target, weight):
    loss = F.binary_cross_entropy_with_logits(outputs, target, reduction="none")
    return (loss * weight).mean()


def counts(score, positive):
    """How many positives and how many rows each distinct score has, the highest first."""
    _, which = torch.unique(score, return_inverse=True)
    positives = torch.bincount(which, weights=positive.double()).flip(0)
    return positives, torch.bincount(which).double().flip(0)


def auc(score, positive):
    """How often a positive has the higher score than a negative; equal scores count half."""
    positives, total = counts(score, positive)
    negatives, above = total - positives, positives.cumsum(0) - positives
    won = (negatives * (above + positives / 2)).sum()
    return (won / (positives.sum() * negatives.sum())).item()


def average_precision(score, positive):
    positives, total = counts(score, positive)
    precision = positives.cumsum(0) / total.cumsum(0)
    return ((positives / positives.sum()) * precision).sum().item()


def calibration_error(score, positive):
    """How far scores are from the shares they promise, bin by bin, weighted by size."""
    bins = (score * BINS).long().clamp(max=BINS - 1)
    promised = torch.bincount(bins, weights=score, minlength=BINS)
    observed = torch.bincount(bins, weights=positive.double(), minlength=BINS)
    return ((promised - observed).abs().sum() / len(score)).item()


def log_loss(score, positive):
    likelihood = torch.where(positive, score, 1 - score)
    return -likelihood.clamp(min=1e-7).log().mean().item()


def measures(score, agrees):
    """How well a score tells where the large model agrees; for the report in a router file."""
    score = score.double()
    return {
        "held_out": len(score),
        "loss": log_loss(score, agrees),
        "auc": auc(score, agrees),
        "average_precision": average_precision(1 - score, ~agrees),
        "ece": calibration_error(score, agrees),
    }


def thresholds(score, weight):
    """Which threshold asks at which share of the positions, each of which counts by its weight."""
    score, order = torch.sort(score)
    below = torch.cumsum(weight[order].double(), 0)
    shares = torch.tensor(SHARES, device=DEVICE, dtype=torch.float64)
    places = torch.searchsorted(below / below[-1], shares).clamp(max=len(score) - 1)
    found = zip(SHARES, score[places].tolist())
    return [{"share": share, "threshold": threshold} for share, threshold in found]


def fingerprint(path):
    """What a router file knows a model or an adapter by."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def describe(inputs, width, fingerprint, name, data):
    """What a router file says about itself, all but its thresholds and figures."""
    return {
        "format": 2 if inputs.tokens else 1,
        "hidden": width,
        "inputs": "hidden+logits+tokens" if inputs.tokens else "hidden+logits",
        "model": fingerprint,
        "model_name": name,
        "objective": "agree",
        "data": data,
        "ids": True,
    }


def write(path, router, vocabulary, about, points, figures):
    """A router file as the program reads it (crates/router/src/file.rs)."""
    about = about | {"calibration": {"points": points}, "report": figures}
    tensors = {}
    for name, tensor in zip(("w1", "b1", "w2", "b2", "w3", "b3"), router.maps):
        tensors[name] = (tensor.half() if tensor.dim() == 2 else tensor).cpu().numpy()
    if router.table is not None:
        # The row of all other tokens first.
        other = torch.nonzero(vocabulary.rows == 0)[:1, 0]
        rows = torch.cat([other, vocabulary.common])
        tensors["tokens"] = vocabulary.common.int().cpu().numpy()
        tensors["table"] = router.table[rows].half().cpu().numpy()
    path.write_bytes(save(tensors, metadata={"tandem.router": json.dumps(about)}))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
