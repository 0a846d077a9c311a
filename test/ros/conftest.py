# SPDX-License-Identifier: Apache-2.0
"""Fixtures that files of this room share."""

from scene_translation import messages, robot

__all__ = ["messages", "robot"]
