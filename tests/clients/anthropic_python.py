"""The official `anthropic` package for Python against `tandem serve`."""

import sys

import anthropic
from check import run

client = anthropic.Anthropic(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
SETTINGS = {
    "model": "tandem-small",
    "max_tokens": 24,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
    },
}
CALL = {**SETTINGS, "max_tokens": 80, "tools": [TOOL], "tool_choice": {"type": "tool", "name": "get_weather"}}


def message():
    answer = client.messages.create(system="Be brief.", **SETTINGS)
    assert answer.content[0].type == "text" and answer.content[0].text.strip(), answer
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.usage.output_tokens > 0


def streaming():
    with client.messages.stream(**SETTINGS) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text.strip() and final.content[0].text == text
    assert final.usage.output_tokens > 0 and final.stop_reason in ("end_turn", "max_tokens")


def tools():
    answer = client.messages.create(**CALL)
    call = answer.content[0]
    assert answer.stop_reason == "tool_use" and call.name == "get_weather", answer
    assert call.input["city"] in ("Paris", "Rome"), call
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "18 °C"}
    history = SETTINGS["messages"] + [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result]},
    ]
    after = client.messages.create(**{**SETTINGS, "messages": history}, tools=[TOOL])
    assert after.content, after


def streamed_tools():
    with client.messages.stream(**CALL) as stream:
        call = stream.get_final_message().content[0]
    assert call.type == "tool_use" and call.input["city"] in ("Paris", "Rome"), call


def counting():
    counted = client.messages.count_tokens(model="tandem-small", messages=SETTINGS["messages"])
    assert counted.input_tokens > 5


def errors_are_their_exceptions():
    for kind, request in [
        (anthropic.NotFoundError, {"model": "claude-4"}),
        (anthropic.BadRequestError, {"extra_body": {"temperature": 9}}),
    ]:
        try:
            client.messages.create(**{**SETTINGS, **request})
        except kind as error:
            assert error.body["type"] == "error", error.body
        else:
            raise AssertionError(f"{request} was taken")
    wrong = anthropic.Anthropic(base_url=sys.argv[1], api_key="wrong", max_retries=0)
    try:
        wrong.messages.create(**SETTINGS)
    except anthropic.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong key was taken")


run(message, streaming, tools, streamed_tools, counting, errors_are_their_exceptions)
