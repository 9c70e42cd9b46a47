"""Qwen2 models and their chat format from GGUF files, in plain torch, for many texts side by side.

The weights are those of the quantised file, rounding included, because a router is to judge the
states that this file gives. Texts are padded on the left, so that all of them write their next token
into the same column of the cache.
"""

import mmap
import multiprocessing
import time
from typing import NamedTuple

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Of weights and caches; what is summed from layer to layer has 32 bits.
PRECISION = torch.bfloat16 if DEVICE == "cuda" else torch.float32
POSITIONS = 4096
# Rows of a tensor that one process unpacks at a time, and the most pieces a tensor is cut into.
PIECE_ROWS, MOST_PIECES = 4096, 32

# How Qwen2 cuts a text into words before its merges apply.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Chat:
    """From a prompt to tokens, and from tokens to text."""

    def __init__(self, path, system):
        fields = gguf.GGUFReader(path).fields
        vocabulary = {}
        for i, token in enumerate(fields["tokenizer.ggml.tokens"].contents()):
            vocabulary.setdefault(token, i)
        merges = fields["tokenizer.ggml.merges"].contents()
        self.tokenizer = tokenizer(vocabulary, [tuple(merge.split(" ")) for merge in merges])
        start, end = vocabulary["<|im_start|>"], vocabulary["<|im_end|>"]
        # No token from this one on stands for text.
        self.padding = vocabulary["<|endoftext|>"]
        self.ends = (end, self.padding)
        close = [end, *self.encode("\n"), start]
        self.head = [start, *self.encode(f"system\n{system}"), *close, *self.encode("user\n")]
        self.tail = [*close, *self.encode("assistant\n")]

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def ids(self, prompt):
        return self.head + self.encode(prompt) + self.tail

    def text(self, ids):
        words = [i for i in ids if 0 <= i < self.padding]
        return self.tokenizer.decode(words, skip_special_tokens=False)


def tokenizer(vocabulary, merges):
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_])
    built.decoder = decoders.ByteLevel()
    return built


