"""Counts answers that fit their schema, against running servers: `measure.py [OPTION ...] URL ...`.

Exits 1 if one does not, or if nothing was tried.
"""

import argparse
import collections
import json
import sys
import time

import jsonschema
from asking import Refused, ask, with_all
from schemas import DIFFICULTIES, SCHEMAS

options = argparse.ArgumentParser(description="Counts answers that fit their schema.")
options.add_argument("urls", nargs="+", metavar="URL", help="one answer at a time is asked of each server")
options.add_argument("--count", type=int, default=len(SCHEMAS), help="how many answers")
options.add_argument("--first", type=int, default=0, help="the number of the first: it chooses schema and seed")
options.add_argument("--mode", default="joint")
options.add_argument("--exchange", choices=["ids", "text"], help="what must have travelled to the cloud")
options.add_argument("--out", help="a file for every answer, one JSON object a line, behind what is in it")
options = options.parse_args()


def measure(url, number):
    """What one answer came to."""
    question, schema = SCHEMAS[number % len(SCHEMAS)]
    body = {
        "messages": [{"role": "user", "content": question}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        # Each schema once with the likeliest words, then with others.
        "max_tokens": 600, "temperature": 0.7 if number >= len(SCHEMAS) else 0, "seed": number,
        "tandem": {"mode": options.mode, "trace": True},
    }
    started = time.time()
    try:
        answer = ask(url, body)
    except Refused as error:
        return {"number": number, "problem": str(error)}
    choice, tandem = answer["choices"][0], answer["tandem"]
    text, stats = choice["message"]["content"], tandem["stats"]
    marks = collections.Counter(token.get("constrained") for token in tandem["trace"])
    return {
        "number": number, "seconds": round(time.time() - started, 1), "text": text,
        "problem": problem(text, schema), "end": choice["finish_reason"], "exchange": tandem["exchange"],
        "forced": marks["forced"], "closed": marks["closed"], "replaced": marks["replaced"],
        "tokens": stats["tokens"], "cloud": stats["cloud_tokens"], "asks": stats["asks"],
        "failed": stats["fallbacks"],
    }


def problem(text, schema):
    """Why a text does not fit, or None."""
    try:
        jsonschema.validate(json.loads(text), schema)
    except ValueError as error:
        return f"no JSON: {error}"
    except jsonschema.ValidationError as error:
        return str(error).splitlines()[0]
    return None


def measured(url, number):
    result = measure(url, number)
    if result["problem"] is not None:
        print(f"answer {number}, {result.get('end', 'refused')}: {result['problem']}: {result.get('text')!r}", flush=True)
    if options.out:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
    return result


def row(name, results):
    def total(key):
        return sum(result.get(key, 0) for result in results)

    valid = [result for result in results if result["problem"] is None]
    # Whole or not, an answer that ended at its limit is no end that the models found.
    at_limit = [result for result in results if result.get("end") == "length"]
    closed = [result for result in results if result.get("closed")]
    numbers = [
        len(results), len(valid), len(at_limit), len(closed), total("tokens"), total("cloud"), total("asks"),
        total("failed"), total("forced"), total("replaced"),
    ]
    return [name, *map(str, numbers)]


started = time.time()
results = with_all(options.urls, range(options.first, options.first + options.count), measured)
HEAD = [
    "schemas", "answers", "valid", "at their limit", "closed before it", "tokens", "from the cloud", "asks answered",
    "asks failed", "forced", "replaced",
]
rows = [HEAD]
for name, schemas in DIFFICULTIES.items():
    of_it = [result for result in results if SCHEMAS[result["number"] % len(SCHEMAS)] in schemas]
    if of_it:
        rows.append(row(name, of_it))
rows.append(row("all", results))
widths = [max(len(cells[i]) for cells in rows) for i in range(len(HEAD))]
for cells in rows:
    print("| " + " | ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(cells, widths))) + " |")
valid = sum(result["problem"] is None for result in results)
print(f"{valid} of {len(results)} valid in {time.time() - started:.0f} s", flush=True)
other = [result["number"] for result in results if options.exchange and result.get("exchange") not in (None, options.exchange)]
if other:
    print(f"{len(other)} answers exchanged something else than {options.exchange}: {other[:10]}")
if options.exchange and all(result.get("exchange") is None for result in results):
    print("the cloud was never asked")
    other = [None]
sys.exit(0 if results and valid == len(results) and not other else 1)
