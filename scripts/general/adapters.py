"""Fits LoRA adapters to a Qwen2 model, adds them to its weights, and writes them for llama.cpp."""

import math
import random
import time

import gguf
import torch
import torch.nn.functional as F
from torch import nn

from qwen2 import DEVICE

EVERY = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
# What the correction is multiplied by: alpha / rank, as the file says it too.
SCALE = 2.0
# Of a batch, padding included. Keeping what the large model computes of these takes some 40 GB.
MOST_TOKENS = 8_000
# Positions whose distributions over all tokens are in memory at a time.
POSITIONS = 2_048


class Adapter(nn.Module):
    """Low-rank corrections of projections, by layer and name."""

    def __init__(self, model, names, rank):
        super().__init__()
        self.model, self.rank = [model], rank
        self.low, self.high = nn.ParameterDict(), nn.ParameterDict()
        for place, layer in enumerate(model.layers):
            for name, rows in model.rows(layer).items():
                if name in names:
                    outputs, inputs = rows.shape
                    low = torch.empty(rank, inputs, device=DEVICE)
                    nn.init.kaiming_uniform_(low, a=math.sqrt(5))
                    self.low[f"{place}_{name}"] = nn.Parameter(low)
                    self.high[f"{place}_{name}"] = nn.Parameter(
                        torch.zeros(outputs, rank, device=DEVICE)
                    )

    def correction(self, place, name, x):
        key = f"{place}_{name}"
        if key not in self.low:
            return 0
        low = F.linear(x, self.low[key].to(x.dtype))
        return SCALE * F.linear(low, self.high[key].to(x.dtype))

    def states(self, ids):
        """The last states of all positions of whole texts, padded behind their ends."""
        (model,) = self.model
        rows, columns = ids.shape
        cos, sin = model.cos[:columns][None, None], model.sin[:columns][None, None]
        group = model.heads // model.kv_heads

        def split(x, heads):
            return x.view(rows, columns, heads, model.head).transpose(1, 2)

        x = model.embedding[ids].float()
        for i, layer in enumerate(model.layers):
            normed = model._normed(x, layer.attention_norm)
            widths = [n * model.head for n in (model.heads, model.kv_heads, model.kv_heads)]
            parts = F.linear(normed, layer.qkv, layer.qkv_bias).split(widths, -1)
            names = ("attn_q", "attn_k", "attn_v")
            q, k, v = (p + self.correction(i, n, normed) for p, n in zip(parts, names))
            q = model._rotated(split(q, model.heads), cos, sin)
            k = model._rotated(split(k, model.kv_heads), cos, sin).repeat_interleave(group, 1)
            v = split(v, model.kv_heads).repeat_interleave(group, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            mixed = mixed.transpose(1, 2).reshape(rows, columns, -1)
            attended = F.linear(mixed, layer.output) + self.correction(i, "attn_output", mixed)
            x = x + attended.float()
            normed = model._normed(x, layer.mlp_norm)
            gate, up = F.linear(normed, layer.gate_up).chunk(2, -1)
            gate = gate + self.correction(i, "ffn_gate", normed)
            up = up + self.correction(i, "ffn_up", normed)
            inner = F.silu(gate) * up
            x = x + (F.linear(inner, layer.down) + self.correction(i, "ffn_down", inner)).float()
        return model._normed(x, model.norm)

    def write(self, path):
        writer = gguf.GGUFWriter(str(path), "qwen2")
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, SCALE * self.rank)
        for key, low in self.low.items():
            place, name = key.split("_", 1)
            for end, tensor in (("a", low), ("b", self.high[key])):
                numbers = tensor.detach().half().cpu().numpy()
                writer.add_tensor(f"blk.{place}.{name}.weight.lora_{end}", numbers)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


