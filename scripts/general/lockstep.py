"""Decodes many texts with two models in lock step, and records what either would have said where.

At each step both models read the token before; the small one proposes the next, and a rule decides
for each text whether the large one's is taken instead. Steps are captured as CUDA graphs, because
launching their kernels one by one would take longer than running them. So everything that changes
from step to step lives in buffers that stay where they are.
"""

import time
from dataclasses import dataclass
from enum import Enum

import torch

from network import TOKEN_WIDTH, folded_score
from qwen2 import DEVICE, PRECISION

# How many texts there can be side by side; a graph is captured for each number that occurs.
SIZES = (64, 128, 256, 512, 1024, 2048) if DEVICE == "cuda" else (2, 4, 8)
# Columns of the cache: the longest prompt and answer together.
COLUMNS = 896
# Attention looks at a multiple of this many columns, so that a graph serves that many steps.
COLUMN_BLOCK = 128
# Steps between two looks at which texts are over: every look makes the device wait.
STEPS = 16
PREFILL_ROWS = 64
FEATURES = 10


class Mode(Enum):
    LARGE = "the large model alone"
    JOINT = "both models"


@dataclass
class Decoded:
    """A row for each text and a column for each token; behind the end of a text, tokens are -1."""

    tokens: torch.Tensor
    # Of the small model: its best token and the one behind it.
    edge: torch.Tensor | None = None
    second: torch.Tensor | None = None
    # The large model's best token.
    large: torch.Tensor | None = None
    # How likely the large model finds either, and what was written.
    edge_logp: torch.Tensor | None = None
    large_logp: torch.Tensor | None = None
    written_logp: torch.Tensor | None = None
    # Where the large model's token was taken.
    asked: torch.Tensor | None = None
    # Of every written position, in no order: its text and its place in it, the small model's states,
    # and what the router sees of its distribution.
    position: torch.Tensor | None = None
    states: torch.Tensor | None = None
    features: torch.Tensor | None = None


STATES = ("states", "features")
OPINIONS = ("edge", "second", "large", "edge_logp", "large_logp", "written_logp", "asked")


@dataclass
class Batch:
    """Texts that are decoded side by side."""

    mode: Mode
    # Rows that are computed, and which text is in each.
    size: int
    texts: torch.Tensor
    # Rows whose text was over before the steps that are now in the record.
    over: torch.Tensor
    # Columns of the prompts, and tokens behind them that are in the result.
    width: int
    written: int = 0


def features(logits):
    """What the router sees of a distribution (crates/decode/src/features.rs), and the best tokens."""
    total = torch.logsumexp(logits, -1, keepdim=True)
    top = torch.topk(logits, 8, -1)
    likely = (top.values - total).exp()
    logp = logits - total
    entropy = -(logp.exp() * logp).sum(-1)
    margin = likely[:, 0] - likely[:, 1]
    return torch.cat([likely, entropy[:, None], margin[:, None]], -1), top.indices[:, :2]


def zeros(*shape, dtype=torch.long):
    return torch.zeros(*shape, device=DEVICE, dtype=dtype)


