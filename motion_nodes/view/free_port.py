# SPDX-License-Identifier: Apache-2.0
"""Finding a TCP port for the web page.

viser by itself tries a thousand ports in silence, and waits for ever when the host cannot be
bound at all. So the port is chosen here first.
"""

from __future__ import annotations

import errno
import socket

from motion_nodes.errors import InvalidConfig, MotionError

_TAKEN = (errno.EADDRINUSE, errno.EACCES)


class PortInUse(MotionError, OSError):
    """No port was free."""


def free_port(host: str, port: int, search: int) -> int:
    """Return the first free port.

    Args:
        host: address to listen on.
        port: first port to try; 0 lets the system choose.
        search: how many further ports may be tried.

    Raises:
        InvalidConfig: when port, search or host cannot be used at all.
        PortInUse: when all are taken; the text says what to do.
    """
    if not 0 <= port <= 65535:
        raise InvalidConfig(f"port is {port}; it must be 0 (any) or 1 to 65535.")
    if search < 0:
        raise InvalidConfig(f"port_search is {search}; it must be 0 or more.")
    last = min(port + search, 65535) if port else 0
    for candidate in range(port, last + 1):
        bound = _bind(host, candidate)
        if bound is not None:
            return bound
    tried = f"port {port} is" if last == port else f"ports {port} to {last} are"
    raise PortInUse(
        f"Cannot open the viewer's page: {tried} in use on {host}. Stop the program that listens "
        "there (perhaps another viewer), or choose another port; port 0 takes any free one."
    )


def _bind(host: str, port: int) -> int | None:
    """Return the port if it can be bound just now, None if it is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As asyncio does, so that a viewer closed a moment ago does not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno in _TAKEN:
            return None
        raise InvalidConfig(
            f"Cannot listen on host '{host}' ({error}). Use 127.0.0.1 for this machine only, or "
            "0.0.0.0 for every network it is in."
        ) from None
