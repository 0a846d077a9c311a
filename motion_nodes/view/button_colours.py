# SPDX-License-Identifier: Apache-2.0
"""Colours of buttons: motion buttons have the colour of the theme, stop buttons are red."""

from __future__ import annotations

from typing import Final

SECONDARY: Final = "gray"
"""For buttons that cause no motion or are rarely used."""
