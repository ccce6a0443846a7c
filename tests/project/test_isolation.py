"""The fences that conftest puts around every test hold."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 9), ("2001:db8::1", 9)], ids=["v4", "v6"])
def test_other_machines_are_out_of_reach(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as probe,
        pytest.raises(RuntimeError, match=r"socket\.connect to"),
    ):
        probe.connect(address)


def test_names_of_other_machines_are_not_looked_up() -> None:
    with pytest.raises(RuntimeError, match=r"looked up 'host\.example'"):
        socket.create_connection(("host.example", 9), timeout=1)


def test_loopback_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()[:2], timeout=5) as client:
            client.sendall(b"x")
            accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b"x"


def test_home_is_not_the_persons_own() -> None:
    assert Path.home().name.startswith("stallscope-home-")
    assert "XDG_STATE_HOME" not in os.environ
