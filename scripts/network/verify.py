#!/usr/bin/env python3
"""Whether mode verify writes the large model's text, and at how many of its passes, on real models.

    scripts/network/verify.py PROGRAM PROMPTS COUNT [--judge URL] [options of `tandem serve`]

PROMPTS has a JSON object with "prompt" on each line. Every prompt is answered twice by one `tandem serve`, by the
large model alone and in mode verify, greedily. With --cloud URL the large model is there, whoever serves it;
otherwise a `tandem cloud` is started with the same pair and model.

Prints how many texts are equal, and the large model's passes a token: one for every draft that it judged, and with
`tandem cloud` one for every token that it wrote besides, where a draft led nowhere. Where a text differs, it prints
the place, and the gap in nats between the two tokens there, as the large model scores them: a judgement reads
several tokens at once, so the last bits of a sum may decide between two that are as good as equal. The score is
that of the `tandem cloud` which writes the texts, of the one named by --judge, or of one that is started for it.

Exits with 1 if a text differs by more than 0.1 nat, or if there are more than 0.40 passes a token.
"""

import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

MAX_TOKENS = 64
NEAR_TIE = 0.1
MOST_PASSES = 0.40

# Options of `tandem serve` that say which model the large one is.
OF_THE_MODEL = ("--pair", "--cloud-model", "--cloud-adapter", "--preset")


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def messages(prompt):
    return [{"role": "user", "content": prompt}]


class Server:
    """A command of the program that listens, until it is left."""

    def __init__(self, program, command, options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "{}:{}".format(*free.getsockname())
        self.url = f"http://{address}"
        self.process = subprocess.Popen(
            [program, command, "--listen", address, *options], stderr=subprocess.PIPE, text=True
        )

    def __enter__(self):
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"{' '.join(self.process.args)} ended: {self.process.stderr.read()}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
                # What it says from now on is nobody's, and must not fill the pipe.
                subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)
                return self
            except OSError:
                time.sleep(0.2)
        sys.exit(f"{' '.join(self.process.args)} does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def answer(server, model, prompt):
    body = {
        "model": model,
        "messages": messages(prompt),
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "tandem": {"trace": True},
    }
    said = post(f"{server}/v1/chat/completions", body)
    return said["choices"][0]["message"]["content"], said["tandem"]


def is_tandem_cloud(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as reply:
            return json.load(reply).get("service") == "tandem-cloud"
    except (OSError, ValueError):
        return False


def likelihood(judge, prompt, before, text):
    """The first token of this text behind what was written before, its log-probability, and the highest there."""
    # Another vocabulary than the cloud's: text is exchanged.
    opening = {"prompt": {"messages": messages(prompt)}, "vocabulary": "none"}
    session = f"{judge}/v1/sessions/{post(f'{judge}/v1/sessions', opening)['session']}"
    empty = hashlib.sha256(b"").hexdigest()[:16]
    score = {
        "position": 0,
        "hash": empty,
        "append": {"text": before},
        "continuation": {"text": text},
    }
    try:
        first = post(f"{session}/score", score)["tokens"][0]
        return first["text"], first["logprob"], first["greedy"]["logprob"]
    finally:
        urllib.request.urlopen(urllib.request.Request(session, method="DELETE"), timeout=10).close()


def parting(one, other):
    """Where two texts part, at the beginning of a word: tokens may be cut in other ways inside of it."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    while same > 0 and not one[same - 1 : same].isspace():
        same -= 1
    return max(0, same - 1)


def gap(judge, prompt, one, other):
    """How far apart the large model holds the two texts at the first token in which they differ; and these."""
    one_at = other_at = parting(one, other)
    while one[one_at:] and other[other_at:]:
        token, first, _ = likelihood(judge, prompt, one[:one_at], one[one_at:])
        another, second, _ = likelihood(judge, prompt, other[:other_at], other[other_at:])
        if token != another:
            return abs(first - second), token, another
        if not token:
            return float("inf"), one[one_at:][:20], other[other_at:][:20]
        one_at, other_at = one_at + len(token), other_at + len(token)
    # One of them ends where the other goes on: the end is what was likeliest, or nobody knows how likely it was.
    longer, at = max((one, one_at), (other, other_at), key=lambda text: len(text[0]))
    token, first, highest = likelihood(judge, prompt, longer[:at], longer[at:])
    nats = highest - first if highest > first else float("inf")
    return (nats, token, "its end") if longer is one else (nats, "its end", token)


def compare(server, prompts, judge_of, counts_written):
    equal, passes, tokens, worst = 0, 0, 0, 0.0
    exchanged = set()
    for number, prompt in enumerate(prompts, 1):
        large, _ = answer(server, "tandem-large", prompt)
        verified, told = answer(server, "tandem-verify", prompt)
        # An engine that judges by several contexts counts a token for each of them, written in the same pass.
        passes += told["stats"]["asks"] + (told["stats"]["cloud_decoded"] if counts_written else 0)
        tokens += told["stats"]["tokens"]
        exchanged.update(token["exchange"] for token in told["trace"] if "exchange" in token)
        # By text the two count tokens of their own: the longer text is cut at another place.
        shorter, longer = sorted((large, verified), key=len)
        if large == verified or ("text" in exchanged and longer.startswith(shorter)):
            equal += 1
            continue
        nats, one, other = gap(judge_of(), prompt, large, verified)
        worst = max(worst, nats)
        at = parting(large, verified)
        where = f"{number}. {prompt[:50]!r} parts after {large[max(0, at - 30) : at]!r}"
        print(f"{where}: large {one!r}, verify {other!r}, {nats:.3f} nat apart")
    rate = passes / max(tokens, 1)
    print(f"{equal} of {len(prompts)} texts are equal, the others at most {worst:.3f} nat apart")
    print(f"{rate:.3f} passes a token: {passes} for {tokens}, exchanged: {', '.join(sorted(exchanged)) or 'nothing'}")
    return worst <= NEAR_TIE and rate <= MOST_PASSES and tokens > 0


def take(options, name):
    """The value of an option; `None` where it is not given."""
    return options[options.index(name) + 1] if name in options else None


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, path, count, *options = sys.argv[1:]
    judge = take(options, "--judge")
    if judge:
        at = options.index("--judge")
        del options[at : at + 2]
    with open(path, encoding="utf-8") as lines:
        prompts = [json.loads(line)["prompt"] for line in lines][: int(count)]
    of_the_model = [part for name in OF_THE_MODEL if name in options for part in (name, take(options, name))]
    started = []

    def own_cloud():
        if not started:
            started.append(Server(program, "cloud", of_the_model).__enter__())
        return started[0].url

    cloud = take(options, "--cloud")
    if cloud is None:
        cloud = own_cloud()
        options += ["--cloud", cloud]

    def judge_of():
        return judge or (cloud if is_tandem_cloud(cloud) else own_cloud())

    try:
        with Server(program, "serve", options) as server:
            good = compare(server.url, prompts, judge_of, is_tandem_cloud(cloud))
    finally:
        for server in started:
            server.__exit__()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
