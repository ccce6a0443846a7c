"""The process of one query: ``python -m stallscope.sql.child``, request on stdin.

It confines itself before it imports what starts threads, sends the result to stdout as an Arrow
stream and leaves its report in the scratch folder.
"""

from __future__ import annotations

import dataclasses
import sys

from stallscope.sql.request import Request
from stallscope.sql.sandbox import enter


def main() -> None:
    """Answer the request on stdin."""
    request = Request.decode(sys.stdin.buffer.read())
    sandbox = enter(request.lake, request.scratch, request.limits.memory_mb)
    from stallscope.sql.session import answer  # noqa: PLC0415 - threads start with it

    report = answer(request, sys.stdout.buffer)
    dataclasses.replace(report, sandbox=sandbox).write(request.scratch)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
