"""Who may read and who may send: a web page elsewhere may do neither."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from urllib.parse import urlsplit

from stallscope.exposition.reply import Reply

LONGEST_BODY = 65_536
JSON = ("application/json",)
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    Attributes:
        token: With a token, every request must carry it as a bearer token and any Host will do.
            Without one, only loopback names are taken as Host, so that a web page elsewhere
            cannot read us through the browser of somebody on this machine (DNS rebinding).
    """

    token: str | None = None

    def refuse(self, host: str | None, authorization: str | None) -> Reply | None:
        """Return why a request is refused, or None when it may pass.

        Args:
            host: Host header.
            authorization: Authorization header.
        """
        if self.token is not None:
            given = (authorization or "").encode()
            if hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return None
            return Reply.text(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        if host_name(host or "") in _LOOPBACK_NAMES:
            return None
        line = "the Host header must name localhost, 127.0.0.1 or [::1]; other names need a token"
        return Reply.text(HTTPStatus.FORBIDDEN, line)


def host_name(header: str) -> str:
    """Return the name in a Host header without its port, lower case; empty when it has none."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:  # an unclosed bracket
        return ""


def refuse_post(headers: Message, content_types: Sequence[str] = JSON) -> Reply | None:
    """Return why a POST is refused, or None when its body may be looked at.

    A browser sends forms and plain text across origins without asking. For application/json it
    asks first (a CORS preflight, which nobody here answers), and it always tells the Origin.

    Args:
        headers: Of the request.
        content_types: Media types that the path takes.
    """
    host = headers.get("Host") or ""
    if not all(_is_own(origin, host) for origin in headers.get_all("Origin", [])):
        line = "a page of another origin may not send anything here"
        return Reply.text(HTTPStatus.FORBIDDEN, line)
    if headers.get_content_type() not in content_types:
        line = f"the Content-Type must be {' or '.join(content_types)}"
        return Reply.text(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, line)
    return None


def _is_own(origin: str, host: str) -> bool:
    """Return whether a page of that origin came from the very address that is asked."""
    try:
        place = urlsplit(origin).netloc
    except ValueError:  # an unclosed bracket
        return False
    return place != "" and place.lower() == host.lower()


def body_length(headers: Message, longest: int = LONGEST_BODY) -> int | Reply:
    """Return how many bytes the body has, or why that is refused.

    Args:
        headers: Of the request.
        longest: Bytes that it may have.
    """
    lengths = [str(length).strip() for length in headers.get_all("Content-Length", [])]
    if not lengths or "Transfer-Encoding" in headers:
        return Reply.text(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed")
    text = lengths[0]
    if len(lengths) > 1 or not (text.isascii() and text.isdigit()):
        return Reply.text(HTTPStatus.BAD_REQUEST, "the Content-Length is no number of bytes")
    # Digits are counted first: Python refuses to convert thousands of them.
    if len(text) > len(str(longest)) or int(text) > longest:
        line = f"a body has at most {longest} bytes"
        return Reply.text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, line)
    return int(text)
