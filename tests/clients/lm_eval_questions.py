"""lm-evaluation-harness against `tandem serve`: ten questions as chats, ten as completions."""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from check import run
from counted import requests_and_tokens

url, key = sys.argv[1:3]
TASK = Path(__file__).parent / "lm_eval"
COUNTRIES = [json.loads(line) for line in (TASK / "capitals.jsonl").read_text("utf-8").splitlines()]


def evaluate(task, kind, route, *flags, batch=1):
    """The samples and the score of ten questions that lm_eval asked, in a folder that is gone afterwards."""
    before = requests_and_tokens(url, key, route)
    settings = (
        f"model=tandem-joint,base_url={url}{route},num_concurrent=2,max_retries=1,"
        "tokenizer_backend=None,tokenized_requests=False"
    )
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("lm_eval"), "run", "--model", kind, "--model_args", settings,
                "--include_path", TASK, "--tasks", task, "--log_samples", "--output_path", out,
                "--batch_size", str(batch), *flags,
            ],
            # Nothing is fetched, and nothing is left in the caches of whoever runs this.
            env={**os.environ, "OPENAI_API_KEY": key, "HF_HOME": f"{out}/hf", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        (results,) = Path(out).rglob("results_*.json")
        (samples,) = Path(out).rglob("samples_*.jsonl")
        score = json.loads(results.read_text("utf-8"))["results"][task]
        samples = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    requests, tokens = (now - then for now, then in zip(requests_and_tokens(url, key, route), before))
    assert len(samples) == len(COUNTRIES) and requests == math.ceil(len(samples) / batch), (requests, samples)
    assert tokens >= len(samples), (tokens, samples)
    return samples, score["exact_match,first_capital"]


def holds(samples, score):
    """Every question has an answer, the score is that of the answers, and they answer the questions."""
    right = 0
    for sample in samples:
        ((answer,),) = sample["resps"]
        assert answer.strip(), sample
        named = re.search("|".join(country["capital"] for country in COUNTRIES), answer)
        right += bool(named) and named[0] == sample["doc"]["capital"]
    assert abs(score - right / len(samples)) < 1e-6, (score, right)
    # The small model knows these; the wrong template or lost questions would leave next to nothing right.
    assert right >= 6, [(sample["doc"], sample["resps"]) for sample in samples]
    print(f"     {right} of {len(samples)} right")


def chats():
    holds(*evaluate("tandem_chats", "local-chat-completions", "/v1/chat/completions", "--apply_chat_template"))


def completions():
    holds(*evaluate("tandem_completions", "local-completions", "/v1/completions"))


def completions_in_batches():
    """Lists of prompts in one request, whose answers are told apart by their index."""
    holds(*evaluate("tandem_completions", "local-completions", "/v1/completions", batch=4))


def post(route, body):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url + route, json.dumps(body).encode(), headers))


def likelihoods_of_prompts_are_refused_by_name():
    """What lm_eval sends for tasks of the types loglikelihood and multiple_choice."""
    body = {"model": "tandem-small", "prompt": "a", "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0}
    try:
        post("/v1/completions", body)
    except urllib.error.HTTPError as refused:
        error = json.load(refused)["error"]
        assert refused.code == 400 and error["param"] == "echo", error
    else:
        raise AssertionError("echo was taken")


run(chats, completions, completions_in_batches, likelihoods_of_prompts_are_refused_by_name)
