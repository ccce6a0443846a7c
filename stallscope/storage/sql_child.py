"""The process of one query: ``python -m stallscope.storage.sql_child``, request on stdin.

It confines itself before it imports what starts threads, sends the result to stdout as an Arrow
stream and leaves its report in the scratch folder.
"""

from __future__ import annotations

import dataclasses
import sys

from stallscope.storage.sql_request import Request
from stallscope.storage.sql_sandbox import enter


def main() -> None:
    """Answer the request on stdin."""
    request = Request.decode(sys.stdin.buffer.read())
    sandbox = enter(request.lake, request.scratch, request.limits.memory_mb)
    from stallscope.storage.sql_session import answer  # noqa: PLC0415 - threads start with it

    report = answer(request, sys.stdout.buffer)
    dataclasses.replace(report, sandbox=sandbox).write(request.scratch)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
