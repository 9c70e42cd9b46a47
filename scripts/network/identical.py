#!/usr/bin/env python3
"""Whether texts are the same with asks on their way as with a loop that waits, on real models.

    scripts/network/identical.py PROGRAM PROMPTS COUNT --simulate-rtt 170ms [options of `tandem serve`]

PROMPTS has a JSON object with "prompt" on each line. The server is started twice with the same options, once
with --asks-in-flight 0 and once without; every prompt is answered greedily by both. Without --simulate-rtt a cloud
in the same process is waited for in any case, and this would compare two waiting loops: so it wants that option, or
--cloud URL. With --judge-asks the second server also has several places judged with one request.

Prints how many texts are the same, and for each that is not, where it parts: the two loops read the same tokens in
other groups, so a near-tie may be decided by the last bits of a sum.
"""

import json
import subprocess
import sys
import time
import urllib.request


def answer(port, prompt):
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": 64,
        "tandem": {"trace": True},
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        said = json.load(reply)
    return said["choices"][0]["message"]["content"], said["tandem"]


def answers(program, options, prompts, port):
    command = [program, "serve", "--listen", f"127.0.0.1:{port}", *options]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        return [answer(port, prompt) for prompt in prompts]
    finally:
        server.terminate()
        server.wait()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, path, count, *options = sys.argv[1:]
    if not any(option.split("=")[0] in ("--simulate-rtt", "--cloud") for option in options):
        sys.exit("without --simulate-rtt or --cloud both servers wait for every answer: give one of them")
    with open(path) as lines:
        prompts = [json.loads(line)["prompt"] for line in lines][: int(count)]
    waiting = answers(program, [*options, "--asks-in-flight", "0"], prompts, 18471)
    going_on = answers(program, options, prompts, 18472)
    same = 0
    total = {}
    for prompt, (one, _), (other, told) in zip(prompts, waiting, going_on):
        for name in ("asks", "confirmed_asks", "judged_asks", "contradicted_asks", "void_asks", "fallbacks"):
            total[name] = total.get(name, 0) + told["stats"][name]
        if one == other:
            same += 1
            continue
        at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        print(f"{prompt[:60]!r} parts after {one[max(0, at - 30):at]!r}: {one[at:at + 20]!r} or {other[at:at + 20]!r}")
    print(f"{same} of {len(prompts)} texts are the same; {total}")


main()
