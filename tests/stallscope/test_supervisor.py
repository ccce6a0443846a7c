"""Programs are kept running, heard, announced, restarted and ended, whatever they do."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from stallscope.ports import answers, url_of, why_not_free
from stallscope.supervisor import Program, Supervisor
from tests.project.checkout import REPO

_SERVER = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _program(code: str, *words: str, port: int | None = None, needs_port: bool = False) -> Program:
    return Program(
        name="child",
        command=(sys.executable, "-c", code, *words),
        address="127.0.0.1",
        port=port or _free_port(),
        health="/",
        announcement="open      here",
        setting="child.port",
        needs_port=needs_port,
    )


class _Watched:
    """A supervisor that runs on this thread until what is waited for has been said."""

    def __init__(self, program: Program, **options: float) -> None:
        self.out = io.BytesIO()
        self.supervisor = Supervisor([program], self.out, **options)

    def run_until(self, condition: Callable[[str], bool], patience_s: float = 15.0) -> list[str]:
        stop = threading.Event()
        deadline = time.monotonic() + patience_s

        def watch() -> None:
            while not condition(self._said()) and time.monotonic() < deadline:
                time.sleep(0.02)
            stop.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert self.supervisor.run(stop) == 0
        watcher.join()
        return self._said().splitlines()

    def _said(self) -> str:
        return self.out.getvalue().decode()


def test_lines_of_a_program_get_its_name_and_empty_ones_go() -> None:
    watched = _Watched(_program("print('one\\n\\ntwo'); import time; time.sleep(60)"))
    said = watched.run_until(lambda text: "two" in text)
    assert [line for line in said if line.startswith("child")] == [
        "child     | one",
        "child     | two",
    ]


def test_what_is_no_text_and_a_line_without_end_are_passed_on_too() -> None:
    code = (
        "import sys, time; sys.stdout.buffer.write(b'\\xff' + b'x' * 40000); sys.stdout.flush();"
        "print('\\nlast', file=sys.stderr); time.sleep(60)"
    )
    said = _Watched(_program(code)).run_until(lambda text: "last" in text)
    assert sum(line.count("x") for line in said if line.startswith("child")) == 40_000
    assert any("\N{REPLACEMENT CHARACTER}" in line for line in said)


def test_a_program_that_answers_is_announced_once() -> None:
    port = _free_port()
    watched = _Watched(_program(_SERVER, str(port), port=port))
    said = watched.run_until(lambda text: "open" in text)
    assert said.count("up        | open      here") == 1


def test_a_program_that_ends_is_started_again_later_and_later() -> None:
    started = time.monotonic()
    watched = _Watched(_program("raise SystemExit(3)"), first_pause_s=0.1)
    said = watched.run_until(lambda text: text.count("ended") == 3)
    ends = [line for line in said if "ended" in line]
    assert ends == [
        f"up        | child: ended with exit status 3; started again in {pause} s"
        for pause in ("0.1", "0.2", "0.4")
    ]
    assert time.monotonic() - started >= 0.1 + 0.2


def test_a_program_that_is_killed_is_reported_by_its_signal() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    said = _Watched(_program(code)).run_until(lambda text: "ended" in text)
    assert "up        | child: ended with signal 9; started again in 1 s" in said


def test_a_program_that_cannot_be_started_is_named_and_tried_again() -> None:
    program = Program("child", ("/nowhere/program",), "127.0.0.1", _free_port(), "/", "", "", False)  # noqa: FBT003
    said = _Watched(program, first_pause_s=0.05).run_until(lambda text: text.count("cannot") == 2)
    assert "up        | child: cannot be started: No such file or directory" in said


def test_a_program_that_needs_a_taken_port_waits_for_it_and_says_so_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        watched = _Watched(_program("print('ran')", port=port, needs_port=True), first_pause_s=0.05)
        said = watched.run_until(lambda _: False, patience_s=1.0)
    complaint = (
        f"up        | child: port {port} on 127.0.0.1 is taken by another program; it waits, the "
        "rest runs. Choose another child.port"
    )
    assert said.count(complaint) == 1
    assert "child     | ran" not in said
    said = watched.run_until(lambda text: "ran" in text)
    assert "child     | ran" in said


def test_a_program_that_can_do_without_its_port_runs_but_is_not_announced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        watched = _Watched(_program("import time; print('ran'); time.sleep(60)", port=port))
        said = watched.run_until(lambda text: "ran" in text)
    assert any("is taken by another program; it runs without" in line for line in said)
    assert not any("open" in line for line in said)


def test_a_program_gets_sigterm_and_may_say_its_last_words() -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*words):\n    print('sealed')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready')\ntime.sleep(60)"
    )
    said = _Watched(_program(code)).run_until(lambda text: "ready" in text)
    assert said[-3:] == ["up        | stopping", "child     | sealed", "up        | stopped"]


def test_a_program_that_ignores_sigterm_is_killed_with_all_it_started(tmp_path: Path) -> None:
    told = tmp_path / "grandchild"
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\nprint('ready')\ntime.sleep(600)"
    )
    watched = _Watched(_program(code, str(told)), patience_s=0.3)
    started = time.monotonic()
    said = watched.run_until(lambda text: "ready" in text)
    assert time.monotonic() - started < 10
    assert "up        | child: does not end and is killed" in said
    _wait_for(lambda: not _runs(int(told.read_text())))


def test_nobody_reading_our_lines_stops_nothing() -> None:
    class Closed(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError(data)

    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    assert Supervisor([_program("print('x' * 100000)")], Closed()).run(stop) == 0


_KILLED = """
import os, sys, threading
from stallscope.supervisor import Program, Supervisor
child = (
    "import os, time; from stallscope.commands.stopping import follow_supervisor;"
    "follow_supervisor(); print('child', os.getpid()); time.sleep(600)"
)
command, port = (sys.executable, "-c", child), int(sys.argv[1])
program = Program("child", command, "127.0.0.1", port, "/", "", "", False)
Supervisor([program], sys.stdout.buffer).run(threading.Event())
"""


def test_a_program_ends_when_its_supervisor_is_killed() -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(_free_port())], cwd=REPO, stdout=subprocess.PIPE
    )
    with supervisor:
        assert supervisor.stdout is not None
        for line in supervisor.stdout:
            if line.startswith(b"child     | child"):
                break
        child = int(line.rpartition(b" ")[2])
        assert _runs(child)
        supervisor.kill()
    _wait_for(lambda: not _runs(child))


@pytest.mark.parametrize("to_group", [False, True], ids=["supervisor", "group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_collects_serves_and_ends_cleanly(
    tmp_path: Path,
    number: signal.Signals,
    to_group: bool,  # noqa: FBT001
) -> None:
    ports = _free_port(), _free_port()
    lake = tmp_path / "lake"
    up = subprocess.Popen(
        [sys.executable, "-P", "-m", "stallscope.cli", "up", "--lake", str(lake),
         "--set", f"collect.listen_port={ports[0]}", "--set", f"dashboard.port={ports[1]}",
         "--set", "discovery.enabled=false"],
        stdout=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    said: list[str] = []
    with up:
        assert up.stdout is not None
        for line in up.stdout:
            said.append(line)
            if sum("up        | open" in one or "up        | metrics" in one for one in said) == 2:
                break
        children = _children_of(up.pid)
        page = urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/", timeout=5)
        assert page.status == 200
        started = time.monotonic()
        (os.killpg if to_group else os.kill)(up.pid, number)
        said += up.stdout.readlines()
        assert up.wait(10) == 0
        assert time.monotonic() - started < 9.5
    assert f"up        | lake      {lake}\n" in said
    assert f"up        | open      http://127.0.0.1:{ports[1]}\n" in said
    assert f"up        | metrics   http://127.0.0.1:{ports[0]}/metrics\n" in said
    assert said[-1] == "up        | stopped\n"
    assert "everything is sealed" in "".join(said)
    assert "Traceback" not in "".join(said)
    assert len(children) == 2
    assert [child for child in children if _runs(child)] == []
    assert list((lake / "journal").rglob("*.journal")) == []


def test_an_address_that_is_not_ours_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*words: object, **more: object) -> list[object]:
        raise OSError(99, f"Cannot assign requested address{'' if words or more else '!'}")

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    assert why_not_free("192.0.2.1", 8501) == (
        "port 8501 on 192.0.2.1 cannot be had: Cannot assign requested address"
    )


def test_an_address_in_ipv6_is_put_in_brackets() -> None:
    assert url_of("::1", 8501, "/x") == "http://[::1]:8501/x"


def test_something_that_speaks_no_http_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail\r\n\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        assert not answers("127.0.0.1", port, "/")
        thread.join()


def _children_of(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(child) for child in re.findall(r"\d+", tasks)]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except OSError:
        return False


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
