"""Turns vLLM's stats objects of a step into rows, in the tap's thread.

The classes are declared unstable (vllm v1/metrics/loggers.py): every field is asked for by name,
may be missing, and is checked before it becomes a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stallscope_vllm.transfers import Transfers
from stallscope_vllm.wire import MISSING, microseconds, ratio, whole

_NS_PER_US = 1_000
_MOST_LISTED = 16_384  # entries of one list: far more than requests that run at once
_MOST_OUTLIERS = 64  # rows of one step: only a step that resumes a preempted request has any
_MOST_RECEIPT_LAG_US = 10_000_000
_UNKNOWN = MISSING["I"]
_NO_COUNTERS = (
    *(_UNKNOWN,) * 6,
    MISSING["f"],
    *(_UNKNOWN,) * 4,
    *(MISSING["q"], _UNKNOWN) * 2,
    *(_UNKNOWN,) * 5,
)
"""What stands in the columns from generation_tokens on in a row that is no main row."""


class Step(NamedTuple):
    """One step as the stat logger was told of it.

    Attributes:
        scheduler: vLLM's SchedulerStats; None where another API server was given them.
        iteration: vLLM's IterationStats; None when no request had an output.
        transfers: Sums of its KV transfers.
        engine: Index of the engine.
        wall_ns: When it was recorded, wall clock.
        mono_ns: The same moment, monotonic.
    """

    scheduler: Any
    iteration: Any
    transfers: Transfers | None
    engine: Any
    wall_ns: int
    mono_ns: int

    def times_us(self) -> tuple[int, int]:
        """Return (wall, monotonic) of the moment when the API server got the step's outputs.

        The engine's own stamp of the step does not reach a stat logger. CLOCK_MONOTONIC is one
        clock for all processes of a host, so the moment of receipt is told on it: the time of
        recording less what has passed since ``iteration_timestamp``, both on the wall clock.
        """
        now_us, mono_us = self.wall_ns // _NS_PER_US, self.mono_ns // _NS_PER_US
        wall_us = microseconds(getattr(self.iteration, "iteration_timestamp", None), "q")
        if wall_us == MISSING["q"]:
            return now_us, mono_us
        passed_us = now_us - wall_us
        return wall_us, mono_us - passed_us if 0 <= passed_us < _MOST_RECEIPT_LAG_US else mono_us

    def finished(self) -> Sequence[Any]:
        """Return vLLM's objects of the requests that ended in it."""
        return listed(self.iteration, "finished_requests")

    def first_tokens(self) -> Iterator[tuple[int, int, int]]:
        """Yield (engine, wall_us, ttft_us) of each first token."""
        wall_us, _ = self.times_us()
        for seconds in listed(self.iteration, "time_to_first_tokens_iter"):
            ttft_us = microseconds(seconds)
            if ttft_us != _UNKNOWN:  # negative when the wall clock stepped back meanwhile
                yield whole(self.engine, "B"), wall_us, ttft_us


class StepRows:
    """Makes rows of steps; remembers each engine's step before."""

    def __init__(self) -> None:
        self._last_us: dict[int, int] = {}

    def make(self, step: Step) -> list[tuple[Any, ...]]:
        """Return one main row, then a row for each further distinct gap."""
        engine = whole(step.engine, "B")
        wall_us, mono_us = step.times_us()
        step_us = self._since_last(engine, mono_us)
        (gap_us, outputs), *outliers = _gaps_by_weight(step.iteration)
        rows = [(engine, 1, wall_us, mono_us, step_us, gap_us, outputs, *_counters(step))]
        for gap_us, outputs in outliers[:_MOST_OUTLIERS]:
            rows.append((engine, 0, wall_us, mono_us, _UNKNOWN, gap_us, outputs, *_NO_COUNTERS))
        return rows

    def _since_last(self, engine: int, mono_us: int) -> int:
        last_us = self._last_us.get(engine)
        self._last_us[engine] = mono_us
        return _UNKNOWN if last_us is None else whole(mono_us - last_us)


