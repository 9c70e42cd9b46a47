"""Counts answers that fit their schema: `measure.py URL ANSWERS [MODE]`, against `tandem serve`."""

import json
import sys
import time
import urllib.request

import jsonschema
from schemas import SCHEMAS

url, count = sys.argv[1], int(sys.argv[2])
mode = sys.argv[3] if len(sys.argv) > 3 else "joint"
totals = {"valid": 0, "tokens": 0, "forced": 0, "replaced": 0, "cloud": 0, "asks": 0, "fallbacks": 0}
started = time.time()
for i in range(count):
    question, schema = SCHEMAS[i % len(SCHEMAS)]
    body = {
        "messages": [{"role": "user", "content": question}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "max_tokens": 600, "temperature": 0.7 if i >= len(SCHEMAS) else 0, "seed": i,
        "tandem": {"mode": mode, "trace": True},
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=600))
    except urllib.error.HTTPError as error:
        print(f"{i}: {error.code} {error.read().decode()[:300]}")
        continue
    text, tandem = answer["choices"][0]["message"]["content"], answer["tandem"]
    try:
        jsonschema.validate(json.loads(text), schema)
        totals["valid"] += 1
    except (ValueError, jsonschema.ValidationError) as error:
        print(f"{i}: {answer['choices'][0]['finish_reason']} {text!r}: {str(error).splitlines()[0]}")
    marks = [token.get("constrained") for token in tandem["trace"]]
    totals["tokens"] += len(marks)
    totals["forced"] += marks.count("forced")
    totals["replaced"] += marks.count("replaced")
    totals["cloud"] += tandem["stats"]["cloud_tokens"]
    totals["asks"] += tandem["stats"]["asks"]
    totals["fallbacks"] += tandem["stats"]["fallbacks"]
print(f"{totals['valid']} of {count} valid in {time.time() - started:.0f} s: {json.dumps(totals)}")
sys.exit(0 if totals["valid"] == count else 1)
