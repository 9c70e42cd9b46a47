"""Counts the right tools and valid arguments: `measure.py URL [PROMPTS]`, against `tandem serve`.

Sixty prompts with three tools each, in the modes small, joint and large. A call is valid if its arguments
fit the schema of its tool, and right if the tool is the one that the prompt asks for.
"""

import json
import sys
import urllib.request

import jsonschema

url = sys.argv[1]
most = int(sys.argv[2]) if len(sys.argv) > 2 else 60


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
step = max(1, len(CASES) // most)
for mode in ("small", "joint", "large"):
    made = valid = right = 0
    cases = CASES[::step][:most]
    for prompt, expected, offered in cases:
        body = {
            "model": f"tandem-{mode}", "messages": [{"role": "user", "content": prompt}], "temperature": 0,
            "tools": [TOOLS[name] for name in offered], "tool_choice": "required",
            "parallel_tool_calls": False, "max_tokens": 200,
        }
        request = urllib.request.Request(
            url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        choice = json.load(urllib.request.urlopen(request, timeout=600))["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        for call in calls[:1]:
            made += 1
            function = call["function"]
            try:
                schema = TOOLS[function["name"]]["function"]["parameters"]
                jsonschema.validate(json.loads(function["arguments"]), schema)
                valid += 1
            except (ValueError, jsonschema.ValidationError) as error:
                print(f"{mode}: {prompt!r}: {choice['finish_reason']} {function}: {error}")
            right += function["name"] == expected
    print(f"{mode}: {len(cases)} prompts, {made} calls, {valid} valid, {right} right", flush=True)
