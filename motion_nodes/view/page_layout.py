# SPDX-License-Identifier: Apache-2.0
"""Style of the panel: viser stacks all elements, and has neither grids nor fixed rows.

The style is an HTML element beside the elements it applies to, which it finds by their ids. In a
browser that does not know the selectors, the elements are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence

import viser


def selector(handle: viser.GuiInputHandle[bool]) -> str:
    """Return the CSS selector of a button."""
    return f'[id="{handle._impl.uuid}"]'


def bar_style(stop: viser.GuiInputHandle[bool], resume: viser.GuiInputHandle[bool]) -> str:
    """Return the style that keeps two buttons visible while the panel is scrolled."""
    both = f"div:has(> {selector(stop)}), div:has(> {selector(resume)})"
    rule = "position: sticky; top: 0; z-index: 20; background: var(--mantine-color-body)"
    # Elements around them that hide their overflow would scroll with the panel.
    around = f".mantine-ScrollArea-content div:has({selector(stop)})"
    return (
        f"<style>{both} {{ {rule}; }} div:has(> {selector(resume)}) {{ top: 2em; }} "
        f"{around} {{ overflow: clip !important; }}</style>"
    )


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
