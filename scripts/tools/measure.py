"""Counts the right tools and valid arguments, against running servers: `measure.py [OPTION ...] URL ...`.

Sixty prompts with three tools each, in the modes small, joint and large. A call is valid if its arguments
fit the schema of its tool, and right if the tool is the one that the prompt asks for. Exits 1 if a call is not
valid, or if joint is right less often than small.
"""

import argparse
import json
import sys
import time

import jsonschema
from asking import Refused, ask, with_all

options = argparse.ArgumentParser(description="Counts the right tools and valid arguments.")
options.add_argument("urls", nargs="+", metavar="URL", help="one answer at a time is asked of each server")
options.add_argument("--count", type=int, default=60, help="how many of the prompts")
options.add_argument("--choice", choices=["required", "auto"], default="required", help="`tool_choice`")
options.add_argument("--out", help="a file for every call, one JSON object a line, behind what is in it")
options = options.parse_args()


def tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT, WHOLE = {"type": "string", "maxLength": 60}, {"type": "integer", "minimum": 0, "maximum": 100000}
TOOLS = {
    "get_weather": tool("get_weather", "Get the weather of a city", city=TEXT),
    "convert_currency": tool("convert_currency", "Convert an amount of money", amount=WHOLE, to={"enum": ["EUR", "USD", "GBP"]}),
    "set_alarm": tool("set_alarm", "Set an alarm clock", hour={"type": "integer", "minimum": 0, "maximum": 23},
                      minute={"type": "integer", "minimum": 0, "maximum": 59}),
    "send_mail": tool("send_mail", "Send an e-mail", to=TEXT, subject=TEXT),
    "translate": tool("translate", "Translate a text into another language", text=TEXT, language=TEXT),
    "play_music": tool("play_music", "Play music of an artist", artist=TEXT),
}
PROMPTS = {
    "get_weather": ["What is the weather in {}?", "Will it rain in {} today?", "How warm is it in {} now?",
                    "Do I need an umbrella in {}?", "Is it sunny in {}?"],
    "convert_currency": ["How much is {} dollars in euros?", "Convert {} euros to dollars.", "What are {} pounds in dollars?",
                         "Change {} USD to GBP.", "I have {} euros: how many pounds is that?"],
    "set_alarm": ["Wake me at {}.", "Set an alarm for {}.", "I must get up at {}, set the clock.",
                  "Alarm at {}, please.", "Remind me with an alarm at {}."],
    "send_mail": ["Write an e-mail to {} about the meeting.", "Send {} a mail: the report is done.",
                  "Mail {} that I am late.", "E-mail {} about lunch.", "Send an e-mail to {} about holidays."],
    "translate": ["Translate '{}' into French.", "What is '{}' in Spanish?", "Say '{}' in German.",
                  "Translate '{}' to Italian.", "How do you say '{}' in Japanese?"],
    "play_music": ["Play something by {}.", "I want to hear {}.", "Put on some songs of {}.",
                   "Play music by {}.", "Can you play {} for me?"],
}
FILLERS = {
    "get_weather": ["Paris", "Oslo"], "convert_currency": ["50", "120"], "set_alarm": ["7:30", "6 in the morning"],
    "send_mail": ["Anna", "bob@example.com"], "translate": ["good morning", "thank you"], "play_music": ["Mozart", "The Beatles"],
}
names = list(TOOLS)
CASES = []
for i, name in enumerate(names):
    for prompt in PROMPTS[name]:
        for filler in FILLERS[name]:
            offered = [name, names[(i + 1) % len(names)], names[(i + 3) % len(names)]]
            offered.sort(key=lambda n: (len(prompt) * 7 + names.index(n) * 5) % 11)
            CASES.append((prompt.format(filler), name, offered))
assert len(CASES) == 60
step = max(1, len(CASES) // options.count)


def problem(function):
    """Why a call does not fit its tool, or None."""
    try:
        schema = TOOLS[function["name"]]["function"]["parameters"]
        jsonschema.validate(json.loads(function["arguments"]), schema)
    except KeyError:
        return f"no tool is called {function['name']!r}"
    except ValueError as error:
        return f"no JSON: {error}"
    except jsonschema.ValidationError as error:
        return str(error).splitlines()[0]
    return None


def measure(url, job):
    """What one prompt came to in one mode."""
    mode, (prompt, expected, offered) = job
    body = {
        "model": f"tandem-{mode}", "messages": [{"role": "user", "content": prompt}], "temperature": 0,
        "tools": [TOOLS[name] for name in offered], "tool_choice": options.choice,
        "parallel_tool_calls": False, "max_tokens": 200,
    }
    result = {"mode": mode, "choice": options.choice, "prompt": prompt, "expected": expected, "called": [], "problems": []}
    try:
        choice = ask(url, body)["choices"][0]
    except Refused as error:
        return {**result, "end": "refused", "problems": [str(error)]}
    functions = [call["function"] for call in choice["message"].get("tool_calls") or []]
    problems = [why for why in map(problem, functions) if why is not None]
    if options.choice == "required" and not functions:
        problems.append("no call")
    said = {"content": choice["message"]["content"]} if not functions else {}
    return {**result, "end": choice["finish_reason"], "called": functions, "problems": problems, **said}


def measured(url, job):
    result = measure(url, job)
    for why in result["problems"]:
        print(f"{result['mode']}: {result['prompt']!r}: {result['end']}, {why}: {result['called']}", flush=True)
    if options.out:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
    return result


started = time.time()
cases = CASES[::step][: options.count]
# One mode after the other: a server need not go to and fro between the caches of its modes.
modes = ("small", "joint", "large")
results = with_all(options.urls, [(mode, case) for mode in modes for case in cases], measured)
right, invalid = {}, 0
print(f"tool_choice {options.choice}, {len(cases)} prompts, {time.time() - started:.0f} s:")
for mode in modes:
    of_it = [result for result in results if result["mode"] == mode]
    called = [result for result in of_it if result["called"]]
    right[mode] = sum(result["called"][0]["name"] == result["expected"] for result in called)
    wrong = sum(bool(result["problems"]) for result in of_it)
    invalid += wrong
    print(f"{mode}: {len(called)} calls, {right[mode]} right, {wrong} invalid", flush=True)
if right["joint"] < right["small"]:
    print("joint is right less often than small")
sys.exit(1 if invalid or not results or right["joint"] < right["small"] else 0)
