"""What a path of the listener answers, and to what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a path answers.

    Attributes:
        status: HTTP status.
        body: Body as sent.
        content_type: Its media type.
        allow: Methods that the path takes, told when another one was used.
        retry_after_s: When to send the same again, told where that may help.
    """

    status: HTTPStatus
    body: bytes
    content_type: str = _PLAIN
    allow: str = ""
    retry_after_s: int | None = None

    @classmethod
    def text(cls, status: HTTPStatus, line: str) -> Reply:
        """Return a reply of one line of text."""
        return cls(status, f"{line}\n".encode())

    @classmethod
    def wrong_method(cls, allow: str) -> Reply:
        """Return the reply to a method that the path does not take."""
        line = f"this path takes {allow} only\n".encode()
        return cls(HTTPStatus.METHOD_NOT_ALLOWED, line, allow=allow)


Route = Callable[[str], Reply]
"""Answers a GET; the argument is the Accept header, empty when there is none."""


@dataclass(frozen=True, slots=True)
class Post:
    """A path that takes JSON by POST and nothing else.

    Attributes:
        answer: Answers a body; the body may be anything and is the route's to check.
    """

    answer: Callable[[bytes], Reply]


@dataclass(frozen=True, slots=True)
class Sent:
    """What somebody sent.

    Attributes:
        body: The body as it came.
        content_type: Its media type without parameters, lower case.
        content_encoding: Its encoding, lower case; empty for none.
    """

    body: bytes
    content_type: str
    content_encoding: str


@dataclass(frozen=True, slots=True)
class Upload:
    """A path that takes larger bodies by POST, of the types that it names.

    Attributes:
        answer: Answers a body; it may be anything and is the route's to check.
        content_types: Media types it takes. None of them may be one that a browser sends to
            another origin without asking: text/plain and the types of forms.
        longest_body: Bytes that a body may have.
    """

    answer: Callable[[Sent], Reply]
    content_types: tuple[str, ...]
    longest_body: int
