"""Decode speed through Tandem's engine beside a bare Python loop with I/O binding: same file, same
threads, in turn; medians of the ratios.

usage: bench.py TANDEM FOLDER [LENGTH…]   (FOLDER as `tandem onnx export` writes it)

With 128 and 2048 among the lengths, says how much a step grows between them.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

ROUNDS, TOKENS, SLICES = 5, 64, 4
THREADS = len(os.sched_getaffinity(0))
# What `tandem bench edge` reads before it decodes; which tokens they are does not matter to speed.
PROMPT = 45


class Loop:
    """The least a decode loop can do: caches bound once, in place. What they hold is any numbers: to
    the speed of a step behind them it does not matter."""

    def __init__(self, folder):
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = ort.InferenceSession(os.path.join(folder, "model.onnx"), options,
                                            providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.outputs = [o.name for o in self.session.get_outputs() if len(o.shape) == 3]
        any_numbers = np.random.default_rng(1)
        for value in self.session.get_inputs():
            if len(value.shape) == 4:
                _, heads, _, head = value.shape
                held = any_numbers.standard_normal((1, heads, 4096, head), np.float32)
                buffer = ort.OrtValue.ortvalue_from_numpy(held)
                self.binding.bind_ortvalue_input(value.name, buffer)
                present = value.name.replace("past_key_values", "present")
                self.binding.bind_ortvalue_output(present, buffer)

    def step(self, tokens, past):
        ids = np.array([tokens], np.int64)
        self.binding.bind_cpu_input("input_ids", ids)
        self.binding.bind_cpu_input("attention_mask", np.ones((1, past + len(tokens)), np.int64))
        for name in self.outputs:
            self.binding.bind_output(name)
        self.session.run_with_iobinding(self.binding)
        logits, hidden = self.binding.get_outputs()[-len(self.outputs):]
        hidden.numpy().sum()
        return int(logits.numpy()[0, -1].argmax())

    def decode(self, length):
        token = 1
        started = time.perf_counter()
        for past in range(length, length + TOKENS // SLICES):
            token = self.step([token], past)
        return time.perf_counter() - started


def tandem(program, folder, length):
    command = [program, "bench", "edge", "--json", "--runs", "1", "--tokens", str(TOKENS), "--behind", str(length),
               "--edge-model", folder, "--threads", str(THREADS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    program, folder = sys.argv[1:3]
    lengths = [int(n) for n in sys.argv[3:]] or [PROMPT, 128]
    loop = Loop(folder)
    loop.decode(PROMPT)
    speeds = {}
    for length in lengths:
        rows = []
        for _ in range(ROUNDS):
            bare = TOKENS / sum(loop.decode(length) for _ in range(SLICES))
            ours = tandem(program, folder, length)
            rows.append((bare, ours["hidden"], ours["loop"]))
        bare, engine, whole = (statistics.median(column) for column in zip(*rows))
        ratio = statistics.median(engine / bare for bare, engine, _ in rows)
        loop_ratio = statistics.median(whole / bare for bare, _, whole in rows)
        speeds[length] = (bare, engine)
        print(f"behind {length:5} tokens, {THREADS} threads: Python {bare:6.1f} tokens/s, engine {engine:6.1f} "
              f"({ratio:.3f}), whole joint loop {whole:6.1f} ({loop_ratio:.3f})", flush=True)
    if 128 in speeds and 2048 in speeds:
        slower = [speeds[128][i] / speeds[2048][i] for i in range(2)]
        print(f"from 128 to 2048 tokens a step takes {slower[0]:.3f} times as long in Python, {slower[1]:.3f} in the engine")


main()
