#!/usr/bin/env python3
"""Breaks the code in one place after another, and shows that the test of what is broken fails.

    scripts/mutations.py [--list] [WORD…]

Each break replaces a few words of a copy of this tree, and the test that claims the opposite is compiled and
run there. First the same tests must pass on the whole code: a test that fails anyway shows nothing. With
words, only the breaks whose file, test or claim has one of them are made. Ends with 1 if a test passes on
broken code, if broken code does not compile, or if what is to be replaced is not there exactly once: then
the code has changed, and the list below has to follow it.

The copy is kept beside other temporary files and what is built under target/mutations, so that a second run
is quick; CARGO_TARGET_DIR names another place for that. Tests named `serial::` need the models of `make models`.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Not below this tree, whose settings for cargo would be added to those of the copy.
TREE = Path(tempfile.gettempdir()) / f"tandem-mutations-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}"
# A loop that never ends is a failure too.
MOST_SECONDS = 600

# Words of `file` that are replaced, and the test of `target` (--lib, or the name of an integration test) that
# must then fail.
Break = namedtuple("Break", "claim file old new target test")

BREAKS = [
    Break(
        "words come only at boundaries",
        "crates/decode/src/boundary.rs",
        "(Letter, Letter) => false",
        "(Letter, Letter) => true",
        "properties",
        "words_come_only_at_boundaries",
    ),
    Break(
        "what the edge is said to have read is what it read",
        "crates/decode/src/transcript.rs",
        "totals.edge_prefilled = read;",
        "totals.edge_prefilled = new;",
        "edge_reading",
        "a_lost_cache_is_read_again_and_counted",
    ),
    Break(
        "a token that stands in for the cloud's is marked",
        "crates/decode/src/session.rs",
        "NewTokens { source: Source::Fallback, sent, ",
        "NewTokens { sent, ",
        "properties",
        "a_lost_cloud_is_survived_and_told",
    ),
    Break(
        "mode verify is lossless where ids are exchanged",
        "crates/decode/src/verify.rs",
        "if judged.greedy.id == Some(id) {",
        "if judged.greedy.id == Some(id) || id.index() % 7 == 3 {",
        "properties",
        "a_verified_draft_is_large",
    ),
    Break(
        "mode verify is lossless where text is exchanged",
        "crates/decode/src/verify.rs",
        "take_while(|judged| judged.agrees())",
        "take_while(|judged| judged.agrees() || judged.given.id.is_some())",
        "properties",
        "a_draft_verified_by_text_is_large",
    ),
    Break(
        "asks in flight change no token",
        "crates/decode/src/speculation.rs",
        "self.unread.extend_from_slice(&accepted[same..]);\n            self.cut();",
        "self.unread.extend_from_slice(&accepted[same..]);",
        "speculation",
        "the_tokens_are_those_of_the_loop_that_waits",
    ),
    Break(
        "the loop does go on while answers are on their way",
        "crates/decode/src/speculation.rs",
        "if self.ahead.limit == 0 || self.form.is_some() {",
        "if self.ahead.limit < 9 || self.form.is_some() {",
        "speculation",
        "it_does_go_on_in_both_exchanges",
    ),
    Break(
        "a text that is held to a form has it",
        "crates/decode/src/form.rs",
        "if constraint.allows(&tokens)? {\n            return Ok(Some(tokens));\n        }\n        let bytes",
        "if constraint.allows(&tokens).is_ok() {\n            return Ok(Some(tokens));\n        }\n        let bytes",
        "constraint",
        "every_text_has_the_form",
    ),
    Break(
        "a stop string is never shown",
        "crates/decode/src/stop.rs",
        "let certain = self.certain(&text);",
        "let certain = self.certain(&text).max(text.len());",
        "properties",
        "a_stop_string_is_never_shown",
    ),
    Break(
        "a budget keeps its share whatever the scores",
        "crates/decode/src/budget.rs",
        "(RATE * unspent).exp()",
        "(RATE * unspent * 0.0).exp()",
        "--lib",
        "the_share_comes_out_whatever_the_scores",
    ),
    Break(
        "a strict budget holds at every moment",
        "crates/decode/src/budget.rs",
        "if self.strict && self.is_spent() {",
        "if self.strict && self.share <= 0.0 {",
        "--lib",
        "a_strict_budget_is_never_passed_by_more_than_one_ask",
    ),
    Break(
        "a threshold of 1 asks whatever the score",
        "crates/decode/src/decision.rs",
        "if self == Self::ALWAYS || ",
        "if ",
        "--lib",
        "the_ends_hold_whatever_the_score",
    ),
    Break(
        "training finds a direction in 576 dimensions",
        "crates/lab/src/train/fit.rs",
        "Optimisers::new(&network, options.learning_rate)",
        "Optimisers::new(&network, options.learning_rate * 0.0)",
        "--lib",
        "a_direction_in_576_dimensions_is_found",
    ),
    Break(
        "an ask costs the client less than a millisecond",
        "crates/cloud/src/remote.rs",
        "let ask = OwnedAsk::new(ask, self.seen.take());\n        self.answer(&ask).await",
        "let ask = OwnedAsk::new(ask, self.seen.take());\n        sleep(Duration::from_millis(2)).await;\n"
        "        self.answer(&ask).await",
        "it",
        "an_ask_costs_the_client_less_than_a_millisecond",
    ),
    Break(
        "a redirect does not carry the key elsewhere",
        "crates/cloud/src/http.rs",
        "redirect::Policy::none()",
        "redirect::Policy::limited(5)",
        "it",
        "a_redirect_is_not_followed_and_the_key_stays_here",
    ),
    Break(
        "a session of the cloud refuses another prefix",
        "crates/cloud/src/service/conversation.rs",
        'conflict("the position is not here"))? != prefix.hash {',
        'conflict("the position is not here"))? < String::new() {',
        "it",
        "every_sequence_of_calls_does_what_is_promised",
    ),
    Break(
        "the operator's largest share overrules a request",
        "crates/tandem/src/router/registry.rs",
        "Some(limit) => policy.limited(limit),",
        "Some(_) => policy,",
        "--lib",
        "the_operators_limit_holds_whatever_a_request_asks_for",
    ),
    Break(
        "a largest share refuses the modes that keep to none",
        "crates/tandem/src/router/registry.rs",
        "mode.heeds_share() || ",
        "mode.heeds_share() || self.limit.is_some() || ",
        "seats",
        "a_largest_share_refuses_texts_that_keep_to_none",
    ),
    Break(
        "a second turn reads only what is new",
        "crates/engine/src/sequence.rs",
        "self.truncate(common_prefix(&self.tokens, context));",
        "self.truncate(common_prefix(&self.tokens, context).min(0));",
        "server:it",
        "a_second_turn_reads_only_what_is_new",
    ),
    Break(
        "the edge reads a routed word once",
        "crates/decode/src/speculation.rs",
        "self.unread.extend_from_slice(&accepted[same..]);",
        "self.unread.extend_from_slice(&accepted[same..]);\n            self.unread.extend(accepted.last());",
        "server:it",
        "the_edge_reads_a_routed_word_once",
    ),
    Break(
        "the way to a cloud in this process is the shorter one",
        "crates/cloud/src/transport.rs",
        "within(limit, service.next(id, next)).await",
        "tokio::time::sleep(Duration::from_millis(2)).await;\n"
        "                within(limit, service.next(id, next)).await",
        "server:it",
        "the_way_to_a_cloud_in_process_is_the_shorter_one",
    ),
    Break(
        "one key is not told what another asked",
        "crates/tandem/src/pool.rs",
        "if lease.seat.owner != owner {",
        "if lease.seat.owner != owner && lease.seat.used == u64::MAX {",
        "server:it",
        "one_key_is_not_told_what_another_asked",
    ),
    Break(
        "an empty key is no key",
        "crates/server/src/http/access.rs",
        '"" => Err(EmptyKey),',
        '"" if key.len() > 9 => Err(EmptyKey),',
        "--lib",
        "a_key_is_never_empty",
    ),
    Break(
        "a wrong key opens nothing",
        "crates/server/src/http/access.rs",
        "access.keys.is_empty() || access.keys.admit(request.headers())",
        "access.keys.is_empty() || request.headers().contains_key(header::AUTHORIZATION)",
        "it",
        "access::keys",
    ),
    Break(
        "what arrives damaged is fetched again",
        "crates/models/src/partial.rs",
        "bytes != expected.bytes || hash != expected.sha256",
        "bytes != expected.bytes || hash.len() != expected.sha256.len()",
        "cli:it",
        "a_part_that_arrives_damaged_is_named_and_fetched_again",
    ),
    Break(
        "one connection to the cloud is kept warm",
        "crates/cloud/src/http.rs",
        "self.client.request(method, url)",
        "Client::new().request(method, url)",
        "cli:it",
        "a_real_network_with_delay",
    ),
]


def binary(wanted):
    """The package and the test binary of a break: those of the broken crate, unless it names others."""
    package, _, target = wanted.target.rpartition(":")
    return f"tandem-{package or Path(wanted.file).parts[1]}".replace("tandem-tandem", "tandem"), target


def git(*arguments, folder=ROOT):
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def copy_tree():
    """Brings the copy to what this tree is, with what is not committed yet of the files that git knows."""
    commit = git("stash", "create") or git("rev-parse", "HEAD")
    if TREE.exists():
        restore()
        git("checkout", "--quiet", "--detach", commit, folder=TREE)
    else:
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", TREE, commit)


def restore():
    """Undoes a break. Files that it did not touch stay as old as they are: they are not compiled again."""
    git("checkout", "--quiet", "--", ".", folder=TREE)
    git("clean", "--quiet", "--force", "-d", folder=TREE)


def cargo(package, target, *arguments, limit=None):
    """Runs `cargo test`; returns its status, `None` where it took too long, and what it printed."""
    target = [target] if target == "--lib" else ["--test", target]
    command = ["cargo", "test", "--release", "--package", package, *target, *arguments]
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    environment.setdefault("CARGO_TARGET_DIR", str(ROOT / "target/mutations/build"))
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=TREE, env=environment, start_new_session=True, **output) as running:
        try:
            out, errors = running.communicate(timeout=limit)
            return running.returncode, out, errors
        except subprocess.TimeoutExpired:
            # The tests' own servers are children of it.
            os.killpg(running.pid, 9)
            out, errors = running.communicate()
            return None, out, errors


def outcome(out, test):
    """`ok` or `FAILED`, by the lines of Rust's harness; `None` where the test did not run."""
    found = re.findall(rf"^test (?:\S+::)?{test} \.\.\. (ok|FAILED)$", out, re.M)
    return found[0] if len(found) == 1 else None


