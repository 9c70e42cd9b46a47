"""The official `ollama` package for Python against `tandem serve`."""

import json
import sys

import ollama
from check import run

client = ollama.Client(host=sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
MODEL = "tandem-small"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
OPTIONS = {"temperature": 0, "num_predict": 24}


def get_weather(city: str) -> str:
    """The weather of a city

    Args:
      city: The city's name
    """
    return "18 °C"


def models():
    names = [model.model for model in client.list().models]
    assert "tandem-joint:latest" in names, names
    assert "tools" in client.show(MODEL).capabilities
    assert client.ps().models


def chat():
    answer = client.chat(model=MODEL, messages=QUESTION, options=OPTIONS)
    assert answer.message.content.strip() and answer.done, answer
    assert answer.eval_count > 0 and answer.done_reason in ("stop", "length")


def streaming():
    parts = list(client.chat(model=MODEL, messages=QUESTION, options=OPTIONS, stream=True))
    assert "".join(part.message.content for part in parts).strip()
    assert parts[-1].done and not parts[0].done


def generate():
    answer = client.generate(model=MODEL, prompt="What is the capital of France?", options=OPTIONS)
    assert answer.response.strip(), answer


def a_schema():
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
              "additionalProperties": False}
    answer = client.chat(model=MODEL, messages=QUESTION, format=schema, options={"num_predict": 60})
    assert json.loads(answer.message.content)["city"] in ("Paris", "Rome"), answer


def tools():
    answer = client.chat(model=MODEL, messages=QUESTION, tools=[get_weather], options=OPTIONS)
    assert answer.done, answer
    history = QUESTION + [
        {"role": "assistant", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "18 °C"},
    ]
    assert client.chat(model=MODEL, messages=history, tools=[get_weather], options=OPTIONS).done


def errors_are_their_exceptions():
    try:
        client.chat(model="llama3", messages=QUESTION)
    except ollama.ResponseError as error:
        assert error.status_code == 404 and "llama3" in error.error, error
    else:
        raise AssertionError("an unknown model was taken")


run(models, chat, streaming, generate, a_schema, tools, errors_are_their_exceptions)
