"""aider against `tandem serve`: one edit of one file, with nobody to answer its questions."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check import run
from counted import requests_and_tokens

url, key = sys.argv[1:3]
ROUTE = "/v1/chat/completions"
MODEL = "openai/tandem-joint"
BEFORE = "def greeting(name):\n    return f'Hello, {name}!'\n"
# What aider would look up elsewhere: without it it asks GitHub for a list of models.
METADATA = {
    MODEL: {
        "max_input_tokens": 3072,
        "max_output_tokens": 256,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
    }
}


def aider(folder, settings, *flags):
    """What aider printed, in a folder that is its home too: it keeps histories and caches there."""
    (folder / "metadata.json").write_text(json.dumps(METADATA), "utf-8")
    # JSON is YAML.
    (folder / "settings.yml").write_text(json.dumps([{"name": MODEL, "edit_format": "whole", **settings}]), "utf-8")
    done = subprocess.run(
        [
            Path(sys.executable).with_name("aider"), "--model", MODEL, "--weak-model", MODEL,
            "--model-settings-file", "settings.yml", "--model-metadata-file", "metadata.json",
            "--no-git", "--yes-always", "--no-pretty", "--no-analytics", "--no-check-update",
            "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls", "--no-auto-lint",
            "--no-suggest-shell-commands", "--map-tokens", "0", *flags, "greeting.py",
        ],
        cwd=folder,
        env={
            **os.environ, "HOME": str(folder), "OPENAI_API_BASE": url + "/v1", "OPENAI_API_KEY": key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def edited(settings, *flags):
    """What aider printed, the answer it keeps in its history, the file afterwards, and what the server counted."""
    before = requests_and_tokens(url, key, ROUTE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "greeting.py").write_text(BEFORE, "utf-8")
        printed = aider(folder, settings, "--message", "Change the greeting to a more formal one.", *flags)
        history = (folder / ".aider.chat.history.md").read_text("utf-8")
        after = (folder / "greeting.py").read_text("utf-8")
    requests, tokens = (now - then for now, then in zip(requests_and_tokens(url, key, ROUTE), before))
    return printed, history, after, requests, tokens


def a_streamed_answer():
    """Free words of a very small model: they arrive, are counted, and end in an edit or in none."""
    printed, history, _, requests, tokens = edited({"extra_params": {"max_tokens": 200}})
    assert requests >= 1 and tokens > 10, printed
    assert re.search(r"Tokens: \S+ sent, \S+ received", printed), printed
    assert "Change the greeting" in history, history


def an_edit_in_a_form():
    """`tandem.grammar` holds any model to the listing that aider reads, so the edit is always one."""
    grammar = """
        start: "greeting.py\\n```\\ndef greeting(name):\\n    return f'Good " /[a-z]{2,12}/ ", {name}.'\\n```\\n"
    """
    body = {"tandem": {"grammar": grammar}}
    printed, _, after, requests, tokens = edited(
        {"extra_params": {"max_tokens": 200, "extra_body": body}}, "--no-stream"
    )
    assert "Applied edit to greeting.py" in printed, printed
    assert re.fullmatch(r"def greeting\(name\):\n    return f'Good [a-z]{2,12}, \{name\}\.'\n", after), after
    received = re.search(r"([\d.]+) received", printed)
    assert requests == 1 and int(received[1]) == tokens, (printed, tokens)


run(a_streamed_answer, an_edit_in_a_form)
