"""Errors that a person or a program can act on."""

from __future__ import annotations


class StallscopeError(Exception):
    """A failure that names its place and the way out.

    Args:
        message: What is wrong, naming file, line or field.
        hint: What to do about it, or an empty string when nothing can be done.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{stop} {self.hint}"


class SettingsError(StallscopeError):
    """A setting is unknown, of the wrong type, or out of range."""


class LakeError(StallscopeError):
    """The lake cannot be opened, written or read as asked."""


class SegmentError(LakeError):
    """A segment or journal record is damaged; the rest of the lake is usable."""


class QueryRefusedError(StallscopeError):
    """A statement is outside what a read-only console may run."""