class Lockstep:
    def __init__(self, edge, large, chat, batch=SIZES[-1], longest=COLUMNS):
        """No text is longer than `longest`, whatever is asked for."""
        self.edge, self.large, self.batch, self.longest = edge, large, batch, longest
        edge.allocate(batch, COLUMNS)
        large.allocate(batch, COLUMNS)
        self.ends, self.padding_token = torch.tensor(chat.ends, device=DEVICE), chat.padding
        half, single = torch.float16, torch.float32
        # Of each row: the last token, columns before the prompt, whether its text is over.
        self.token, self.padding, self.done = zeros(batch), zeros(batch), zeros(batch).bool()
        self.edge_hidden = zeros(batch, edge.width, dtype=PRECISION)
        self.large_hidden = zeros(batch, large.width, dtype=PRECISION)
        self.ratio, self.threshold, self.temperature = zeros(3, batch, dtype=single).unbind()
        # Of all rows: the column that is written next, and the place in the record.
        self.column, self.place = zeros(()), zeros(())
        self.record = {
            "tokens": zeros(STEPS, batch),
            "states": zeros(STEPS, batch, edge.width, dtype=half),
            "features": zeros(STEPS, batch, FEATURES, dtype=single),
            "edge": zeros(STEPS, batch),
            "second": zeros(STEPS, batch),
            "large": zeros(STEPS, batch),
            "edge_logp": zeros(STEPS, batch, dtype=single),
            "large_logp": zeros(STEPS, batch, dtype=single),
            "written_logp": zeros(STEPS, batch, dtype=single),
            "asked": zeros(STEPS, batch).bool(),
        }
        # A router that reads no tokens has zeros for them.
        self.table = zeros(len(edge.embedding), TOKEN_WIDTH, dtype=single)
        inputs, width = edge.width + FEATURES + 2 * TOKEN_WIDTH, edge.width
        shapes = ((2 * width, inputs), (2 * width,), (width, 2 * width), (width,), (1, width), (1,))
        self.router = [zeros(*shape, dtype=single) for shape in shapes]
        self.graphs, self.pool = {}, None

    def set_router(self, router):
        """A router of the states and the features, with or without the tokens' table."""
        w1, *rest = router.maps
        ours, *others = self.router
        ours.zero_()
        self.table.zero_()
        # The tokens come last.
        ours[:, : w1.shape[1]] = w1
        if router.table is not None:
            self.table.copy_(router.table)
        for buffer, given in zip(others, rest):
            buffer.copy_(given)

    def large_alone(self, prompts, most, temperature=0.0):
        """What the large model writes; greedily at a temperature of 0."""
        rule = {"temperature": temperature}
        return self._decode(prompts, most, Mode.LARGE, rule, ("tokens",))

    def joint(self, prompts, most, ratio=0.0, threshold=0.0, states=False):
        """What both write together, and what either made of every position.

        The large model is asked where it finds the small one's token less than `ratio` times as
        likely as its own, and where the router's score is below `threshold`. Both may be one number or
        one for each prompt. States are recorded only on demand: they are large.
        """
        rule = {"ratio": ratio, "threshold": threshold}
        return self._decode(prompts, most, Mode.JOINT, rule, ("tokens", *OPINIONS), states)

    @torch.no_grad()
    def _decode(self, prompts, most, mode, rule, names, states=False):
        started, most = time.time(), min(most, self.longest)
        result = {}
        # Without the gaps behind the ends of texts: they are too large for that.
        self.kept = {name: [] for name in ("position", *STATES)} if states else None
        for name in names:
            kept = self.record[name]
            # Tokens fit into half the bits, and there are many of them.
            dtype = torch.int32 if kept.dtype == torch.long else kept.dtype
            result[name] = zeros(len(prompts), most, *kept.shape[2:], dtype=dtype)
        result["tokens"].fill_(-1)
        rule = {
            name: torch.as_tensor(value, dtype=torch.float32).cpu().expand(len(prompts))
            for name, value in {"ratio": 0, "threshold": 0, "temperature": 0, **rule}.items()
        }
        # Prompts of one length together: padding is read too.
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        for begin in range(0, len(order), self.batch):
            batch = self._begin(prompts, order[begin : begin + self.batch], mode, rule)
            self._finish(batch, min(most, COLUMNS - batch.width), result)
        tokens, seconds = int((result["tokens"] >= 0).sum()), time.time() - started
        print(f"  {mode.value}: {len(prompts)} texts, {tokens} tokens, {seconds:.1f} s", flush=True)
        for name in list(self.kept or ()):
            result[name] = torch.cat(self.kept.pop(name))
        return Decoded(**result)

    def _begin(self, prompts, chosen, mode, rule):
        """Reads the prompts and decides on their first tokens."""
        size = next(size for size in SIZES if size >= len(chosen))
        # Rows that are over and hold any prompt fill the batch up.
        texts = torch.tensor(chosen + chosen[:1] * (size - len(chosen)))
        over = (torch.arange(size) >= len(chosen)).to(DEVICE)
        width = max(len(prompts[i]) for i in chosen)
        padding = [width - len(prompts[i]) for i in texts.tolist()]
        ids = [[self.padding_token] * n + prompts[i] for n, i in zip(padding, texts.tolist())]
        ids = torch.tensor(ids, device=DEVICE)
        self.padding[:size] = torch.tensor(padding)
        for first in range(0, size, PREFILL_ROWS):
            some = slice(first, min(first + PREFILL_ROWS, size))
            if mode is Mode.JOINT:
                self.edge_hidden[some] = self.edge.prefill(ids[some], self.padding[some], first)
            self.large_hidden[some] = self.large.prefill(ids[some], self.padding[some], first)
        for name, value in rule.items():
            getattr(self, name)[:size] = value[texts].to(DEVICE)
        self.done[:size] = over
        self.column.fill_(width)
        self.place.fill_(0)
        self._decide(size, mode)
        self.place += 1
        return Batch(mode, size, texts.to(DEVICE), over, width)

    def _finish(self, batch, most, result):
        """Decodes until every text is over or has its most tokens."""
        steps = 1
        while True:
            while steps < min(STEPS, most - batch.written):
                self._step(batch, batch.width + batch.written + steps)
                steps += 1
            self._drain(batch, steps, result)
            steps = 0
            living = int((~batch.over).sum())
            if living == 0 or batch.written >= most:
                return
            if batch.size > SIZES[0] and living <= batch.size // 2:
                self._shrink(batch, living)

    def _step(self, batch, used):
        """One more token for every row, with `used` columns in use."""
        columns = min(COLUMNS, (used // COLUMN_BLOCK + 1) * COLUMN_BLOCK)
        if DEVICE != "cuda":
            return self._forward(batch.size, columns, batch.mode)
        key = (batch.size, columns, batch.mode)
        if key not in self.graphs:
            self.graphs[key] = self._captured(*key)
        self.graphs[key].replay()

    def _captured(self, *step):
        """The graph of a step. Torch wants a step outside of the graph first: it is taken back."""
        state = self.token, self.column, self.place, self.done, self.edge_hidden, self.large_hidden
        before = [buffer.clone() for buffer in state]

        def restore():
            for buffer, value in zip(state, before):
                buffer.copy_(value)

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._forward(*step)
        torch.cuda.current_stream().wait_stream(aside)
        restore()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self._forward(*step)
        self.pool = self.pool or graph.pool()
        restore()
        return graph

    def _forward(self, size, columns, mode):
        read = self.token[:size], self.column, self.padding, columns
        if mode is Mode.JOINT:
            self.edge_hidden[:size] = self.edge.step(*read)
        self.large_hidden[:size] = self.large.step(*read)
        self._decide(size, mode)
        self.column += 1
        self.place += 1

    def _decide(self, size, mode):
        """From the states of both models to the next token of every row."""
        logits = self.large.logits(self.large_hidden[:size])
        best = logits.argmax(-1)
        if mode is Mode.LARGE:
            temperature = self.temperature[:size]
            uniform = torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7)
            noise = -torch.log(-torch.log(uniform))
            drawn = (logits + noise * temperature[:, None]).argmax(-1)
            token = torch.where(temperature > 0, drawn, best)
        else:
            token = self._routed(size, logits, best)
        self._put("tokens", token)
        self.token[:size] = token
        self.done[:size] |= (token[:, None] == self.ends).any(-1)

    def _routed(self, size, logits, large):
        states = self.edge_hidden[:size]
        seen, best = features(self.edge.logits(states))
        edge, second = best.unbind(1)
        tokens = self.table[best].flatten(1)
        score = folded_score(self.router, torch.cat([states.float(), seen, tokens], -1))
        total = torch.logsumexp(logits, -1)

        def logp(token):
            return logits.gather(1, token[:, None])[:, 0] - total

        unlikely = (logp(edge) - logp(large)).exp() < self.ratio[:size]
        asked = unlikely | (score < self.threshold[:size])
        token = torch.where(asked, large, edge)
        self._put("states", states)
        self._put("features", seen)
        self._put("edge", edge)
        self._put("second", second)
        self._put("large", large)
        self._put("edge_logp", logp(edge))
        self._put("large_logp", logp(large))
        self._put("written_logp", logp(token))
        self._put("asked", asked)
        return token

    def _put(self, name, value):
        record = self.record[name][:, : len(value)]
        record.index_copy_(0, self.place.view(1), value[None].to(record.dtype))

    def _drain(self, batch, steps, result):
        """Moves the record of the last steps into the result."""
        tokens = self.record["tokens"][:steps, : batch.size].T
        ends = (tokens[:, :, None] == self.ends).any(-1).int()
        # The end itself is part of the text.
        behind = (torch.cumsum(ends, 1) - ends) > 0
        living = ~batch.over
        texts = batch.texts[living]
        columns = slice(batch.written, batch.written + steps)
        for name, into in result.items():
            recorded = self.record[name][:steps, : batch.size].transpose(0, 1)
            if name == "tokens":
                recorded = recorded.masked_fill(behind, -1)
            into[texts, columns] = recorded[living].to(into.dtype)
        if self.kept is not None:
            written = living[:, None] & ~behind
            row, place = torch.nonzero(written, as_tuple=True)
            position = torch.stack([batch.texts[row], place + batch.written], 1)
            self.kept["position"].append(position)
            for name in STATES:
                recorded = self.record[name][:steps, : batch.size].transpose(0, 1)
                self.kept[name].append(recorded[row, place])
        batch.written += steps
        batch.over = self.done[: batch.size].clone()
        self.place.fill_(0)

    def _shrink(self, batch, living):
        """Closes the gaps that finished texts have left."""
        size = next(size for size in SIZES if size >= living)
        fill = torch.nonzero(batch.over)[: size - living, 0]
        rows = torch.cat([torch.nonzero(~batch.over)[:, 0], fill])
        columns = batch.width + batch.written
        if batch.mode is Mode.JOINT:
            self.edge.keep(rows, columns)
        self.large.keep(rows, columns)
        for buffer in (
            self.token, self.padding, self.done, self.ratio, self.threshold, self.temperature,
            self.edge_hidden, self.large_hidden,
        ):
            buffer[:size] = buffer[rows].clone()
        batch.texts, batch.over, batch.size = batch.texts[rows], batch.over[rows], size
