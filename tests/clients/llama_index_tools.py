"""LlamaIndex's OpenAILike against `tandem serve`: chats, tools, a form and an agent."""

import asyncio
import json
import sys
from typing import Literal

import pydantic
from check import run
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI
from llama_index.llms.openai_like import OpenAILike

SERVER = {"api_base": sys.argv[1] + "/v1", "api_key": sys.argv[2], "max_retries": 0}
CITIES = ("Paris", "Rome")


def model(name="tandem-small", **settings):
    return OpenAILike(
        **{
            "model": name,
            "is_chat_model": True,
            "is_function_calling_model": True,
            "context_window": 2048,
            "max_tokens": 80,
            "temperature": 0,
            **SERVER,
            **settings,
        }
    )


QUESTION = [
    ChatMessage(role=MessageRole.SYSTEM, content="You are a helpful assistant."),
    ChatMessage(role=MessageRole.USER, content="What is the capital of France?"),
]


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city"""
    assert city in CITIES, city
    return f"18 °C in {city}"


def get_time(city: Literal["Paris", "Rome"]) -> str:
    """The time of day in a city"""
    assert city in CITIES, city
    return f"noon in {city}"


TOOLS = [FunctionTool.from_defaults(get_weather), FunctionTool.from_defaults(get_time)]


def chat():
    answer = model().chat(QUESTION)
    assert answer.message.content.strip(), answer
    # Of its own counting: what LlamaIndex's token counters read.
    counts = answer.additional_kwargs
    assert counts["prompt_tokens"] > 10 and 0 < counts["completion_tokens"] <= 80, counts
    assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]


def a_stream():
    *_, last = parts = list(model().stream_chat(QUESTION))
    assert len(parts) > 2, parts
    assert "".join(part.delta for part in parts) == last.message.content != ""


def completions():
    plain = model(is_chat_model=False, is_function_calling_model=False, max_tokens=12)
    assert plain.complete("The capital of France is").text.strip()
    *_, last = plain.stream_complete("The capital of France is")
    assert last.text.strip(), last


def joint_with_the_field_tandem():
    extra = {"extra_body": {"tandem": {"threshold": 1}}}
    answer = model("tandem-joint", additional_kwargs=extra).chat(QUESTION)
    assert answer.raw.tandem["stats"]["cloud_tokens"] > 0, answer.raw.tandem


def call_of(answer, name):
    """The one call of an answer, with arguments that are strict JSON: LlamaIndex would mend others."""
    (call,) = answer.raw.choices[0].message.tool_calls
    assert call.function.name == name, call
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city"} and arguments["city"] in CITIES, arguments
    return call


def tools_and_their_results():
    llm = model()
    asked = "What is the weather in Rome?"
    answer = llm.chat_with_tools(TOOLS, user_msg=asked, tool_choice="get_weather")
    call = call_of(answer, "get_weather")
    (selected,) = llm.get_tool_calls_from_response(answer)
    assert selected.tool_kwargs == json.loads(call.function.arguments), selected
    result = ChatMessage(
        role=MessageRole.TOOL,
        content=get_weather(**selected.tool_kwargs),
        additional_kwargs={"tool_call_id": selected.tool_id, "name": selected.tool_name},
    )
    history = [ChatMessage(role=MessageRole.USER, content=asked), answer.message, result]
    after = llm.chat_with_tools(TOOLS, chat_history=history, tool_choice="none")
    assert after.message.content.strip(), after


def predict_and_call():
    done = model().predict_and_call(TOOLS, user_msg="What time is it in Paris?", tool_required=True)
    (output,) = done.sources
    assert not output.is_error and output.raw_output in {
        tool(city) for tool in (get_weather, get_time) for city in CITIES
    }, output


def streamed_tools():
    parts = model().stream_chat_with_tools(TOOLS, user_msg="The time in Rome?", tool_choice="get_time")
    *_, last = parts
    (selected,) = model().get_tool_calls_from_response(last)
    assert selected.tool_name == "get_time" and selected.tool_kwargs["city"] in CITIES, selected


class Place(pydantic.BaseModel):
    """Where something is."""

    city: Literal["Paris", "Rome"]
    inhabitants: int = pydantic.Field(ge=0, le=99_999_999)


def classes_as_schemas():
    prompt = PromptTemplate("Where is {sight}?")
    # As a tool that must be called, which is LlamaIndex's own choice, and as response_format.
    for structured in (False, True):
        llm = model(should_use_structured_outputs=structured)
        place = llm.structured_predict(Place, prompt, sight="the Eiffel Tower")
        assert place.city in CITIES, place


def an_agent():
    """An agent calls a tool, reads its result and answers, in streams."""
    agent = FunctionAgent(
        tools=TOOLS, llm=model(), system_prompt="You answer with tools.", initial_tool_choice="get_weather"
    )

    async def ask():
        handler = agent.run("What is the weather in Rome?")
        called = [e async for e in handler.stream_events() if isinstance(e, ToolCallResult)]
        return called, await handler

    called, answer = asyncio.run(ask())
    first = called[0]
    assert first.tool_name == "get_weather" and not first.tool_output.is_error, called
    assert first.tool_output.raw_output == get_weather(**first.tool_kwargs), first
    assert answer.response.content.strip(), answer


def the_class_openai_knows_only_openais_models():
    """Documented in docs/clients.md: it looks up the context's size by the model's name."""
    llm = OpenAI(model="tandem-small", max_tokens=12, **SERVER)
    try:
        llm.chat(QUESTION)
    except ValueError as error:
        assert "tandem-small" in str(error), error
    else:
        raise AssertionError("the class OpenAI takes other names now: docs/clients.md says that it does not")


run(
    chat,
    a_stream,
    completions,
    joint_with_the_field_tandem,
    tools_and_their_results,
    predict_and_call,
    streamed_tools,
    classes_as_schemas,
    an_agent,
    the_class_openai_knows_only_openais_models,
)
