# SPDX-License-Identifier: Apache-2.0
"""Quality-of-service profiles, one per use; docs/interfaces.md lists that of each endpoint."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from motion_nodes.errors import InvalidConfig, did_you_mean


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
"""Subscription to /tf that is polled: deep enough for half a second of many robots."""

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

MAX_DEPTH = 100_000
"""Largest depth that an override may set."""
_WORDS = {
    QoSPolicyKind.HISTORY: HistoryPolicy,
    QoSPolicyKind.RELIABILITY: ReliabilityPolicy,
    QoSPolicyKind.DURABILITY: DurabilityPolicy,
    QoSPolicyKind.LIVELINESS: LivelinessPolicy,
}


def overridden(
    given: Mapping[str, Any], side: str, topic: str, profile: QoSProfile
) -> tuple[QoSProfile, QoSOverridingOptions | None]:
    """Return a profile and the policies of it that parameters override, as rclpy takes them.

    Only policies that were given become parameters of the node.

    Args:
        given: parameters given to the node, by name: ``qos_overrides./TOPIC.SIDE.POLICY``.
        side: "publisher" or "subscription".
        topic: full name of the topic.
        profile: without overrides.

    Raises:
        InvalidConfig: an unknown policy or value.
    """
    prefix = f"qos_overrides.{topic}.{side}."
    names = [name for name in given if name.startswith(prefix)]
    kinds = {kind.name.lower(): kind for kind in QoSPolicyKind.__members__.values()}
    kinds.pop("invalid", None)
    if side == "subscription":
        del kinds["lifespan"]
    chosen = []
    for name in names:
        word, value = name.removeprefix(prefix), given[name].value
        if word not in kinds:
            raise InvalidConfig(
                f"{name}: there is no policy '{word}'.{did_you_mean(word, kinds)}", field=name
            )
        kind = kinds[word]
        if kind in _WORDS:
            members = [m.lower() for m in _WORDS[kind].__members__ if m != "UNKNOWN"]
            allowed, fits = ", ".join(members), isinstance(value, str) and value in members
        elif kind is QoSPolicyKind.AVOID_ROS_NAMESPACE_CONVENTIONS:
            allowed, fits = "true, false", isinstance(value, bool)
        else:
            most = MAX_DEPTH if kind is QoSPolicyKind.DEPTH else 2**62
            allowed = f"1 to {most}" if kind is QoSPolicyKind.DEPTH else "nanoseconds"
            fits = type(value) is int and 1 <= value <= most
        if not fits:
            raise InvalidConfig(f"{name} is {value!r}; allowed: {allowed}", field=name)
        chosen.append(kind)
    return (copy.copy(profile), QoSOverridingOptions(chosen)) if chosen else (profile, None)