def listed(source: Any, name: str) -> Sequence[Any]:
    """Return a list of the object, cut to what can be meant; anything else is empty."""
    values = getattr(source, name, None)
    return values[:_MOST_LISTED] if type(values) is list else ()


def _gaps_by_weight(iteration: Any) -> list[tuple[int, int]]:
    """Return (gap in us, how many outputs had it), the commonest first; at least one entry."""
    gaps = listed(iteration, "inter_token_latencies_iter")
    if not gaps:  # its name up to 0.10.1
        gaps = listed(iteration, "time_per_output_tokens_iter")
    # Almost always one number many times: counted as it is before anything is converted.
    counted: Counter[int] = Counter()
    for seconds, count in Counter(each for each in gaps if isinstance(each, float)).items():
        counted[microseconds(seconds)] += count
    del counted[_UNKNOWN]
    return counted.most_common() or [(_UNKNOWN, 0)]


def _counters(step: Step) -> tuple[Any, ...]:
    """Return the columns from generation_tokens on."""
    scheduler = step.scheduler
    return (
        *_work(step),
        whole(getattr(scheduler, "num_running_reqs", None)),
        whole(_waiting(scheduler)),
        whole(getattr(step.iteration, "num_preempted_reqs", None)),
        ratio(getattr(scheduler, "kv_cache_usage", None)),
        *_pair(getattr(scheduler, "prefix_cache_stats", None), "queries", "hits"),
        *_pair(getattr(scheduler, "connector_prefix_cache_stats", None), "queries", "hits"),
        *_transfers(step.transfers),
        len(step.finished()),
        *_pair(
            getattr(scheduler, "spec_decoding_stats", None), "num_drafts", "num_accepted_tokens"
        ),
    )


def _work(step: Step) -> tuple[int, int, int]:
    """Return tokens generated, prompt tokens computed and the requests they were of.

    vLLM tells what a step computed only with --enable-logging-iteration-details. Without it, a
    prompt counts as a whole in the step that ends its prefill; before 0.16, cached tokens too.
    """
    iteration = step.iteration
    generated = 0 if iteration is None else getattr(iteration, "num_generation_tokens", None)
    details = getattr(step.scheduler, "iteration_details", None)
    if details is not None:
        return whole(generated), *_pair(details, "num_ctx_tokens", "num_ctx_requests")
    by_source = getattr(iteration, "prompt_token_stats", None)
    if by_source is None:
        computed = getattr(iteration, "num_prompt_tokens", None)
    else:
        computed = getattr(by_source, "computed", None)
    first_tokens = len(listed(iteration, "time_to_first_tokens_iter"))
    return whole(generated), whole(computed), _UNKNOWN if iteration is None else first_tokens


def _waiting(scheduler: Any) -> Any:
    """Return capacity and deferred together, as the gauge num_requests_waiting does."""
    waiting = getattr(scheduler, "num_waiting_reqs", None)
    deferred = getattr(scheduler, "num_skipped_waiting_reqs", None)  # since 0.20
    if isinstance(waiting, int) and isinstance(deferred, int):
        return waiting + deferred
    return waiting


def _pair(stats: Any, first: str, second: str) -> tuple[int, int]:
    return whole(getattr(stats, first, None)), whole(getattr(stats, second, None))


def _transfers(found: Transfers | None) -> tuple[int, ...]:
    if found is None:
        return (MISSING["q"], _UNKNOWN, MISSING["q"], _UNKNOWN, _UNKNOWN, _UNKNOWN)
    load_bytes, load_s, store_bytes, store_s, loads, stores = found
    return (
        whole(load_bytes, "q"),
        microseconds(load_s),
        whole(store_bytes, "q"),
        microseconds(store_s),
        whole(loads),
        whole(stores),
    )
