# SPDX-License-Identifier: Apache-2.0
"""Colours of buttons on the page; those that move a robot have the page's own, stops are red."""

from __future__ import annotations

from typing import Final

SECONDARY: Final = "gray"
"""Buttons that move nothing, or are rarely needed."""
