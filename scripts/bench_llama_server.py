"""Interleaves `tandem bench edge` with requests to llama-server and prints the medians.

The two never compute at the same time; an idle llama-server sleeps.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import urllib.request

import xllamacpp

ROUNDS = 5
TOKENS = 128
PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    "Write a long story about a lighthouse keeper, her dog and the sea.<|im_end|>\n"
    "<|im_start|>assistant\n"
)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_server(model, threads):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.port = free_port()
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params), params.port


def llama_server(port):
    """Tokens a second of one answer, by the server's own clock, in slices as `bench edge`."""
    body = {"prompt": PROMPT, "n_predict": TOKENS // 4, "temperature": 0, "cache_prompt": False,
            "ignore_eos": True}
    tokens = seconds = 0.0
    for _ in range(4):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(),
            {"content-type": "application/json"})
        timings = json.load(urllib.request.urlopen(request))["timings"]
        tokens += timings["predicted_n"]
        seconds += timings["predicted_ms"] / 1000
    return tokens / seconds


def tandem(program):
    out = subprocess.run([program, "bench", "edge", "--json", "--runs", "1", "--tokens", str(TOKENS)],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def main():
    program = sys.argv[1]
    listed = subprocess.run([program, "pull", "--list", "--json"], check=True, capture_output=True)
    models = json.loads(listed.stdout)["models"]
    model = next(m["path"] for m in models if m["name"] == "smollm2-135m-instruct")
    server, port = start_server(model, os.cpu_count())
    llama_server(port)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(llama_server(port))
        ours.append(tandem(program)["bare"])
    ratio = statistics.median(o / t for o, t in zip(ours, theirs))
    print(f"decode, {TOKENS} tokens, {os.cpu_count()} threads, median of {ROUNDS} rounds in turn")
    print(f"  llama-server   {statistics.median(theirs):6.1f} tokens/s (its own timings)")
    print(f"  bare engine    {statistics.median(ours):6.1f} tokens/s  {ratio:.3f} of llama-server")
    sys.stdout.flush()
    os._exit(0)


main()
