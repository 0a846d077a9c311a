# SPDX-License-Identifier: Apache-2.0
"""Style of the panel: viser stacks all elements, and has neither grids nor fixed rows.

The style is an HTML element beside the elements it applies to, which it finds by their ids. In a
browser that does not know the selectors, the elements are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence

import viser

_STICKY = "position: sticky; z-index: 20; background: var(--mantine-color-body)"
BUTTON_HEIGHT = 2.0
"""Height of a button on the bar [em]."""


def selector(handle: viser.GuiInputHandle[bool] | viser.GuiInputHandle[float]) -> str:
    """Return the CSS selector of an element."""
    return f'[id="{handle._impl.uuid}"]'


def bar_style(stop: viser.GuiInputHandle[bool], resume: viser.GuiInputHandle[bool]) -> str:
    """Return the style that keeps two buttons visible while the panel is scrolled."""
    both = f"div:has(> {selector(stop)}), div:has(> {selector(resume)})"
    return (
        f"<style>{both} {{ {_STICKY}; top: 0; }} "
        f"div:has(> {selector(resume)}) {{ top: {BUTTON_HEIGHT}em; }} "
        f"{_unclipped(stop)} "
        # What follows the buttons on the bar is below them.
        f"div:has(> div > {selector(stop)}) {{ --bar: {BUTTON_HEIGHT}em; }} "
        f"div:has(> div > {selector(resume)}) {{ --bar: {2.0 * BUTTON_HEIGHT}em; }}</style>"
    )


def row_style(fields: Sequence[viser.GuiInputHandle[float]]) -> str:
    """Return the style that keeps number fields visible on one row, below the buttons of the bar.

    Args:
        fields: they follow each other in their container.
    """
    boxes = [f"div:has(> .mantine-Flex-root {selector(field)})" for field in fields]
    labels = ", ".join(f"{box} > .mantine-Flex-root > div:first-child" for box in boxes)
    return (
        f"<style>{', '.join(boxes)} {{ {_STICKY}; top: var(--bar, 0); display: inline-block; "
        f"width: {100.0 / len(fields):.4g}%; padding-top: 0.3em; padding-bottom: 0.3em; "
        f"box-sizing: border-box; vertical-align: top; }} {_unclipped(fields[0])} "
        f"{labels} {{ width: auto !important; }}</style>"
    )


def _unclipped(handle: viser.GuiInputHandle[bool] | viser.GuiInputHandle[float]) -> str:
    """Return the style with which an element of the bar does not scroll with the panel."""
    # It would with the elements around it that hide their overflow.
    around = f".mantine-ScrollArea-content div:has({selector(handle)})"
    return f"{around} {{ overflow: clip !important; }}"


def grid_style(rows: Sequence[Sequence[viser.GuiButtonHandle | None]]) -> str:
    """Return the style that arranges buttons of a container in a grid.

    Args:
        rows: rows of the same length; None: empty. The buttons were added in this order.
    """
    buttons = [button for row in rows for button in row if button is not None]
    box = f"div:has(> div > {selector(buttons[0])})"
    lines = [
        f"{box} {{ display: grid; grid-template-columns: repeat({len(rows[0])}, 1fr); }}",
        f"{box} > * {{ grid-column: 1 / -1; min-width: 0; }}",
    ]
    for row in rows:
        for column, button in enumerate(row, start=1):
            if button is not None:
                name = selector(button)
                lines.append(f"{box} > div:has(> {name}) {{ grid-column: {column}; }}")
                lines.append(f"{box} > div > {name} {{ padding: 0; }}")
    return f"<style>{' '.join(lines)}</style>"
