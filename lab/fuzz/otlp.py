"""``python -m lab.fuzz.otlp --count 1000000``: damaged and hostile bodies for /v1/traces.

Bodies in both encodings are made from a valid one by cutting, overwriting, repeating and nesting,
packed or not. Each must be answered with one of the promised statuses, and what gets through must
fit the schema. Exit status 1 with the seed and the body of the first that does otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp_http import Traces
from collector.otlp_intake import Intake
from lab.report import say
from stallscope.clock import Instant
from stallscope.exposition.reply import Sent
from stallscope.storage.rows import to_batch
from stallscope.units import US_PER_SECOND

_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_STATUSES = frozenset({200, 400, 415})
_WALL_US = 1_800_000_000 * US_PER_SECOND
_TELL_EVERY = 100_000
_CHECK_EVERY = 500
_LONGEST = 20_000
_SLOW_S = 1.0

Json = dict[str, object]


class _Clock:
    """Moves on by a second at each look, so that the byte budget is never spent."""

    def __init__(self) -> None:
        self._seconds = 0

    def now(self) -> Instant:
        self._seconds += 1
        return Instant(_WALL_US, self._seconds * US_PER_SECOND)


def _numbers(random_: random.Random) -> object:
    return random_.choice(
        [
            0,
            1,
            -1,
            2**31,
            2**32,
            2**63,
            2**64,
            -(2**63),
            10**400,
            1e308,
            -1e308,
            0.5,
            "7",
            "x",
            None,
        ]
    )


def _attribute(random_: random.Random) -> Json:
    key = random_.choice(
        [
            "gen_ai.request.id",
            "gen_ai.latency.e2e",
            "gen_ai.latency.time_in_model_decode",
            "gen_ai.usage.completion_tokens",
            "gen_ai.response.finish_reasons",
            "gen_ai.response.model",
            "gen_ai.prompt",
        ]
    )
    kind = random_.choice(["stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"])
    text = random_.choice(["", "stop", "cmpl-a-0", "NaN", "\ud800", "\0", "9" * 40, "x" * 300])
    value = {kind: random_.choice([text, _numbers(random_)])}
    return {"key": key, "value": random_.choice([value, value, _nested(random_), text])}


def _nested(random_: random.Random) -> object:
    value: object = {"stringValue": "stop"}
    for _ in range(random_.choice([1, 2, 50, 300])):
        value = random_.choice([{"arrayValue": {"values": [value]}}, [value], {"a": value}])
    return value


def _span(random_: random.Random) -> Json:
    ended_ns = _WALL_US * 1_000
    span: Json = {
        "name": random_.choice(["llm_request", "llm_request", "Load model", 5]),
        "startTimeUnixNano": random_.choice([str(ended_ns - 10**9), _numbers(random_)]),
        "endTimeUnixNano": random_.choice([str(ended_ns), str(ended_ns), _numbers(random_)]),
        "attributes": [_attribute(random_) for _ in range(random_.randrange(6))],
        "status": random_.choice([{}, {"code": 2}, None, 7]),
    }
    span["attributes"] = random_.choice([span["attributes"], span["attributes"], {}, None])
    return span


def _document(random_: random.Random) -> Json:
    spans: list[object] = [_span(random_) for _ in range(random_.randrange(4))]
    scope = {"scope": {"name": random_.choice(["vllm.tracing.otel", "x", None])}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def _json_body(random_: random.Random) -> bytes:
    return json.dumps(_document(random_)).encode("utf-8", "surrogatepass")


def _protobuf_body(random_: random.Random) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = random_.choice(["vllm.tracing.otel", "x"])
    for _ in range(random_.randrange(4)):
        span = scope.spans.add(name=random_.choice(["llm_request", "Load model"]))
        span.end_time_unix_nano = random_.choice([_WALL_US * 1_000, 0, 2**64 - 1])
        span.start_time_unix_nano = random_.choice([_WALL_US * 1_000 - 10**9, 2**64 - 1])
        span.attributes.add(key="gen_ai.request.id").value.string_value = "cmpl-a-0"
        seconds = span.attributes.add(key="gen_ai.latency.e2e").value
        seconds.double_value = random_.choice([0.5, -1.0, float("nan"), float("inf"), 1e300])
        tokens = span.attributes.add(key="gen_ai.usage.completion_tokens").value
        tokens.int_value = random_.choice([0, 5, -1, 2**63 - 1])
    return bytes(request.SerializeToString())


def _cut(random_: random.Random, body: bytes) -> bytes:
    return body[: random_.randrange(len(body) + 1)]


def _overwrite(random_: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(random_.randrange(1, 5)):
        if changed:
            changed[random_.randrange(len(changed))] = random_.randrange(256)
    return bytes(changed)


def _repeat(random_: random.Random, body: bytes) -> bytes:
    start, end = sorted(random_.randrange(len(body) + 1) for _ in range(2))
    return (body[:start] + body[start:end] * random_.choice([2, 3, 50]) + body[end:])[:_LONGEST]


def _insert(random_: random.Random, body: bytes) -> bytes:
    place = random_.randrange(len(body) + 1)
    return body[:place] + random_.randbytes(random_.randrange(1, 20)) + body[place:]


def _keep(random_: random.Random, body: bytes) -> bytes:
    del random_
    return body


_CHANGES: Sequence[Callable[[random.Random, bytes], bytes]] = (
    _keep,
    _keep,
    _keep,
    _cut,
    _overwrite,
    _overwrite,
    _repeat,
    _insert,
)


def make(random_: random.Random) -> Sent:
    """Return a body to send, valid or not."""
    kind = random_.choice([_JSON, _PROTOBUF])
    body = _json_body(random_) if kind == _JSON else _protobuf_body(random_)
    body = random_.choice(_CHANGES)(random_, body)
    way = random_.randrange(20)
    if way == 0:
        return Sent(random_.choice(_CHANGES)(random_, gzip.compress(body, 1)), kind, "gzip")
    return Sent(body, kind, random_.choice(["br", "deflate"]) if way == 1 else "")


class Fuzzer:
    """Sends bodies and checks what comes of them.

    Args:
        seed: Makes a run repeatable.

    Attributes:
        statuses: How often each status was answered.
        rows: Requests that got through.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._intake = Intake(_Clock())
        self._traces = Traces(self._intake)
        self.statuses: Counter[int] = Counter()
        self.rows = 0

    def run(self, count: int) -> None:
        """Send so many bodies.

        Raises:
            AssertionError: One was not answered as promised; names the body.
        """
        for number in range(1, count + 1):
            self._send(make(self._random))
            if number % _CHECK_EVERY == 0 or number == count:
                self._check_rows()
            if number % _TELL_EVERY == 0:
                say(f"{number} bodies, {self.rows} rows, {dict(self.statuses)}")

    def _send(self, sent: Sent) -> None:
        began = time.thread_time()  # CPU time: a loaded machine is not the body's fault
        try:
            status = int(self._traces.answer(sent).status)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {sent!r}") from error
        took_s = time.thread_time() - began
        if status not in _STATUSES or took_s > _SLOW_S:
            raise AssertionError(f"status {status} after {took_s:.1f} s: {sent!r}")
        self.statuses[status] += 1

    def _check_rows(self) -> None:
        """Make rows as the source does and hold them against the schema."""
        rows: list[Mapping[str, object]] = [
            {**request.columns, "engine": 1, "request": 1}
            for request in self._intake.drain().requests
        ]
        self.rows += len(rows)
        to_batch("request", rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns 1 when a body was not answered as promised."""
    parser = argparse.ArgumentParser(prog="python -m lab.fuzz.otlp", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="bodies to send")
    parser.add_argument("--seed", type=int, default=1, help="makes a run repeatable")
    wanted = parser.parse_args(arguments)
    fuzzer = Fuzzer(wanted.seed)
    began = time.monotonic()
    try:
        fuzzer.run(wanted.count)
    except AssertionError as error:
        say(f"seed {wanted.seed}: {error}")
        return 1
    rate = wanted.count / (time.monotonic() - began)
    told = f"{dict(fuzzer.statuses)}, {fuzzer.rows} rows"
    say(f"{wanted.count} bodies ({rate:.0f}/s): {told}, all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
