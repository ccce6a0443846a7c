"""Attributes that lie in a mapped structure: what is written is there for the library at once."""

from __future__ import annotations

from ctypes import Structure
from typing import Protocol


class Mapped(Protocol):
    """Something whose fields lie in a control structure."""

    @property
    def control(self) -> Structure:
        """The structure."""
        ...


class LiveInt:
    """An integer field of the same name; it is wide enough for what NVML says of it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, mapped: Mapped, owner: type) -> int:
        value: int = getattr(mapped.control, self._name)
        return value

    def __set__(self, mapped: Mapped, value: int) -> None:
        setattr(mapped.control, self._name, int(value))


class LiveText:
    """A text field of the same name, ASCII, NUL-terminated."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, mapped: Mapped, owner: type) -> str:
        value: bytes = getattr(mapped.control, self._name)
        return value.decode("ascii")

    def __set__(self, mapped: Mapped, value: str) -> None:
        setattr(mapped.control, self._name, value.encode("ascii") + b"\0")