def unpacked(reader):
    """Every tensor of a GGUF file as 32-bit numbers, by name.

    Unpacking holds Python's lock, so it is shared out to processes. They write into memory that this
    one sees too: sending gigabytes back would take longer than making them.
    """
    weights, pieces = {}, []
    for place, tensor in enumerate(reader.tensors):
        memory = mmap.mmap(-1, 4 * int(tensor.n_elements))
        shape = [int(n) for n in reversed(tensor.shape)]
        weights[tensor.name] = np.frombuffer(memory, np.float32).reshape(shape)
        count = max(1, min(shape[0] // PIECE_ROWS, MOST_PIECES))
        edges = [shape[0] * i // count for i in range(count + 1)]
        pieces += [(place, *ends) for ends in zip(edges, edges[1:])]
    # The largest first, so that no process is left alone with one at the end.
    pieces.sort(key=lambda piece: -reader.tensors[piece[0]].data[piece[1] : piece[2]].nbytes)
    # Forked, so that the processes have the file and the memory without being sent either.
    forked = multiprocessing.get_context("fork")
    with forked.Pool(initializer=share, initargs=(reader.tensors, weights)) as pool:
        pool.map(unpack, pieces, chunksize=1)
    return weights


def share(tensors, weights):
    global shared
    shared = tensors, weights


def unpack(piece):
    tensors, weights = shared
    place, begin, end = piece
    tensor = tensors[place]
    numbers = gguf.quants.dequantize(tensor.data[begin:end], tensor.tensor_type)
    weights[tensor.name][begin:end] = numbers


class Layer(NamedTuple):
    attention_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor
    output: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class Model:
    def __init__(self, path):
        started = time.time()
        reader = gguf.GGUFReader(path)

        def setting(name):
            return reader.fields[f"qwen2.{name}"].contents()

        self.width = setting("embedding_length")
        self.heads = setting("attention.head_count")
        self.kv_heads = setting("attention.head_count_kv")
        self.head = self.width // self.heads
        self.epsilon = setting("attention.layer_norm_rms_epsilon")
        self._place_weights(unpacked(reader), setting("block_count"))
        self._place_rotations(setting("rope.freq_base"))
        print(f"{path.name} on {DEVICE} in {time.time() - started:.0f} s", flush=True)

    def _place_weights(self, weights, depth):
        def place(name):
            tensor = torch.from_numpy(weights[name])
            return tensor.to(DEVICE, PRECISION if tensor.dim() == 2 else torch.float32)

        def stacked(layer, names, part):
            return torch.cat([place(f"blk.{layer}.{name}.{part}") for name in names])

        qkv = ("attn_q", "attn_k", "attn_v")
        self.embedding = place("token_embd.weight")
        tied = "output.weight" not in weights
        self.unembedding = self.embedding if tied else place("output.weight")
        self.norm = place("output_norm.weight")
        self.layers = [
            Layer(
                attention_norm=place(f"blk.{i}.attn_norm.weight"),
                qkv=stacked(i, qkv, "weight"),
                qkv_bias=stacked(i, qkv, "bias").to(PRECISION),
                output=place(f"blk.{i}.attn_output.weight"),
                mlp_norm=place(f"blk.{i}.ffn_norm.weight"),
                gate_up=stacked(i, ("ffn_gate", "ffn_up"), "weight"),
                down=place(f"blk.{i}.ffn_down.weight"),
            )
            for i in range(depth)
        ]

    def _place_rotations(self, base):
        powers = torch.arange(0, self.head, 2, dtype=torch.float64) / self.head
        angles = torch.arange(POSITIONS, dtype=torch.float64)[:, None] * (1.0 / base**powers)
        angles = torch.cat([angles, angles], 1)
        self.cos, self.sin = angles.cos().float().to(DEVICE), angles.sin().float().to(DEVICE)

    def allocate(self, rows, columns):
        """The cache is made once: a captured graph reads and writes where it was captured."""
        shape = (len(self.layers), rows, self.kv_heads, columns, self.head)
        self.keys = torch.zeros(shape, device=DEVICE, dtype=PRECISION)
        self.values = torch.zeros_like(self.keys)

    @torch.no_grad()
    def merge(self, deltas):
        """Adds to the weights in place, by layer and GGUF name: captured graphs see the sums.

        What was added before is taken away first.
        """
        if not hasattr(self, "original"):
            self.original = [Layer(*(tensor.clone() for tensor in layer)) for layer in self.layers]
        for place, (layer, original) in enumerate(zip(self.layers, self.original)):
            for tensor, value in zip(layer, original):
                tensor.copy_(value)
            for name, rows in self.rows(layer).items():
                if (place, name) in deltas:
                    rows.copy_(rows.float() + deltas[place, name])

    def rows(self, layer):
        """The weights of a layer by their names in the file, as views."""
        widths = [n * self.head for n in (self.heads, self.kv_heads, self.kv_heads)]
        gate, up = layer.gate_up.chunk(2)
        named = zip(("attn_q", "attn_k", "attn_v"), layer.qkv.split(widths))
        return dict(named) | {
            "attn_output": layer.output, "ffn_gate": gate, "ffn_up": up, "ffn_down": layer.down
        }

    def prefill(self, ids, padding, first):
        """Reads whole prompts into the cache from row `first` on; the states behind them."""
        rows, columns = ids.shape
        column = torch.arange(columns, device=DEVICE)
        position = (column[None] - padding[:, None]).clamp(min=0)
        cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        seen = column[None, :, None] >= column[None, None, :]
        seen = seen & (column[None, None, :] >= padding[:, None, None])
        # Padding sees itself: a row that sees nothing would not be a number.
        seen = (seen | (column[:, None] == column[None, :])[None])[:, None]
        group = self.heads // self.kv_heads

        def split(x, heads):
            return x.view(rows, columns, heads, self.head).transpose(1, 2)

        x = self.embedding[ids].float()
        for i, layer in enumerate(self.layers):
            q, k, v = self._qkv(x, layer)
            q = self._rotated(split(q, self.heads), cos, sin)
            k = self._rotated(split(k, self.kv_heads), cos, sin)
            v = split(v, self.kv_heads)
            self.keys[i, first : first + rows, :, :columns] = k
            self.values[i, first : first + rows, :, :columns] = v
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            mixed = mixed.transpose(1, 2).reshape(rows, columns, -1)
            x = self._mlp(x + F.linear(mixed, layer.output).float(), layer)
        return self._normed(x[:, -1], self.norm)

    def step(self, tokens, column, padding, columns):
        """Reads one token for each of the first rows, where at most `columns` columns are in use."""
        rows = len(tokens)
        position = column - padding[:rows]
        cos, sin = self.cos[position][:, None, :], self.sin[position][:, None, :]
        every = torch.arange(columns, device=DEVICE)
        seen = (every[None] <= column) & (every[None] >= padding[:rows, None])
        bias = torch.zeros(rows, columns, device=DEVICE).masked_fill(~seen, -1e30)[:, None, None]
        grouped = (rows, self.kv_heads, self.heads // self.kv_heads, self.head)
        x = self.embedding[tokens].float()
        for i, layer in enumerate(self.layers):
            q, k, v = self._qkv(x, layer)
            q = self._rotated(q.view(rows, self.heads, self.head), cos, sin).view(grouped)
            k = self._rotated(k.view(rows, self.kv_heads, self.head), cos, sin)
            v = v.view(rows, self.kv_heads, 1, self.head)
            self.keys[i, :rows].index_copy_(2, column.view(1), k[:, :, None])
            self.values[i, :rows].index_copy_(2, column.view(1), v)
            keys, values = self.keys[i, :rows, :, :columns], self.values[i, :rows, :, :columns]
            scores = torch.matmul(q, keys.transpose(-1, -2)).float() * self.head**-0.5 + bias
            mixed = torch.matmul(torch.softmax(scores, -1).to(PRECISION), values)
            mixed = mixed.reshape(rows, -1)
            x = self._mlp(x + F.linear(mixed, layer.output).float(), layer)
        return self._normed(x, self.norm)

    def logits(self, states):
        return F.linear(states, self.unembedding).float()

    def keep(self, rows, columns):
        """Moves these rows of the cache to its beginning."""
        for cache in (self.keys, self.values):
            for layer in cache:
                layer[: len(rows), :, :columns] = layer[rows, :, :columns]

    def _normed(self, x, weight):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (x * scale * weight).to(PRECISION)

    def _qkv(self, x, layer):
        widths = [n * self.head for n in (self.heads, self.kv_heads, self.kv_heads)]
        normed = self._normed(x, layer.attention_norm)
        return F.linear(normed, layer.qkv, layer.qkv_bias).split(widths, -1)

    def _rotated(self, x, cos, sin):
        half, x = self.head // 2, x.float()
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return (x * cos + turned * sin).to(PRECISION)

    def _mlp(self, x, layer):
        gate, up = F.linear(self._normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, layer.down).float()
