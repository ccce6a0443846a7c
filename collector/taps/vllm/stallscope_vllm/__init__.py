"""Taps for vLLM: exact step timings and the pauses between chunks, sent to a local socket.

Two taps, each useful alone: the stat-logger plugin (found by its entry point) and the middleware
``--middleware stallscope_vllm.TokenTap``. Both run inside the engine's API server and therefore
never raise, never block and never do I/O in line: they append to a bounded queue, and one thread
does the rest.
"""

from stallscope_vllm.token_tap import TokenTap

__all__ = ["TokenTap"]
