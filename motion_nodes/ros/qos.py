# SPDX-License-Identifier: Apache-2.0
"""The quality-of-service profiles of the suite, one per use (docs/architecture.md#names)."""

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
"""Reader of a stream of which only the newest value counts; accepts any publisher."""

COMMANDS = _profile(10, reliable=False)
"""Reader of a stream whose partial messages all count (joint commands); accepts any publisher."""

REFERENCES = _profile(100, reliable=False)
"""Reader of joint_command: a controller that was late sends all that it missed at once."""

REFERENCE_STREAM = _profile(100, reliable=True)
"""Publisher of joint_command, of which every message counts, in such bunches too."""

STATES = _profile(10, reliable=False)
"""Reader of joint_states, which several publishers may share, each with some of the joints."""

STREAM = _profile(10, reliable=True)
"""Publisher of a stream (joint_states, odom, joint_command): serves best-effort readers too."""

REQUESTS = _profile(10, reliable=True)
"""Reader of one-shot commands that must not be lost (joint_trajectory)."""

ACTION_REQUESTS = _profile(100, reliable=True)
"""Requests to an action; with rcl's depth of 10 some of many goals at once get no answer."""

STATUS = _profile(10, reliable=True, latched=True)
"""A status that is told at each change; the last ones stay for those who come later."""

LATCHED = _profile(1, reliable=True, latched=True)
"""The last value stays for those who come later (robot_description)."""

STOP_STATES = _profile(100, reliable=True, latched=True)
"""Reader of /stop_state: the newest of each node of the suite, to which many nodes publish."""

TF = _profile(100, reliable=True)
"""/tf."""

TF_READER = _profile(1000, reliable=False)
"""Reader of /tf that looks only when it needs to: deep enough for what slow publishers sent."""

TF_STATIC = _profile(100, reliable=True, latched=True)
"""/tf_static."""

CLOCK = _profile(1, reliable=False)
"""/clock, as rclpy's own time source subscribes to it."""

DIAGNOSTICS = _profile(10, reliable=True)
"""/diagnostics."""

SCENES = _profile(100, reliable=True)
"""Planning scenes, whole ones and changes, each of which counts."""

SCENE_OBJECTS = _profile(10_000, reliable=True)
"""Reader of objects one by one: a client may send thousands at once."""
