# SPDX-License-Identifier: Apache-2.0
"""The server behind the page: a free port, the look of the panel, no words of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import rich
import viser

from motion_nodes.view.free_port import PortInUse, free_port
from motion_nodes.view.page_access import PageAccess, guarded_servers


@contextlib.contextmanager
def quiet_viser() -> Iterator[None]:
    """Keep viser from printing addresses and farewells: programs print ``url`` where they like."""
    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


def start_server(
    host: str, port: int, search: int, title: str, dark: bool, token: str | None
) -> viser.ViserServer:
    """Start viser on a free port.

    Args:
        host: address to listen on.
        port: first port to try; 0 takes any free one.
        search: how many ports after it may be tried.
        title: of the panel.
        dark: dark page.
        token: that requests must bring (see :mod:`.page_access`); None: none.

    Raises:
        PortInUse: when no port was free.
    """
    chosen = free_port(host, port, search)
    with quiet_viser(), guarded_servers(PageAccess(token)):
        server = viser.ViserServer(host=host, port=chosen, label=title, verbose=False)
    taken = server.get_port()
    if taken != chosen and port and not port <= taken <= port + search:
        # Somebody took it between the check and the start, and viser went on by itself.
        with quiet_viser():
            server.stop()
        raise PortInUse(f"Port {chosen} on {host} was taken just now; start the viewer again.")
    set_theme(server, dark)
    return server


def set_theme(server: viser.ViserServer, dark: bool) -> None:
    """Make all pages of a server dark or light."""
    # No share button: it would open a door to the robots from the whole internet.
    server.gui.configure_theme(
        dark_mode=dark, show_logo=False, show_share_button=False, control_width="large"
    )


def address_of(server: viser.ViserServer, token: str | None) -> str:
    """Return the address of the page, with the port that was really taken and its token."""
    host = server.get_host()
    if host in ("", "0.0.0.0", "::"):
        host = "localhost"
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.get_port()}"
    return address if token is None else f"{address}/?token={token}"
