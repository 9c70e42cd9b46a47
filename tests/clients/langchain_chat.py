"""LangChain's ChatOpenAI against `tandem serve`."""

import sys
from typing import Literal

import pydantic
from check import run
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

chat = ChatOpenAI(
    base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], model="tandem-small", temperature=0,
    max_tokens=24, max_retries=0,
)
QUESTION = [("system", "You are a helpful assistant."), ("user", "What is the capital of France?")]


def invoke():
    answer = chat.invoke(QUESTION)
    assert answer.content.strip(), answer
    assert answer.response_metadata["finish_reason"] in ("stop", "length")


def stream():
    chunks = list(chat.stream(QUESTION))
    assert len(chunks) > 2 and "".join(chunk.content for chunk in chunks).strip(), chunks


class Place(pydantic.BaseModel):
    """Where something is."""

    city: Literal["Paris", "Rome"]


@tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city"""
    return f"18 °C in {city}"


def structured_output():
    place = chat.model_copy(update={"max_tokens": 80}).with_structured_output(Place, method="json_schema")
    assert place.invoke(QUESTION).city in ("Paris", "Rome")


def tools():
    bound = chat.model_copy(update={"max_tokens": 80}).bind_tools([get_weather], tool_choice="any")
    question = HumanMessage("What is the weather in Rome?")
    answer = bound.invoke([question])
    call = answer.tool_calls[0]
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage) and "18 °C" in result.content, result
    after = chat.bind_tools([get_weather]).invoke([question, answer, result])
    assert after.content or after.tool_calls, after


run(invoke, stream, structured_output, tools)