def deltas_of(path):
    """What the adapter in a file adds to each projection."""
    reader = gguf.GGUFReader(path)
    parts = {
        tensor.name: torch.from_numpy(tensor.data.copy()).float().to(DEVICE)
        for tensor in reader.tensors
    }
    found = {}
    for name, high in parts.items():
        if name.endswith(".lora_b"):
            _, place, projection, *_ = name.split(".")
            low = parts[name.removesuffix("b") + "a"]
            alpha = float(reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents())
            found[int(place), projection] = alpha / len(low) * (high @ low)
    return found


def batches(examples, size, rng):
    """Of similar length, in random order; of the long ones fewer, because memory ends somewhere."""
    order = sorted(range(len(examples)), key=lambda i: sum(map(len, examples[i])) + rng.random() * 16)
    groups = [[]]
    for i in order:
        # The last is about the longest.
        full = (len(groups[-1]) + 1) * sum(map(len, examples[i])) > MOST_TOKENS
        if len(groups[-1]) == size or (full and groups[-1]):
            groups.append([])
        groups[-1].append(i)
    rng.shuffle(groups)
    return [[examples[i] for i in group] for group in groups]


def answers_of(batch):
    """The texts side by side, and behind each token the next one if that is part of an answer."""
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    wanted = torch.full((len(batch), width), -1)
    for i, (prompt, answer) in enumerate(batch):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        wanted[i, len(prompt) - 1 : end - 1] = torch.tensor(answer)
    return ids.to(DEVICE), wanted.to(DEVICE)


def learn_tokens(adapter, batch):
    """The loss of the answers alone, given their prompts; its gradient is left in the adapter."""
    (model,) = adapter.model
    ids, wanted = answers_of(batch)
    states = adapter.states(ids)[wanted >= 0]
    loss = F.cross_entropy(model.logits(states), wanted[wanted >= 0])
    loss.backward()
    return loss.detach()


def learn_opinion(adapter, teacher, batch):
    """The same for what the teacher makes of every position of the answers, whoever wrote them.

    Half of the loss is the teacher's whole distribution and half its best token, because that is what
    a router compares.
    """
    (model,), (taught_by,) = adapter.model, teacher.model
    ids, wanted = answers_of(batch)
    with torch.no_grad():
        opinions = teacher.states(ids)[wanted >= 0]
    states = adapter.states(ids)[wanted >= 0]
    # The distributions of all positions at once would be larger than all else.
    found = states.detach().requires_grad_()
    total = 0.0
    for some, opinion in zip(found.split(POSITIONS), opinions.split(POSITIONS)):
        with torch.no_grad():
            taught = taught_by.logits(opinion).log_softmax(-1)
        own = model.logits(some).log_softmax(-1)
        apart = F.kl_div(own, taught, reduction="sum", log_target=True)
        missed = F.nll_loss(own, taught.argmax(-1), reduction="sum")
        loss = 0.5 * (apart + missed) / len(found)
        loss.backward()
        total += loss.detach()
    states.backward(found.grad)
    return total


def fit_adapter(model, examples, rank, names, epochs, learning_rate, size=32, seed=1, teacher=None):
    """From pairs of prompts and answers, both as tokens; with a teacher, from its opinion of them."""
    torch.manual_seed(seed)
    rng, started = random.Random(seed), time.time()
    adapter = Adapter(model, names, rank)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=learning_rate, weight_decay=0.0)
    if not examples:
        raise SystemExit("there are no right answers to fit an adapter to")
    parts = [batches(examples, size, rng) for _ in range(epochs)]
    total = sum(map(len, parts))
    warm = max(1, total // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min((i + 1) / warm, 0.5 * (1 + math.cos(math.pi * min(1.0, i / total)))),
    )
    for epoch, some in enumerate(parts):
        losses = []
        for batch in some:
            if teacher is None:
                loss = learn_tokens(adapter, batch)
            else:
                loss = learn_opinion(adapter, Adapter(teacher, (), 0), batch)
            torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            losses.append(loss)
        loss, seconds = torch.stack(losses).mean().item(), time.time() - started
        print(f"  epoch {epoch + 1}: loss {loss:.3f}, {seconds:.0f} s", flush=True)
    return adapter.requires_grad_(False)
