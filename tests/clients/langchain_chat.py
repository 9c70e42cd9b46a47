"""LangChain's ChatOpenAI against `tandem serve`."""

import sys

from check import run
from langchain_openai import ChatOpenAI

chat = ChatOpenAI(
    base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], model="tandem-small", temperature=0,
    max_tokens=24, max_retries=0,
)
QUESTION = [("system", "You are a helpful assistant."), ("user", "What is the capital of France?")]


def invoke():
    answer = chat.invoke(QUESTION)
    assert "Paris" in answer.content, answer
    assert answer.response_metadata["finish_reason"] == "stop"


def stream():
    whole = chat.invoke(QUESTION).content
    assert "".join(chunk.content for chunk in chat.stream(QUESTION)) == whole


run(invoke, stream)
