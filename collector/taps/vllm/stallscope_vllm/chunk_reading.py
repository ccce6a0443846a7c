"""Reads the few facts of an answer's chunk that are no content: id, usage, why it ended.

Quotes inside generated text are escaped in JSON, so a quoted key that is found here is a key and
not text of the model. vLLM writes its JSON without blanks, so keys are looked for as bytes: ten
times the speed of a pattern.
"""

from __future__ import annotations

import json
import re

from stallscope_vllm.request_facts import MOST_ID

PLAIN_ENDS = (b"}]}\n\n", b'}],"usage":null}\n\n')
"""How a chunk ends that has nothing behind its choices: such a one is output, and most are."""

KEEP_BYTES = 1_024
_HEAD_BYTES = 256
_FACTS_SPAN = 512

_ID = re.compile(rb'"(?:request_)?id"\s*:\s*("(?:[^"\\]|\\.){1,%d}")' % MOST_ID)
_FINISH = b'"finish_reason":"'
_STOP = b'"stop_reason":"'
_USAGE = b',"usage":{'
_WORD = re.compile(rb"([a-z_]{1,32})\"")
_NUMBERS = {
    "prompt_tokens": re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,9})\b'),
    "output_tokens": re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,9})\b'),
    "cached_tokens": re.compile(rb'"cached_tokens"\s*:\s*(\d{1,9})\b'),
}
_REASONS = frozenset(
    ("stop", "length", "abort", "error", "repetition", "tool_calls", "content_filter")
)
_OUTPUT_EVENTS = (b".delta", b": content_block_delta")  # /v1/responses, /v1/messages
_CHOICE = b'"choices":[{"index":'
_MESSAGES_REASONS = {  # /v1/messages
    b"end_turn": "stop",
    b"stop_sequence": "stop",
    b"max_tokens": "length",
    b"tool_use": "tool_calls",
}
_RESPONSES_REASONS = {  # /v1/responses
    b"event: response.completed": "stop",
    b"event: response.incomplete": "length",
    b"event: response.failed": "error",
}


def clip(body: bytes) -> bytes:
    """Return a chunk, or head and tail of a long one, where the facts are."""
    if len(body) <= KEEP_BYTES:
        return body
    return body[:_HEAD_BYTES] + b"\n" + body[_HEAD_BYTES + 1 - KEEP_BYTES :]


def has_output(chunk: bytes, *, is_opening: bool) -> bool:
    """Return whether the chunk brings output of the engine.

    The end mark, the usage block, the opening chunk of a chat and pings bring none.

    Args:
        chunk: One body of the answer.
        is_opening: No output has come yet.
    """
    if not chunk.startswith(b"data: "):
        return chunk.partition(b"\n")[0].endswith(_OUTPUT_EVENTS)
    if chunk.startswith((b"data: [DONE]", b'data: {"error"')):
        return False
    if is_opening and b'"delta":{"role":' in chunk and b'"content":""' in chunk:
        return False
    return b'"choices":[]' not in chunk


def find_choice(chunk: bytes) -> int:
    """Return where the number of the choice stands; -1 where answers have no choices.

    What stands before it (id, time, model) is the same in all chunks of an answer: so is the place.
    """
    place = chunk.find(_CHOICE)
    return place if place < 0 else place + len(_CHOICE)


def find_id(chunk: bytes) -> str | None:
    """Return the id that the engine gave the request, from the head of a chunk."""
    found = _ID.search(chunk, 0, _HEAD_BYTES + MOST_ID)
    if found is None:
        return None
    try:
        return str(json.loads(found.group(1)))
    except ValueError:
        return None


def find_usage(chunk: bytes) -> dict[str, int]:
    """Return the token counts of the chunk's usage block; empty without one."""
    begin = chunk.find(_USAGE)
    if begin < 0:
        return {}
    found = {
        name: pattern.search(chunk, begin, begin + _FACTS_SPAN)
        for name, pattern in _NUMBERS.items()
    }
    return {name: int(hit.group(1)) for name, hit in found.items() if hit}


def find_finish(chunk: bytes) -> str | None:
    """Return why the answer ended, when the chunk says so.

    Only known words: in other fields a stop reason is the stop text that the client sent.
    """
    if chunk.startswith(b"event: "):
        event = chunk.partition(b"\n")[0]
        if event == b"event: message_delta":
            return _MESSAGES_REASONS.get(_word_after(chunk, _STOP))
        return _RESPONSES_REASONS.get(event)
    reason = _word_after(chunk, _FINISH).decode()
    return reason if reason in _REASONS else None


def _word_after(chunk: bytes, key: bytes) -> bytes:
    """Return the plain word that is the key's value, or nothing."""
    begin = chunk.find(key)
    found = _WORD.match(chunk, begin + len(key)) if begin >= 0 else None
    return found.group(1) if found else b""
