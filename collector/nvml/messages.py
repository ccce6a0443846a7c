"""What the collector and its NVML child say to each other: one JSON object per line, each way.

The collector asks with `Ask`; the child answers every line with one line. The first line of the
child, unasked, is a `Greeting`. Times are microseconds of CLOCK_MONOTONIC and CLOCK_REALTIME, taken
in the child right around the driver's calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar


class Ask(StrEnum):
    """What the collector wants."""

    LINK = "link"
    STATE = "state"
    STOP = "stop"


class GpuState(StrEnum):
    """What became of one GPU in one answer; the words of column ``state``."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    NO_PERMISSION = "no_permission"
    GPU_LOST = "gpu_lost"
    HUNG = "hung"
    STALE = "stale"
    SOURCE_BROKEN = "source_broken"
    NOT_APPLICABLE = "not_applicable"
    NOT_TRUSTWORTHY = "not_trustworthy"


class Method(StrEnum):
    """Ways to learn what a link carried, best first."""

    GPM_CUMULATIVE = "gpm_cumulative"
    GPM_RATE = "gpm_rate"
    FIELD_COUNTER = "field_counter"
    THROUGHPUT = "throughput"


class TroubleKind(StrEnum):
    """Why the library as a whole does not serve."""

    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    NO_PERMISSION = "no_permission"
    VERSION_MISMATCH = "version_mismatch"
    ACCESS_LOST = "access_lost"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The library does not serve.

    Attributes:
        kind: In one word.
        text: What NVML or the loader said, and what to do.
        code: NVML's return code; None when the loader failed before it.
    """

    kind: TroubleKind
    text: str
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a way of measuring works on one GPU.

    Attributes:
        method: The way.
        outcome: ``works`` or why not.
        cost_us: Cost of one reading in the driver; None when it does not work.
    """

    method: Method
    outcome: str
    cost_us: int | None = None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What does not change while the child lives.

    Attributes:
        index: NVML index.
        uuid: UUID, the GPU's name everywhere; of a MIG instance its own.
        model: Product name.
        pci_address: As sysfs spells it, ``0000:3b:00.0``; None when unknown.
        driver: Driver version.
        max_generation: Highest PCIe generation of card and slot together.
        max_width: Highest width by NVML; wrong on cards that are wired narrower.
        parent: UUID of the physical GPU when this is a MIG instance, else empty.
        link_state: OK, or why saturation of a PCIe link means nothing here (NVLink-C2C, MIG
            instance, vGPU guest, WSL, or the GPU cannot be reached at all).
        link_reason: Why ``link_state`` is not OK.
        probes: Ways of measuring the link, as tried.
    """

    index: int
    uuid: str
    model: str
    pci_address: str | None
    driver: str
    max_generation: int | None = None
    max_width: int | None = None
    parent: str = ""
    link_state: GpuState = GpuState.OK
    link_reason: str = ""
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class Greeting:
    """The child's first line.

    Attributes:
        trouble: Why there are no GPUs to read; None when the library serves.
        driver: Driver version; empty when unknown.
        library: Version of NVML; empty when unknown.
        expected_gpus: How many GPUs the driver counts; those that cannot be opened are in it.
        gpus: GPUs and MIG instances. One that cannot be opened is there with its reason.
    """

    trouble: Trouble | None = None
    driver: str = ""
    library: str = ""
    expected_gpus: int = 0
    gpus: tuple[GpuFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a link over one window.

    Attributes:
        size_bytes: Bytes counted; None unless the method is a true counter.
        bytes_per_second: Mean rate; None when it could not be told.
        coverage_ratio: Share of the window that was measured; None when nothing was.
    """

    size_bytes: int | None = None
    bytes_per_second: float | None = None
    coverage_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class LinkSample:
    """What one GPU's link carried since the sample before.

    Attributes:
        uuid: Which GPU.
        state: OK or why there are no rates.
        reason: In words; empty when all is well.
        method: How it was measured; None when it was not.
        wall_us: End of the window.
        mono_us: The same moment.
        window_us: Length of the window; None for a first sample.
        rx: To the GPU, H2D.
        tx: From the GPU, D2H.
        generation: Lowest current generation before and after the reading.
        width: Lowest current width before and after the reading.
        link_changed: Generation or width differed before and after.
        utilisation_ratio: Share of time with a kernel running, for cross-checks.
        call_us: Time spent in the driver for this GPU since the sample before.
        probes: Set after ways of measuring were tried anew, else empty.
    """

    uuid: str
    state: GpuState
    reason: str
    method: Method | None
    wall_us: int
    mono_us: int
    window_us: int | None = None
    rx: Flow = field(default_factory=Flow)
    tx: Flow = field(default_factory=Flow)
    generation: int | None = None
    width: int | None = None
    link_changed: bool = False
    utilisation_ratio: float | None = None
    call_us: int = 0
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class StateSample:
    """The state of one GPU.

    Attributes:
        uuid: Which GPU.
        state: OK or why there are no values.
        reason: What is missing and why; empty when all is there.
        wall_us: When it was read.
        mono_us: The same moment.
        window_us: Since the sample before; None for a first sample.
        values: Values by column of table gpu_state; what could not be read is left out. Counters
            come as growth over the window.
        compute_pids: Processes with a compute context, in the pid namespace of the child.
        call_us: Time spent in the driver for this sample.
    """

    uuid: str
    state: GpuState
    reason: str
    wall_us: int
    mono_us: int
    window_us: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    compute_pids: tuple[int, ...] = ()
    call_us: int = 0


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """Answer to `Ask.LINK`.

    Attributes:
        trouble: Why the child is about to end; None when it is not.
        samples: One per GPU and MIG instance that has a name.
        gpus: In place of those in the greeting, where they are no longer as it said: a GPU was slow
            to open, or was lost and came back. Empty when nothing is new.
    """

    trouble: Trouble | None = None
    samples: tuple[LinkSample, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """Answer to `Ask.STATE`.

    Attributes:
        trouble: Why the child is about to end; None when it is not.
        samples: One per GPU and MIG instance that has a name.
        gpus: In place of those in the greeting, where they are no longer as it said: a GPU was slow
            to open, or was lost and came back. Empty when nothing is new.
    """

    trouble: Trouble | None = None
    samples: tuple[StateSample, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()


class MessageError(ValueError):
    """A line is not what was agreed; the message says what is wrong with it."""


Message = TypeVar("Message", Greeting, LinkAnswer, StateAnswer)


_MESSAGES = (
    Trouble,
    Probe,
    GpuFacts,
    Greeting,
    Flow,
    LinkSample,
    StateSample,
    LinkAnswer,
    StateAnswer,
)
_NAMES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(entry.name for entry in fields(kind)) for kind in _MESSAGES
}


def _plain(message: object) -> dict[str, object]:
    return {name: getattr(message, name) for name in _NAMES[type(message)]}


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)
"""A quarter of the time that `dataclasses.asdict` takes, which copies everything first."""


