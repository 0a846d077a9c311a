# SPDX-License-Identifier: Apache-2.0
"""The drive pads of all robots: repeated twists, and stops when a page disconnects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import viser

from motion_nodes.view.drive_panel import DrivePanel
from motion_nodes.view.stale_pages import PageWatch
from motion_nodes.view.ui_queue import CallbackQueue

SendTwist = Callable[[str, float, float, float], None]
"""Robot, vx, vy [m/s] and wz [rad/s] in its base frame."""


class BaseDriving:
    """Sends the twists of drive pads, and monitors the pages that latched one.

    Args:
        server: the viser server.
        send: called with each twist, on the thread of the callbacks.
    """

    def __init__(self, server: viser.ViserServer, send: SendTwist) -> None:
        """Start without drive pads."""
        self._send = send
        self._pads: dict[str, DrivePanel] = {}
        self.callbacks = CallbackQueue(self._repeat)
        """Queue of all callbacks of the viewer."""
        self._watch = PageWatch(server, self._latching_pages, self.client_left)

    def set_pads(self, pads: Mapping[str, DrivePanel]) -> None:
        """Set the drive pads of the robots, by name."""
        self._pads = dict(pads)

    def changed(self) -> None:
        """Send the twist of a drive pad that has changed."""
        self.callbacks.start_repeating()
        self._watch.update()

    def client_left(self, client: int) -> None:
        """Stop the drives of a page that was disconnected."""
        for pad in self._pads.values():
            pad.client_left(client)

    def stop(self) -> None:
        """Stop all active drives."""
        for pad in self._pads.values():
            pad.stop_if_driving()

    def close(self) -> None:
        """Send zero to driving bases, execute pending callbacks and end the threads."""
        for name, pad in self._pads.items():
            if pad.stop_if_driving():
                zero = functools.partial(self._send, name, 0.0, 0.0, 0.0)
                self.callbacks.put(("twist", name), zero)
        self.callbacks.close()
        self._watch.close()

    def _latching_pages(self) -> set[int]:
        latched = (pad.latched_by() for pad in self._pads.values())
        return {page for page in latched if page is not None}

    def _repeat(self) -> bool:
        """Send the current twists; return whether any drive is active."""
        any_active = False
        for name, pad in self._pads.items():
            twist, active = pad.step()
            any_active |= active
            if twist is not None:
                self._send(name, twist.vx, twist.vy, twist.wz)
        return any_active
