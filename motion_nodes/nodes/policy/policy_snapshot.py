# SPDX-License-Identifier: Apache-2.0
"""What the reactive policy's loop leaves behind for those who tell of it."""

from __future__ import annotations

from typing import NamedTuple

from motion_nodes.rmpflow.follower_settings import Phase
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.rmpflow.status import Errors
from motion_nodes.rmpflow.targets import FollowerCommand


class PolicyNews(NamedTuple):
    """Replaced as a whole, so any thread may read it."""

    phase: Phase
    text: str
    errors: Errors
    servo: FollowerCommand | None
    """The speed that is followed, if it is one."""
    view: PolicyView | None
    """Of the last step; None while nothing is told to the robot."""