def encode(message: Greeting | LinkAnswer | StateAnswer) -> bytes:
    """Return a message as one line."""
    return _ENCODER.encode(message).encode() + b"\n"


def decode(kind: type[Message], line: bytes) -> Message:
    """Return the message in a line.

    Raises:
        MessageError: The line is cut off, no JSON, or lacks something.
    """
    try:
        message: Message = _build(kind, json.loads(line))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        msg = f"not a {kind.__name__}: {error}"
        raise MessageError(msg) from error
    return message


_NESTED: Mapping[tuple[type, str], type] = {
    (Greeting, "trouble"): Trouble,
    (Greeting, "gpus"): GpuFacts,
    (GpuFacts, "probes"): Probe,
    (LinkAnswer, "trouble"): Trouble,
    (LinkAnswer, "samples"): LinkSample,
    (LinkAnswer, "gpus"): GpuFacts,
    (LinkSample, "rx"): Flow,
    (LinkSample, "tx"): Flow,
    (LinkSample, "probes"): Probe,
    (StateAnswer, "trouble"): Trouble,
    (StateAnswer, "samples"): StateSample,
    (StateAnswer, "gpus"): GpuFacts,
}
_ENUMS: Mapping[tuple[type, str], type[StrEnum]] = {
    (Trouble, "kind"): TroubleKind,
    (Probe, "method"): Method,
    (GpuFacts, "link_state"): GpuState,
    (LinkSample, "state"): GpuState,
    (LinkSample, "method"): Method,
    (StateSample, "state"): GpuState,
}


def _build(kind: type[Any], plain: Any) -> Any:  # noqa: ANN401 - what JSON holds has no type
    """Return an object of a message's class from what JSON made of it."""
    values = {name: plain[name] for name in _NAMES[kind]}
    return kind(**{name: _value(kind, name, value) for name, value in values.items()})


def _value(kind: type[Any], name: str, value: Any) -> Any:  # noqa: ANN401 - the same
    nested, enum = _NESTED.get((kind, name)), _ENUMS.get((kind, name))
    if value is None:
        return None
    if enum is not None:
        return enum(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value if nested is None else (_build(nested, each) for each in value))
    return value if nested is None else _build(nested, value)
