# SPDX-License-Identifier: Apache-2.0
"""The web server of the page: port, access control, theme; prints nothing to the console."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import rich
import viser

from motion_nodes.view.free_port import PortInUse, free_port
from motion_nodes.view.page_access import PageAccess, guarded_servers


@contextlib.contextmanager
def quiet_viser() -> Iterator[None]:
    """Suppress viser's console output; the program prints the address itself."""
    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


def start_server(
    host: str,
    port: int,
    search: int,
    title: str,
    dark: bool,
    token: str | None,
    actions: Mapping[str, Callable[[], object]] | None = None,
) -> viser.ViserServer:
    """Start viser on a free port.

    Args:
        host: address to listen on.
        port: first port to try; 0: any free port.
        search: number of further ports to try.
        title: title of the panel.
        dark: use the dark theme.
        token: required of every request (see :mod:`.page_access`); None: no access control.
        actions: called for requests of these paths, see :class:`.PageAccess`.

    Raises:
        InvalidConfig: the host or port cannot be used.
        PortInUse: no port is free.
    """
    chosen = free_port(host, port, search)
    with quiet_viser(), guarded_servers(PageAccess(token, actions)):
        server = viser.ViserServer(host=host, port=chosen, label=title, verbose=False)
    taken = server.get_port()
    if taken != chosen and port and not port <= taken <= port + search:
        # Another program bound the port after the check, and viser chose a different one.
        stop_server(server)
        raise PortInUse(
            f"Port {chosen} on {host} was bound by another program; start the viewer again."
        )
    set_theme(server, dark)
    return server


def stop_server(server: viser.ViserServer) -> None:
    """Stop a server and release its port."""
    with quiet_viser():
        server.stop()


def set_theme(server: viser.ViserServer, dark: bool) -> None:
    """Apply the dark or light theme to all pages of a server."""
    # No share button: it would make the robots controllable from the internet.
    server.gui.configure_theme(
        dark_mode=dark, show_logo=False, show_share_button=False, control_width="large"
    )


def address_of(server: viser.ViserServer, token: str | None) -> str:
    """Return the address of the page, with the actual port and the token."""
    host = server.get_host()
    if host in ("", "0.0.0.0", "::"):
        host = "localhost"
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.get_port()}"
    return address if token is None else f"{address}/?token={token}"
