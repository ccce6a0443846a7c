"""Whether a TCP port can be had, said so that a person knows what to do."""

from __future__ import annotations

import errno
import http.client
import socket

_PATIENCE_S = 0.5


def why_not_free(address: str, port: int) -> str:
    """Return why nobody could listen there now, or an empty string when somebody could.

    Args:
        address: Host name or IP address.
        port: TCP port.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} on {address} is taken by another program"
        return f"port {port} on {address} cannot be had: {error.strerror or error}"
    return ""


def answers(address: str, port: int, path: str) -> bool:
    """Return whether an HTTP server there answers a path with 200 within half a second."""
    connection = http.client.HTTPConnection(address, port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def url_of(address: str, port: int, path: str = "") -> str:
    """Return the address of a page."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}"
