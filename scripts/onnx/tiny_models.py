"""Writes the tiny random models the tests read, and what Python's onnxruntime says of them.

Of models with quantised weights nothing is recorded but the name of their hidden state: their kernels
differ from CPU to CPU, so the tests compute the reference where they run.

Every shape a decoder comes in: caches that grow and caches written in place, with and without
positions, merged of two, pruned to the last position, fp32, fp16, int8, int4, external data; and
graphs whose hidden state is hard to find, or is not there.

usage: tiny_models.py MODELS GRAPHS   (folders; needs numpy, onnx and onnxruntime)
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh

VOCAB, HIDDEN, HEADS, KV, HEAD, FFN, LAYERS, CONTEXT = 64, 32, 2, 1, 16, 16, 2, 64
TOKENS = [5, 9, 33, 2, 17, 60, 8]
PREFILL = 4


class Graph:
    """Nodes and weights, with the weights' names as given."""

    def __init__(self, seed, dtype=np.float32):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.count, self.dtype = [], [], 0, dtype

    def add(self, op, inputs, output=None, domain="", **attributes):
        self.count += 1
        outputs = output if isinstance(output, list) else [output or f"t{self.count}"]
        self.nodes.append(h.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def put(self, name, array):
        self.weights.append(nh.from_array(np.ascontiguousarray(array), name))
        return name

    def matrix(self, name, rows, columns):
        return self.put(name, (self.random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(self.dtype))

    def ones(self, name, size):
        return self.put(name, (1 + 0.1 * self.random.standard_normal(size)).astype(self.dtype))

    def ints(self, name, values):
        if not any(w.name == name for w in self.weights):
            self.put(name, np.array(values, dtype=np.int64))
        return name


def info(name, kind, shape):
    return h.make_tensor_value_info(name, kind, shape)


def norm(g, x, name, size=HIDDEN):
    """A norm of plain operations, as optimum writes it."""
    square = g.add("Mul", [x, x])
    mean = g.add("ReduceMean", [square], axes=[-1], keepdims=1)
    shifted = g.add("Add", [mean, g.put(f"{name}.eps", np.array(1e-5, dtype=g.dtype))])
    root = g.add("Sqrt", [shifted])
    return g.add("Mul", [g.add("Div", [x, root]), g.ones(name, size)])


def attention(g, q, k, v, past_k, past_v, present_k, present_v, bias):
    """Attention of plain operations over a cache that grows."""
    def heads(x, count):
        shaped = g.add("Reshape", [x, g.ints(f"shape{count}", [1, -1, count, HEAD])])
        return g.add("Transpose", [shaped], perm=[0, 2, 1, 3])
    q, k, v = heads(q, HEADS), heads(k, KV), heads(v, KV)
    k = g.add("Concat", [past_k, k], present_k, axis=2) if past_k else g.add("Identity", [k], present_k)
    v = g.add("Concat", [past_v, v], present_v, axis=2) if past_v else g.add("Identity", [v], present_v)
    scores = g.add("MatMul", [q, g.add("Transpose", [k], perm=[0, 1, 3, 2])])
    scaled = g.add("Mul", [scores, g.put(f"scale{g.count}", np.array(HEAD**-0.5, dtype=g.dtype))])
    weights = g.add("Softmax", [g.add("Add", [scaled, bias])], axis=-1)
    mixed = g.add("Transpose", [g.add("MatMul", [weights, v])], perm=[0, 2, 1, 3])
    return g.add("Reshape", [mixed, g.ints("flat", [1, -1, HEADS * HEAD])])


def causal(g, ids, past):
    """What may not be seen, as a large negative number; positions come from the cache's length."""
    one = g.ints("one", [1])
    read = g.add("Slice", [g.add("Shape", [ids]), one, g.ints("two", [2])])
    if past:
        length = g.add("Slice", [g.add("Shape", [past]), g.ints("two", [2]), g.ints("three", [3])])
    else:
        length = g.ints("zero", [0])
    total = g.add("Add", [read, length])
    zero = g.put(f"zero.scalar{g.count}", np.array(0, dtype=np.int64))
    step = g.put(f"one.scalar{g.count}", np.array(1, dtype=np.int64))
    def scalar(x):
        return g.add("Squeeze", [x])
    columns = g.add("Range", [zero, scalar(total), step])
    rows = g.add("Range", [scalar(length), scalar(total), step])
    rows = g.add("Unsqueeze", [rows, g.ints("axis1", [1])])
    later = g.add("Greater", [columns, rows])
    large = g.put(f"large{g.count}", np.array(-1e4, dtype=g.dtype))
    none = g.put(f"none{g.count}", np.array(0, dtype=g.dtype))
    return g.add("Where", [later, large, none])


def linear(g, x, name, rows, columns):
    return g.add("MatMul", [x, g.matrix(name, rows, columns)])


def linear_integer(g, x, name, rows, columns):
    """Dynamic quantisation, as optimum's quantiser writes it with `reduce_range`.

    Weights of 7 bits: where a CPU has no VNNI, ONNX Runtime adds two products of bytes in 16 bits,
    and 255 times 127 twice does not fit. What is cut off there is computed right elsewhere.
    """
    w = (g.random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
    scale = np.abs(w).max() / 63
    g.put(name, np.round(w / scale).astype(np.int8))
    g.put(f"{name}.scale", np.array(scale, dtype=np.float32))
    out = [f"{name}.x", f"{name}.xs", f"{name}.xz"]
    g.add("DynamicQuantizeLinear", [x], out)
    product = g.add("Cast", [g.add("MatMulInteger", [out[0], name, out[2]])], to=T.FLOAT)
    return g.add("Mul", [product, g.add("Mul", [out[1], f"{name}.scale"])])


def linear_blocks(bits):
    def write(g, x, name, rows, columns):
        w = (g.random.standard_normal((columns, rows)) / np.sqrt(rows)).astype(np.float32)
        blocks = np.zeros((columns, -(-rows // 32), 32), dtype=np.float32)
        blocks.reshape(columns, -1)[:, :rows] = w
        limit = 127 if bits == 8 else 7
        scales = np.abs(blocks).max(-1) / limit
        q = (np.round(blocks / np.maximum(scales, 1e-9)[..., None]) + (128 if bits == 8 else 8)).astype(np.uint8)
        if bits == 4:
            q = q[..., ::2] | q[..., 1::2] << 4
        g.put(name, q)
        g.put(f"{name}.scales", scales.astype(np.float32))
        return g.add("MatMulNBits", [x, name, f"{name}.scales"], domain="com.microsoft",
                     bits=bits, block_size=32, K=rows, N=columns, accuracy_level=4)
    return write


def layers(g, x, attend, write=linear):
    for i in range(LAYERS):
        y = norm(g, x, f"n1.{i}")
        q, k, v = (write(g, y, f"{n}.{i}", HIDDEN, s) for n, s in
                   (("q", HEADS * HEAD), ("k", KV * HEAD), ("v", KV * HEAD)))
        x = g.add("Add", [x, write(g, attend(i, q, k, v), f"o.{i}", HEADS * HEAD, HIDDEN)])
        y = norm(g, x, f"n2.{i}")
        gate = write(g, y, f"gate.{i}", HIDDEN, FFN)
        gate = g.add("Mul", [gate, g.add("Sigmoid", [gate])])
        up = g.add("Mul", [gate, write(g, y, f"up.{i}", HIDDEN, FFN)])
        x = g.add("Add", [x, write(g, up, f"down.{i}", FFN, HIDDEN)])
    return norm(g, x, "final")


def caches(kind, past="past_key_values.{}.{}", present="present.{}.{}", named=False):
    heads, head = ("kv_heads", "kv_cache_dim") if named else (KV, HEAD)
    names = [(past.format(i, k), present.format(i, k)) for i in range(LAYERS) for k in ("key", "value")]
    ins = [info(p, kind, [1, heads, "past", head]) for p, _ in names]
    outs = [info(p, kind, [1, heads, "total", head]) for _, p in names]
    return ins, outs


def model(g, ins, outs):
    graph = h.make_graph(g.nodes, "tiny", ins, outs, g.weights)
    opsets = [h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]
    return h.make_model(graph, opset_imports=opsets, ir_version=8)


def head_plain(g, x):
    return linear(g, x, "lm_head", HIDDEN, VOCAB), x


def growing(seed, positions=False, write=linear, head=head_plain, names=("past_key_values.{}.{}", "present.{}.{}"),
            ids="input_ids", logits="logits"):
    """Caches that grow, of plain operations."""
    g = Graph(seed)
    ins, outs = caches(T.FLOAT, *names)
    bias = causal(g, ids, names[0].format(0, "key"))
    x = g.add("Gather", [g.matrix("embed", VOCAB, HIDDEN), ids])
    extra = []
    if positions:
        x = g.add("Add", [x, g.add("Gather", [g.matrix("places", CONTEXT, HIDDEN), "position_ids"])])
        extra = [info("position_ids", T.INT64, [1, "read"])]
    def attend(i, q, k, v):
        past, present = names
        return attention(g, q, k, v, past.format(i, "key"), past.format(i, "value"),
                         present.format(i, "key"), present.format(i, "value"), bias)
    y, hidden = head(g, layers(g, x, attend, write))
    g.add("Identity", [y], logits)
    ins = [info(ids, T.INT64, [1, "read"]), info("attention_mask", T.INT64, [1, "total"])] + extra + ins
    return model(g, ins, [info(logits, T.FLOAT, [1, "read", VOCAB])] + outs), hidden


def windowed(built):
    """The same decoder with a sliding window: its caches hold the last three tokens only."""
    proto, hidden = built
    for out in [o.name for o in proto.graph.output if o.name.startswith("present.")]:
        for node in proto.graph.node:
            for names in (node.input, node.output):
                names[:] = [f"{n}.whole" if n == out else n for n in names]
        cut = ["window.start", "window.end", "window.axis"]
        proto.graph.node.append(h.make_node("Slice", [f"{out}.whole", *cut], [out]))
    for name, value in ("start", -3), ("end", 2**31), ("axis", 2):
        proto.graph.initializer.append(nh.from_array(np.array([value], np.int64), f"window.{name}"))
    return proto, hidden


def forgetful(built):
    """The same decoder, with no logits for the first tokens: as many as its caches hold."""
    proto, hidden = built
    last = next(n for n in proto.graph.node if "logits" in n.output)
    last.output[:] = ["logits.whole"]
    past = next(i.name for i in proto.graph.input if i.name.startswith("past"))
    add = lambda op, ins, out, **rest: proto.graph.node.append(h.make_node(op, ins, [out], **rest))
    add("Shape", [past], "forget.shape", start=2, end=3)
    for name, value in ("end", 2**31), ("axis", 1):
        proto.graph.initializer.append(nh.from_array(np.array([value], np.int64), f"forget.{name}"))
    add("Slice", ["logits.whole", "forget.shape", "forget.end", "forget.axis"], "logits")
    return proto, hidden


def in_place(seed, write=linear, dtype=np.float32, prune=False, tied=False, named=False):
    """Attention that writes where it reads, as onnxruntime-genai's builder makes it."""
    g = Graph(seed, dtype)
    kind = T.FLOAT16 if dtype == np.float16 else T.FLOAT
    ins, outs = caches(kind, named=named)
    g.ints("one", [1])
    summed = g.add("ReduceSum", ["attention_mask", "one"], keepdims=0)
    seqlens = g.add("Cast", [g.add("Sub", [summed, "one"])], to=T.INT32)
    length = g.add("Gather", [g.add("Shape", ["attention_mask"]), g.put("one.s", np.array(1, dtype=np.int64))])
    total = g.add("Cast", [length], to=T.INT32)
    angles = np.arange(CONTEXT)[:, None] * 10000.0 ** (-2 * np.arange(HEAD // 2) / HEAD)
    g.put("cos", np.cos(angles).astype(dtype)), g.put("sin", np.sin(angles).astype(dtype))
    x = g.add("Gather", [g.matrix("embed", VOCAB, HIDDEN), "input_ids"])
    def attend(i, q, k, v):
        past = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        return g.add("GroupQueryAttention", [q, k, v, *past, seqlens, total, "cos", "sin"],
                     [f"attn{i}", f"present.{i}.key", f"present.{i}.value"], domain="com.microsoft",
                     num_heads=HEADS, kv_num_heads=KV, do_rotary=1)
    hidden = layers(g, x, attend, write)
    if prune:
        hidden = g.add("Slice", [hidden, g.ints("minus", [-1]), g.ints("end", [2**31]), "one"])
    if tied:
        logits = g.add("MatMul", [hidden, g.add("Transpose", ["embed"], perm=[1, 0])])
    else:
        logits = write(g, hidden, "lm_head", HIDDEN, VOCAB)
    g.add("Identity", [logits], "logits")
    ins = [info("input_ids", T.INT64, [1, "read"]), info("attention_mask", T.INT64, [1, "total"])] + ins
    outs = [info("logits", kind, [1, 1 if prune else "read", VOCAB])] + outs
    if tied:
        # Two outputs of the hidden state's size: one is it, the other is the one before.
        outs += [info(hidden, kind, [1, "read", HIDDEN]),
                 info("attn1", kind, [1, "read", HIDDEN])]
    return model(g, ins, outs), hidden


def merged(seed):
    """Two decoders in one, behind an If: without a past, and with one."""
    def branch(past):
        g = Graph(seed)
        g.count = 0 if past else 1000
        bias = causal(g, "input_ids", "past_key_values.0.key" if past else None)
        x = g.add("Gather", [g.matrix("embed", VOCAB, HIDDEN), "input_ids"])
        side = "with" if past else "without"
        def attend(i, q, k, v):
            pasts = [f"past_key_values.{i}.{n}" if past else None for n in ("key", "value")]
            return attention(g, q, k, v, *pasts, f"{side}.{i}.key", f"{side}.{i}.value", bias)
        hidden = layers(g, x, attend)
        logits = linear(g, hidden, "lm_head", HIDDEN, VOCAB)
        outs = [info(logits, T.FLOAT, [1, "read", VOCAB])]
        outs += [info(f"{side}.{i}.{k}", T.FLOAT, [1, KV, "total", HEAD]) for i in range(LAYERS) for k in ("key", "value")]
        return g, h.make_graph(g.nodes, side, [], outs), hidden
    (a, with_past, hidden), (b, without, _) = branch(True), branch(False)
    shared = {w.name: w for w in a.weights + b.weights}
    ins, outs = caches(T.FLOAT)
    outs = [info("logits", T.FLOAT, [1, "read", VOCAB])] + outs
    node = h.make_node("If", ["use_cache_branch"], [o.name for o in outs], then_branch=with_past, else_branch=without)
    ins = [info("input_ids", T.INT64, [1, "read"]), info("attention_mask", T.INT64, [1, "total"]), *ins,
           info("use_cache_branch", T.BOOL, [1])]
    graph = h.make_graph([node], "tiny", ins, outs, list(shared.values()))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), hidden


def between(g, x):
    """Reshape and Cast between the hidden state and the head, Slice, Mul and Reshape behind it."""
    flat = g.add("Reshape", [x, g.ints("flat.hidden", [-1, HIDDEN])])
    y = g.add("Gemm", [flat, g.matrix("head.w", VOCAB + 8, HIDDEN), g.put("head.b", np.zeros(VOCAB + 8, np.float32))],
              transB=1)
    y = g.add("Slice", [y, g.ints("zero1", [0]), g.ints("vocab", [VOCAB]), g.ints("last", [1])])
    y = g.add("Mul", [y, g.put("softer", np.array(0.9, np.float32))])
    y = g.add("Cast", [g.add("Cast", [y], to=T.DOUBLE)], to=T.FLOAT)
    return g.add("Reshape", [y, g.ints("shape.logits", [1, -1, VOCAB])]), flat


def run(proto, hidden):
    """Logits and hidden states behind every token: some at once, the others one by one."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    node = proto.graph.node[-1] if proto.graph.node[-1].op_type == "If" else None
    name = hidden
    if node is not None:
        for attribute in node.attribute:
            inner = attribute.g
            last = next(n for n in inner.node if inner.output[0].name in n.output)
            inner.output.append(info(last.input[0], T.FLOAT, None))
        name = "hidden_states"
        node.output.append(name)
    if name not in [o.name for o in proto.graph.output]:
        proto.graph.output.append(onnx.ValueInfoProto(name=name))
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {i.name: i for i in session.get_inputs()}
    outputs = [o.name for o in session.get_outputs()]
    pasts = [n for n, i in inputs.items() if len(i.shape) == 4]
    half = inputs[pasts[0]].type == "tensor(float16)"
    state = {p: np.zeros((1, KV, 0, HEAD), np.float16 if half else np.float32) for p in pasts}
    logits_name = next(o for o in outputs if o in ("logits", "what comes out"))
    presents = [o.name for o in session.get_outputs() if len(o.shape) == 4]
    ids_name = next(n for n in inputs if n in ("input_ids", "what goes in"))
    rows, read = [], 0
    for tokens in [TOKENS[:PREFILL], *([t] for t in TOKENS[PREFILL:])]:
        feed = {ids_name: np.array([tokens], np.int64), **state}
        total = read + len(tokens)
        if "attention_mask" in inputs:
            feed["attention_mask"] = np.ones((1, total), np.int64)
        if "position_ids" in inputs:
            feed["position_ids"] = np.arange(read, total)[None].astype(np.int64)
        if "use_cache_branch" in inputs:
            feed["use_cache_branch"] = np.array([read > 0])
        out = dict(zip(outputs, session.run(None, feed)))
        state = dict(zip(pasts, (out[p] for p in presents)))
        read = total
        rows.append({"read": read, "logits": out[logits_name].reshape(-1, VOCAB)[-1].astype(float).round(5).tolist(),
                     "hidden": out[name].reshape(-1, HIDDEN)[-1].astype(float).round(5).tolist()})
    return rows


def save(folder, name, built, external=False, quantised=False):
    proto, hidden = built
    place = folder / name
    # onnx appends to external data that is there.
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    rows = {"hidden": hidden} if quantised else {"steps": run(proto, hidden)}
    expected = {"tokens": TOKENS, "prefill": PREFILL, **rows}
    (place / "expected.json").write_text(json.dumps(expected) + "\n")
    if external:
        onnx.save(proto, place / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=256)
    else:
        onnx.save(proto, place / "model.onnx")


def tokenizer(folder):
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["<|im_end|>", "<|im_start|>", "Ġ", "Ċ", *letters, *"0123456789", *".,;:!?'-()/"]
    words += [f"<unused{i}>" for i in range(VOCAB - len(words))]
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in range(2)]
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
           "vocab": {w: i for i, w in enumerate(words)}, "merges": []}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
             "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": bpe}
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
                "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    (folder / "tokenizer.json").write_text(json.dumps(whole) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}, "add_bos_token": False}) + "\n")
    (folder / "chat_template.jinja").write_text(template)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0]}) + "\n")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": CONTEXT, "num_key_value_heads": KV, "head_dim": HEAD}) + "\n")


def graphs(folder):
    """Graphs without a cache: for finding the hidden state alone."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = [info("input_ids", T.INT64, [1, "read"])]
    def save_graph(name, build, outs=("logits",), kind=T.FLOAT):
        g = Graph(7)
        g.add("Gather", [g.matrix("embed", VOCAB, HIDDEN), "input_ids"], "embedded")
        build(g)
        onnx.save(model(g, ids, [info(o, kind, None) for o in outs]), folder / f"{name}.onnx")
    def two(g):
        a = g.add("Tanh", ["embedded"], "first state")
        b = g.add("Erf", ["embedded"], "second state")
        g.add("Add", [linear(g, a, "wa", HIDDEN, VOCAB), linear(g, b, "wb", HIDDEN, VOCAB)], "logits")
    def none(g):
        x = linear(g, "embedded", "w", HIDDEN, VOCAB)
        g.add("Softmax", [x], "logits")
    def computed(g):
        t = g.add("Transpose", ["embedded"], perm=[0, 2, 1])
        g.add("MatMul", ["embedded", t], "logits")
    def circle(g):
        x = linear(g, "embedded", "w", HIDDEN, VOCAB)
        g.add("Add", [x, "around"], "logits")
        g.add("Mul", ["logits", "logits"], "around")
    save_graph("two_heads", two)
    save_graph("no_head", none)
    save_graph("computed_head", computed)
    save_graph("cyclic", circle)


def main():
    models, folder = Path(sys.argv[1]), Path(sys.argv[2])
    models.mkdir(parents=True, exist_ok=True)
    tokenizer(models)
    odd = ("memory of {} {}", "new memory of {} {}")
    save(models, "growing", growing(1))
    save(models, "growing_positions", growing(2, positions=True))
    save(models, "growing_int8", growing(3, write=linear_integer,
         head=lambda g, x: (linear_integer(g, x, "lm_head", HIDDEN, VOCAB), x)), quantised=True)
    save(models, "awkward", growing(4, head=between, names=odd, ids="what goes in", logits="what comes out"))
    save(models, "merged", merged(5))
    save(models, "in_place", in_place(6))
    save(models, "in_place_fp16", in_place(7, dtype=np.float16))
    save(models, "in_place_int8", in_place(8, write=linear_blocks(8)), quantised=True)
    save(models, "in_place_int4", in_place(9, write=linear_blocks(4), named=True), quantised=True)
    save(models, "pruned", in_place(10, prune=True))
    save(models, "tied", in_place(11, tied=True))
    save(models, "external", in_place(12), external=True)
    # Models that cannot be used: only their errors are tested.
    for name, built in ("windowed", windowed(growing(13))), ("forgetful", forgetful(growing(14))):
        (models / name).mkdir(exist_ok=True)
        onnx.save(built[0], models / name / "model.onnx")
    graphs(folder)


main()
