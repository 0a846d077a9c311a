# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by the files of this folder."""

from scene_translation import messages, robot

__all__ = ["messages", "robot"]
