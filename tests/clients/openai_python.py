"""The official `openai` package for Python against `tandem serve`."""

import json
import sys
from typing import Literal

import openai
import pydantic
from check import agree_where_sure, run

url, key, model_wrong = sys.argv[1] + "/v1", sys.argv[2], "gpt-4o"
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
SETTINGS = {"temperature": 0, "max_tokens": 24, "model": "tandem-small"}
# The token of a comma in the small model's vocabulary.
COMMA = "28"
LIKELY = {"logprobs": True, "top_logprobs": 2}


def chat():
    answer = client.chat.completions.create(messages=QUESTION, **SETTINGS)
    assert answer.choices[0].message.content.strip(), answer
    ended = "length" if answer.usage.completion_tokens == 24 else "stop"
    assert answer.choices[0].finish_reason == ended
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.tandem["mode"] == "small", "what is ours comes along"


def joint_with_the_field_tandem():
    extra = {"tandem": {"threshold": 1, "trace": True}}
    settings = {**SETTINGS, "model": "tandem-joint"}
    answer = client.chat.completions.create(messages=QUESTION, extra_body=extra, **settings)
    sources = {token["source"] for token in answer.tandem["trace"]}
    assert "cloud" in sources, answer.tandem


def streaming():
    whole = client.chat.completions.create(messages=QUESTION, **LIKELY, **SETTINGS)
    stream = client.chat.completions.create(
        messages=QUESTION, stream=True, stream_options={"include_usage": True}, **LIKELY, **SETTINGS
    )
    parts, tokens, finish, usage = [], [], None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            parts.append(choice.delta.content or "")
            tokens += choice.logprobs.content if choice.logprobs else []
            finish = choice.finish_reason or finish
    assert "".join(parts) == "".join(token.token for token in tokens)
    if agree_where_sure(whole.choices[0].logprobs.content, tokens):
        assert "".join(parts) == whole.choices[0].message.content
        assert finish == whole.choices[0].finish_reason
        assert usage.completion_tokens == whole.usage.completion_tokens


def the_stream_helper():
    with client.chat.completions.stream(messages=QUESTION, **SETTINGS) as stream:
        parts = [event.delta for event in stream if event.type == "content.delta"]
        assert "".join(parts) == stream.get_final_completion().choices[0].message.content != ""


def stop_and_length():
    # Commas only, and for ever, on every CPU: a bias makes any other token impossible.
    def commas(**settings):
        wishes = {**SETTINGS, "logit_bias": {COMMA: 100}, **settings}
        return client.chat.completions.create(messages=QUESTION, **wishes).choices[0]

    short = commas(max_tokens=2)
    assert (short.finish_reason, short.message.content) == ("length", ",,")
    stopped = commas(max_tokens=8, stop=",,,")
    assert (stopped.finish_reason, stopped.message.content) == ("stop", "")


def several_choices_and_logprobs():
    answer = client.chat.completions.create(
        messages=QUESTION, n=2, logprobs=True, top_logprobs=2, **SETTINGS
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    told = answer.choices[0].logprobs.content
    assert "".join(t.token for t in told) == answer.choices[0].message.content
    assert all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in told)


def completions():
    answer = client.completions.create(prompt="The capital of France is", logprobs=1, **SETTINGS)
    assert answer.object == "text_completion" and answer.choices[0].text
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens


def models():
    names = [model.id for model in client.models.list()]
    assert names == ["tandem-joint", "tandem-small", "tandem-large", "tandem-verify"], names
    assert client.models.retrieve("tandem-small").id == "tandem-small"


def refused(kind, **request):
    try:
        client.chat.completions.create(**{"messages": QUESTION, **SETTINGS, **request})
    except kind as error:
        return error
    raise AssertionError(f"{request} was taken")


class City(pydantic.BaseModel):
    name: Literal["Paris", "Rome"]
    inhabitants: int = pydantic.Field(ge=0, le=99)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
        },
    },
}


def a_schema_from_a_class():
    settings = {**SETTINGS, "max_tokens": 80}
    answer = client.chat.completions.parse(messages=QUESTION, response_format=City, **settings)
    assert answer.choices[0].message.parsed.name in ("Paris", "Rome"), answer


def tools():
    settings = {**SETTINGS, "max_tokens": 80, "tools": [WEATHER], "tool_choice": "required"}
    answer = client.chat.completions.create(messages=QUESTION, **settings).choices[0]
    assert answer.finish_reason == "tool_calls", answer
    call = answer.message.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 °C"}
    history = QUESTION + [answer.message, result]
    after = client.chat.completions.create(messages=history, tools=[WEATHER], **SETTINGS)
    assert after.choices[0].finish_reason in ("stop", "length", "tool_calls")
    with client.chat.completions.stream(messages=QUESTION, **settings) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert json.loads(final.function.arguments)["city"] in ("Paris", "Rome")


def responses():
    settings = {"model": "tandem-small", "max_output_tokens": 24, "temperature": 0}
    answer = client.responses.create(input="What is the capital of France?", **settings)
    assert answer.output_text.strip() and answer.usage.output_tokens > 0, answer
    with client.responses.stream(input="What is the capital of France?", **settings) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text.strip()
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds, kinds
    tool = {"type": "function", **WEATHER["function"]}
    answer = client.responses.create(
        input="The weather in Rome?", tools=[tool], tool_choice="required", model="tandem-small"
    )
    assert json.loads(answer.output[0].arguments)["city"] in ("Paris", "Rome"), answer


def biases():
    answer = client.completions.create(prompt="One, two,", logit_bias={"28": 100}, **SETTINGS)
    assert len(set(answer.choices[0].text)) == 1, answer


def errors_are_their_exceptions():
    assert refused(openai.BadRequestError, temperature=9).param == "temperature"
    assert refused(openai.NotFoundError, model=model_wrong).code == "model_not_found"
    wrong = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
    try:
        wrong.models.list()
    except openai.AuthenticationError as error:
        assert error.code == "invalid_api_key"
    else:
        raise AssertionError("a wrong key was taken")


run(
    chat,
    joint_with_the_field_tandem,
    streaming,
    the_stream_helper,
    stop_and_length,
    several_choices_and_logprobs,
    completions,
    models,
    a_schema_from_a_class,
    tools,
    responses,
    biases,
    errors_are_their_exceptions,
)
