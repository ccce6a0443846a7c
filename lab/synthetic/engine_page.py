"""The /metrics page of a vLLM that is not there: its families, about 430 series, always moving."""

from __future__ import annotations

import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Self

_MODEL = 'engine="0",model_name="lab"'
_LATENCY = (
    "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 "
    "1920.0 7680.0"
)
_GAP = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0"
_FIRST = (
    "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 "
    "160.0 640.0 2560.0"
)
_TOKENS = "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 5000.0 10000.0"
_HISTOGRAMS = {
    "inter_token_latency_seconds": _GAP,
    "request_time_per_output_token_seconds": _GAP,
    "time_to_first_token_seconds": _FIRST,
    **{
        f"{name}_seconds": _LATENCY
        for name in (
            "e2e_request_latency", "request_queue_time", "request_inference_time",
            "request_prefill_time", "request_decode_time", "kv_block_lifetime",
            "kv_block_idle_before_evict",
        )
    },
    **dict.fromkeys(
        (
            "iteration_tokens_total", "request_prompt_tokens", "request_generation_tokens",
            "request_max_num_generation_tokens", "request_prefill_kv_computed_tokens",
            "request_params_n", "request_params_max_tokens", "request_num_preemptions",
        ),
        _TOKENS,
    ),
}  # fmt: skip
_COUNTERS = (
    "prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_queries",
    "prefix_cache_hits", "external_prefix_cache_queries", "external_prefix_cache_hits",
    "prompt_tokens_cached", "mm_cache_queries", "mm_cache_hits",
)  # fmt: skip
_GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
_LABELLED = {
    "request_success": ("finished_reason", ("stop", "length", "abort", "error", "repetition")),
    "prompt_tokens_by_source": (
        "source", ("local_compute", "local_cache_hit", "external_kv_transfer")
    ),
    "prompt_tokens_cached_by_source": (
        "source", ("device", "host", "disk", "p2p", "external_unspecified")
    ),
}  # fmt: skip


class EngineState:
    """Counters and buckets of a busy engine."""

    def __init__(self, seed: int = 1) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._buckets = {name: [0] * (len(b.split()) + 1) for name, b in _HISTOGRAMS.items()}
        self._sums = dict.fromkeys(_HISTOGRAMS, 0.0)
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._labelled = {
            (name, kind): 0 for name, (_, kinds) in _LABELLED.items() for kind in kinds
        }

    def page(self) -> str:
        """Return the page in text format 0.0.4, some load after the page before."""
        with self._lock:
            self._advance()
            return "".join(self._lines())

    def _advance(self) -> None:
        for name, buckets in self._buckets.items():
            for _ in range(3):
                place = min(len(buckets) - 1, int(self._dice.expovariate(0.4)))
                count = self._dice.randint(1, 400)
                buckets[place] += count
                self._sums[name] += count * 0.013
        for name in self._counters:
            self._counters[name] += self._dice.randint(0, 5_000)
        for key in self._labelled:
            self._labelled[key] += self._dice.randint(0, 50)

    def _lines(self) -> list[str]:
        lines = ["# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e+09\n"]
        lines += [
            f'python_gc_{what}_total{{generation="{age}"}} {self._dice.randint(0, 9_999)}.0\n'
            for what in ("objects_collected", "objects_uncollectable", "collections")
            for age in range(3)
        ]
        lines += [
            f"# TYPE vllm:{name} gauge\nvllm:{name}{{{_MODEL}}} {self._dice.randint(0, 64) / 64}\n"
            for name in _GAUGES
        ]
        for name, value in self._counters.items():
            lines.append(f"# TYPE vllm:{name} counter\nvllm:{name}_total{{{_MODEL}}} {value}.0\n")
            lines.append(f"vllm:{name}_created{{{_MODEL}}} 1.7e+09\n")
        for (name, kind), count in self._labelled.items():
            label = _LABELLED[name][0]
            lines.append(f'vllm:{name}_total{{{_MODEL},{label}="{kind}"}} {count}.0\n')
        for name in _HISTOGRAMS:
            lines += self._histogram(name)
        return lines

    def _histogram(self, name: str) -> list[str]:
        bounds = [*_HISTOGRAMS[name].split(), "+Inf"]
        totals = list(accumulate(self._buckets[name]))
        lines = [f"# HELP vllm:{name} Histogram of {name}.\n# TYPE vllm:{name} histogram\n"]
        lines += [
            f'vllm:{name}_bucket{{{_MODEL},le="{bound}"}} {total}.0\n'
            for bound, total in zip(bounds, totals, strict=True)
        ]
        lines.append(f"vllm:{name}_count{{{_MODEL}}} {totals[-1]}.0\n")
        lines.append(f"vllm:{name}_sum{{{_MODEL}}} {self._sums[name]!r}\n")
        lines.append(f"vllm:{name}_created{{{_MODEL}}} 1.7e+09\n")
        return lines


class EngineServer:
    """Serves the page on a loopback port; use as a context manager.

    Attributes:
        url: Base address.
    """

    def __init__(self, state: EngineState) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(state: EngineState) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer the metrics page, and 404 to all else."""
            body = state.page().encode() if self.path == "/metrics" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler
