# SPDX-License-Identifier: Apache-2.0
"""Notifications in the corner of pages."""

from __future__ import annotations

from collections.abc import Iterable

import viser

from motion_nodes.view.status_text import shortened

DURATION = 8.0
"""Time for which a notification is shown [s]."""


def notify(clients: Iterable[viser.ClientHandle], title: str, text: str) -> None:
    """Show a notification on pages for some seconds; on viser's event loop.

    Args:
        clients: the pages.
        title: of the notification.
        text: one or several lines of plain text.
    """
    for client in clients:
        # Not Markdown: escapes would be shown.
        client.add_notification(title, shortened(text), auto_close_seconds=DURATION, color="red")
