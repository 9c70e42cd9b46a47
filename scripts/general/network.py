"""The router's network: fitting it, folding it into three affine maps, how good it is, and its file.

Inputs come as parts, tensors with a row for each position, which are put beside each other for a few
rows at a time: all of them at once would need twice the memory.
"""

import json
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.numpy import save
from torch import nn

from qwen2 import DEVICE

# Rows that go through the network at once where nothing is fitted.
CHUNK = 65536
BINS = 10
SHARES = (
    0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1,
    0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
)


class Network(nn.Module):
    def __init__(self, mean, deviation, width, dropout):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.layers = nn.Sequential(
            nn.Linear(len(mean), 2 * width, bias=False),
            nn.BatchNorm1d(2 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        """The score before the sigmoid."""
        return self.layers((x - self.mean) / self.deviation)[:, 0]

    @torch.no_grad()
    def folded(self):
        """The network in use as w1, b1, w2, b2, w3, b3; weights are rounded to 16 bits, as in a file."""
        first, first_norm, _, _, second, second_norm, _, _, third = self.layers
        w1, b1 = without_norm(first, first_norm)
        w1 = rounded(w1 / self.deviation)
        # With the rounded weights, so that rounding does not shift the mean.
        b1 = b1 - w1 @ self.mean
        w2, b2 = without_norm(second, second_norm)
        return [w1, b1, rounded(w2), b2, rounded(third.weight), third.bias.clone()]


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


def rows(parts, index):
    return torch.cat([part[index].float() for part in parts], -1)


def chunked(parts, function):
    """A function of rows, for all rows."""
    index = torch.arange(len(parts[0]), device=DEVICE)
    with torch.no_grad():
        return torch.cat([function(rows(parts, some)) for some in index.split(CHUNK)])


def fit(parts, target, weight, held_out, fitting):
    """Fits to probabilities; the epoch that is best on the rows held out is kept."""
    torch.manual_seed(0)
    fitted, judged = torch.nonzero(~held_out)[:, 0], torch.nonzero(held_out)[:, 0]
    batch = max(8, min(fitting.batch, len(fitted) // 4))
    sample = torch.randint(len(fitted), (min(200_000, len(fitted)),), device=DEVICE)
    sample = rows(parts, fitted[sample])
    mean, deviation = sample.mean(0), sample.std(0).clamp(min=1e-4)
    network = Network(mean, deviation, fitting.width, fitting.dropout).to(DEVICE)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=fitting.learning_rate, weight_decay=fitting.weight_decay
    )
    steps = max(40, fitting.epochs * (len(fitted) // batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, fitting.learning_rate, total_steps=steps, pct_start=0.1
    )
    judged_parts = [part[judged] for part in parts]
    best = None
    for epoch in range(fitting.epochs):
        network.train()
        order = fitted[torch.randperm(len(fitted), device=DEVICE)]
        for begin in range(0, len(order) - batch + 1, batch):
            some = order[begin : begin + batch]
            loss = mean_loss(network(rows(parts, some)), target[some], weight[some])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        network.eval()
        outputs = chunked(judged_parts, network)
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


def write(path, maps, about):
    """A router file as the program reads it (crates/router/src/file.rs)."""
    tensors = {}
    for name, tensor in zip(("w1", "b1", "w2", "b2", "w3", "b3"), maps):
        tensors[name] = (tensor.half() if tensor.dim() == 2 else tensor).cpu().numpy()
    path.write_bytes(save(tensors, metadata={"tandem.router": json.dumps(about)}))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
