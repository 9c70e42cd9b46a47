"""Writes a small router that reads tokens, and what it scores: the program is tested against it.

    fixture.py FOLDER

The weights are random. FOLDER gets tokens.safetensors and tokens.json, steps with the score that the
training code gives them.
"""

import json
import pathlib
import sys

import torch

import network
from lockstep import FEATURES, features
from network import Fitting, Inputs, Network, Sample, Vocabulary
from qwen2 import DEVICE

WIDTH, TOKENS, STEPS = 8, 40, 16


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    # Some of the tokens are common: every third.
    seen = torch.arange(0, TOKENS, 3, device=DEVICE)
    vocabulary = Vocabulary.of(torch.randn(TOKENS, 64, device=DEVICE), seen, 1)
    hidden, logits = torch.randn(STEPS, WIDTH), 4 * torch.randn(STEPS, TOKENS)
    # In the last steps most tokens are masked.
    logits[STEPS // 2 :, 5 : TOKENS - 5] = -torch.inf
    hidden, logits = hidden.to(DEVICE), logits.to(DEVICE)
    shape, best = features(logits.clamp(min=-1e4))
    sample = Sample(hidden, shape, best)

    mean = torch.randn(WIDTH + FEATURES, device=DEVICE)
    deviation = 0.5 + torch.rand(WIDTH + FEATURES, device=DEVICE)
    fitting = Fitting(epochs=1, width=WIDTH, dropout=0.0)
    inputs = Inputs(tokens=True)
    fitted = Network(inputs, mean, deviation, vocabulary, fitting.width, fitting.dropout).to(DEVICE)
    # As if it had been fitted: a fresh network's statistics would hide how they are folded.
    for layer in fitted.layers:
        if isinstance(layer, torch.nn.BatchNorm1d):
            for numbers in (layer.running_mean, layer.bias):
                numbers.data.normal_(std=0.3)
            for numbers in (layer.running_var, layer.weight):
                numbers.data.uniform_(0.5, 1.5)
    fitted.layers[-1].weight.data.mul_(20)
    router = fitted.eval().folded()

    score = router.score(sample)
    about = network.describe(inputs, WIDTH, "0123456789abcdef", "made up", "none")
    points = network.thresholds(score, torch.ones_like(score))
    figures = {"samples": STEPS, "examples": 1} | network.measures(score, score > score.median())
    network.write(folder / "tokens.safetensors", router, vocabulary, about, points, figures)
    steps = [
        # Minus infinity is null.
        {"hidden": h, "logits": [None if x == -torch.inf else x for x in l], "score": s}
        for h, l, s in zip(hidden.tolist(), logits.tolist(), score.tolist())
    ]
    (folder / "tokens.json").write_text("[\n" + ",\n".join(map(json.dumps, steps)) + "\n]\n")
    print([round(s, 3) for s in score.tolist()], best.tolist())


if __name__ == "__main__":
    main()
