# SPDX-License-Identifier: Apache-2.0
"""The folder of displays on the panel: frames of /tf, a point cloud, an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.view.status_text import plain

OFF = "(off)"
"""Option of a disabled display."""
MAX_WIDTH = 480
"""Max width of an image on the panel [pixels]; of larger ones every n-th pixel is sent."""
JPEG_QUALITY = 80


@dataclass(frozen=True)
class Selection:
    """Selected displays."""

    frames: bool = False
    """Whether to show frames of /tf."""
    names: bool = True
    """Whether to show frame names."""
    cloud: str = ""
    """Topic of a point cloud; empty: none."""
    image: str = ""
    """Topic of an image; empty: none."""


class DisplaysPanel:
    """Selects the displays in addition to the robots.

    Args:
        gui: viser's panel.
        redraw: called when the selection changes.
    """

    def __init__(self, gui: viser.GuiApi, redraw: Callable[[], None]) -> None:
        """Add the folder."""
        self._gui = gui
        self._topics: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._text = ""
        with gui.add_folder("Displays", expand_by_default=False) as self._folder:
            self.frames = gui.add_checkbox("TF", False, hint="Axes of all frames of /tf.")
            self.names = gui.add_checkbox("Frame names", True, hint="Names of these frames.")
            self.cloud = gui.add_dropdown(
                "PointCloud2", (OFF,), hint="Points of a sensor: their own colours, or by height."
            )
            self.image = gui.add_dropdown(
                "Image", (OFF,), hint="A colour image, or a depth image: near is bright."
            )
            self._line = gui.add_markdown("", visible=False)
        self.picture: viser.GuiImageHandle | None = None
        for element in (self.frames, self.names, self.cloud, self.image):
            element.on_update(lambda _: redraw())

    @property
    def selected(self) -> Selection:
        """Displays to be shown; from any thread."""
        cloud, image = (
            "" if box.value == OFF else str(box.value) for box in (self.cloud, self.image)
        )
        return Selection(bool(self.frames.value), bool(self.names.value), cloud, image)

    def set_topics(self, clouds: Sequence[str], images: Sequence[str]) -> None:
        """Store the topics to choose from."""
        self._topics = tuple(clouds), tuple(images)

    def set_message(self, text: str) -> None:
        """Store a line of text below the displays; empty: none."""
        self._text = text

    def show_image(self, topic: str, pixels: NDArray[np.uint8]) -> None:
        """Show an image of a topic, shape (h, w, 3); on viser's event loop."""
        if topic != self.selected.image or not pixels.size:
            return  # another topic is selected, or the image is empty
        small = np.ascontiguousarray(pixels[:: _step(pixels), :: _step(pixels)])
        if self.picture is None:
            with self._folder:
                self.picture = self._gui.add_image(
                    small, format="jpeg", jpeg_quality=JPEG_QUALITY, label=topic
                )
        else:
            self.picture.image = small

    def refresh(self) -> None:
        """Update the elements; on viser's event loop."""
        for box, topics in zip((self.cloud, self.image), self._topics, strict=True):
            # A selected topic stays in the list even without publishers.
            options = (OFF, *sorted({*topics, str(box.value)} - {OFF}))
            if options != tuple(box.options):
                box.options = options
        if self.picture is not None and self.picture.label != self.selected.image:
            self.picture.remove()
            self.picture = None
        text = plain(self._text)
        if text != self._line.content:
            self._line.content, self._line.visible = text, bool(text)


def _step(pixels: NDArray[np.uint8]) -> int:
    return -(-int(pixels.shape[1]) // MAX_WIDTH)
