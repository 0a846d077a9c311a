# SPDX-License-Identifier: Apache-2.0
"""Quality-of-service profiles, one per use (docs/architecture.md#names)."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _profile(depth: int, *, reliable: bool, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


NEWEST = _profile(1, reliable=False)
"""Subscription to a stream of which only the newest message is used."""

NEWEST_RELIABLE = _profile(1, reliable=True)
"""Pings of the supervisor and their echoes: acknowledged, and only the newest is used."""

COMMANDS = _profile(10, reliable=False)
"""Subscription to a stream of which every message is used (partial joint commands)."""

REFERENCES = _profile(100, reliable=False)
"""Subscription to joint_command, which a late controller publishes in bursts."""

REFERENCE_STREAM = _profile(100, reliable=True)
"""Publisher of joint_command, of which every message is used, also in bursts."""

STATES = _profile(10, reliable=False)
"""Subscription to joint_states, which several publishers may share, each for some joints."""

STREAM = _profile(10, reliable=True)
"""Publisher of a stream (joint_states, odom); also compatible with best-effort subscriptions."""

REQUESTS = _profile(10, reliable=True)
"""Subscription to one-shot commands that must not be lost (joint_trajectory)."""

SERVICES = _profile(1000, reliable=True)
"""Services and their clients, also of actions. With rcl's depth of 10, requests are lost if many
arrive at once, and responses if those to other clients, which arrive too, are more than that while
a client does not spin."""

STATUS = _profile(10, reliable=True, latched=True)
"""Publisher of a status on each change; late subscribers receive the last ones."""

LATCHED = _profile(1, reliable=True, latched=True)
"""Publisher of a value that late subscribers receive (robot_description)."""

STOP_STATES = _profile(100, reliable=True, latched=True)
"""Subscription to /stop_state, on which every node publishes."""

TF = _profile(100, reliable=True)
"""/tf."""

TF_READER = _profile(1000, reliable=False)
"""Subscription to /tf that is polled on demand: deep enough to keep slow publishers' messages."""

TF_STATIC = _profile(100, reliable=True, latched=True)
"""/tf_static."""

CLOCK = _profile(1, reliable=False)
"""/clock, as in rclpy's time source."""

DIAGNOSTICS = _profile(10, reliable=True)
"""/diagnostics."""

SCENES = _profile(100, reliable=True)
"""Planning scenes, complete ones and diffs."""

SCENE_OBJECTS = _profile(10_000, reliable=True)
"""Subscription to single collision objects, of which a client may send thousands at once."""