def reason(out):
    """The first words of a panic, on one line."""
    found = re.search(r"panicked at ([^\n]*):\d+:\n(.*?)(?:\n\n|\nnote:|$)", out, re.S)
    words = " ".join(found.group(2).split()) if found else "without a word"
    where = found.group(1).rpartition("/")[2] + ": " if found else ""
    return where + (words if len(words) <= 110 else words[:107] + "…")


def check_whole(chosen):
    """The breaks whose tests pass on the whole code."""
    good = []
    for name in dict.fromkeys(map(binary, chosen)):
        breaks = [one for one in chosen if binary(one) == name]
        tests = sorted({one.test for one in breaks})
        print(f"unbroken: {' '.join(name)}: {', '.join(tests)}", flush=True)
        _, out, errors = cargo(*name, "--", "--test-threads=1", *tests)
        for one in breaks:
            if outcome(out, one.test) == "ok":
                good.append(one)
            else:
                print(f"{out[-2000:]}{errors[-2000:]}\n{one.test} does not pass on the whole code", file=sys.stderr)
    return good


def try_break(wanted):
    """What becomes of the test where the code is broken: whether that is well, and the words for it."""
    path = TREE / wanted.file
    text = path.read_text(encoding="utf-8")
    if text.count(wanted.old) != 1:
        return False, f"{wanted.file} has {text.count(wanted.old)} times {wanted.old!r}: mend the list"
    path.write_text(text.replace(wanted.old, wanted.new), encoding="utf-8")
    name = binary(wanted)
    status, _, errors = cargo(*name, "--no-run")
    if status != 0:
        return False, f"THE BROKEN CODE DOES NOT COMPILE: {errors[-600:]}"
    status, out, _ = cargo(*name, "--", wanted.test, limit=MOST_SECONDS)
    match outcome(out, wanted.test):
        case "FAILED":
            return True, f"fails as it should: {reason(out)}"
        case "ok":
            return False, "PASSES ON BROKEN CODE"
        case _ if status is None:
            return True, f"fails as it should: not done after {MOST_SECONDS} s"
        case _:
            return False, f"DID NOT RUN: {out[-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true", help="only print the breaks")
    parser.add_argument("words", nargs="*", metavar="WORD")
    given = parser.parse_args()
    text = lambda one: f"{one.claim} {one.file} {' '.join(binary(one))} {one.test}"
    chosen = [one for one in BREAKS if not given.words or any(word in text(one) for word in given.words)]
    if not chosen:
        sys.exit(f"no break has any of these words: {' '.join(given.words)}")
    if given.list:
        for one in chosen:
            print(f"{one.claim}\n    {one.file}: {one.old!r} -> {one.new!r}\n    {' '.join(binary(one))} {one.test}")
        return
    copy_tree()
    good = check_whole(chosen)
    shown = len(good)
    for one in good:
        started = time.monotonic()
        try:
            well, words = try_break(one)
        finally:
            restore()
        shown -= not well
        print(f"{time.monotonic() - started:5.0f} s  {one.claim}\n         {one.test} {words}", flush=True)
    print(f"{shown} of {len(chosen)} tests fail where the code is broken")
    sys.exit(shown != len(chosen))


if __name__ == "__main__":
    main()
