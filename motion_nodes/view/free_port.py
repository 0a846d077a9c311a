# SPDX-License-Identifier: Apache-2.0
"""Choice of the TCP port of the web page.

viser itself would try a thousand ports without a message, and block forever if the host cannot be
bound. So the port is chosen here first.
"""

from __future__ import annotations

import errno
import socket

from motion_nodes.errors import InvalidConfig, MotionError

_TAKEN = (errno.EADDRINUSE, errno.EACCES)


class PortInUse(MotionError, OSError):
    """No port is free."""


def free_port(host: str, port: int, search: int) -> int:
    """Return the first free port.

    Args:
        host: address to listen on.
        port: first port to try; 0: chosen by the system.
        search: number of further ports to try.

    Raises:
        InvalidConfig: the port or search is out of range, or the host cannot be bound.
        PortInUse: all ports are in use.
    """
    if not 0 <= port <= 65535:
        raise InvalidConfig(
            f"port is {port}; it must be 0 (any free port) or 1 to 65535.", field="port"
        )
    if search < 0:
        raise InvalidConfig(f"port_search is {search}; it must be 0 or more.", field="port_search")
    last = min(port + search, 65535) if port else 0
    for candidate in range(port, last + 1):
        bound = _bind(host, candidate)
        if bound is not None:
            return bound
    tried = f"port {port} is" if last == port else f"ports {port} to {last} are"
    raise PortInUse(
        f"Cannot open the viewer's page: {tried} in use on {host}. Stop the program that listens "
        "there (perhaps another viewer), or choose another port; 0 selects any free port."
    )


def _bind(host: str, port: int) -> int | None:
    """Return the port if it can be bound, None if it is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As asyncio does, so that a recently closed viewer does not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno in _TAKEN:
            return None
        raise InvalidConfig(
            f"Cannot listen on host '{host}' ({error}). Use 127.0.0.1 for this machine only, or "
            "0.0.0.0 for all network interfaces.",
            field="host",
        ) from None
