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
    assert answer.content.strip(), answer
    assert answer.response_metadata["finish_reason"] in ("stop", "length")


def stream():
    chunks = list(chat.stream(QUESTION))
    assert len(chunks) > 2 and "".join(chunk.content for chunk in chunks).strip(), chunks


run(invoke, stream)
