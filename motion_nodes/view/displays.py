# SPDX-License-Identifier: Apache-2.0
"""Displays beside the robots: frames of /tf, a point cloud, an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.view.cloud_view import Cloud, CloudView
from motion_nodes.view.displays_panel import DisplaysPanel, Selection
from motion_nodes.view.draw_loop import DrawLoop
from motion_nodes.view.frame_tree import FrameTree
from motion_nodes.view.frame_view import FrameView


class Displays:
    """Shows the displays selected on the page; updates may come from any thread.

    Args:
        server: the viser server.
        drawing: the thread that draws.
        on_loop: schedules a call on viser's event loop.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        drawing: DrawLoop,
        on_loop: Callable[[Callable[[], None]], None],
    ) -> None:
        """Add the folder."""
        self._drawing, self._on_loop = drawing, on_loop
        self._frames = FrameView(server.scene, "/tf")
        self._cloud = CloudView(server.scene, "/cloud")
        self._panel = DisplaysPanel(server.gui, drawing.request)

    @property
    def selected(self) -> Selection:
        """Selection on the page."""
        return self._panel.selected

    def set_topics(self, clouds: Sequence[str], images: Sequence[str]) -> None:
        """Offer topics of point clouds and images."""
        self._panel.set_topics(clouds, images)

    def set_message(self, text: str) -> None:
        """Show one line of text below the displays; empty: none."""
        self._panel.set_message(text)

    def set_frames(self, tree: FrameTree) -> None:
        """Show frames."""
        self._frames.set_frames(tree)
        self._drawing.request_if_watched()

    def set_cloud(self, cloud: Cloud) -> None:
        """Show a point cloud in place of the previous one."""
        self._cloud.set_cloud(cloud)
        self._drawing.request_if_watched()

    def set_image(self, topic: str, pixels: NDArray[np.uint8]) -> None:
        """Show an image of a topic, shape (h, w, 3)."""
        self._on_loop(lambda: self._panel.show_image(topic, pixels))

    def draw(self) -> None:
        """Send changes of the scene; on the drawing thread."""
        selected = self.selected
        self._frames.draw(selected.frames, selected.names)
        self._cloud.draw(selected.cloud)

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        self._panel.refresh()
