# SPDX-License-Identifier: Apache-2.0
"""State of the reactive policy for its reports."""

from __future__ import annotations

from typing import NamedTuple

from motion_nodes.rmpflow.follower_settings import Phase
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.rmpflow.status import Errors
from motion_nodes.rmpflow.targets import FollowerCommand


class PolicySnapshot(NamedTuple):
    """State after a step; immutable, so any thread may read it."""

    phase: Phase
    text: str
    errors: Errors
    servo: FollowerCommand | None
    """Active Servo command, if any."""
    view: PolicyView | None
    """View of the last step; None while no references are sent."""
