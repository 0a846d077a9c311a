# SPDX-License-Identifier: Apache-2.0
"""The demo's shows, each a client of a suite that is starting, and what runs one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions

from motion_nodes.errors import MotionError, did_you_mean
from motion_nodes.nodes.demo.arm import ArmClient, show_elbow, show_retraction
from motion_nodes.nodes.demo.client import DemoFindings
from motion_nodes.nodes.demo.follow import IK, RMPFLOW, TARGET_TOPICS, FollowClient, show_following
from motion_nodes.nodes.demo.journey import DemoClient, journey
from motion_nodes.planning.warm_up import is_prepared
from motion_nodes.ros import signals

READY_WITHIN = 30.0
"""[s]"""
PLANNING_READY_WITHIN = 170.0
"""[s] The first time on a machine, the planner's kernels are compiled."""
BOTH = ("franka:=franka", "jetbot:=jetbot@0.5,-0.5,1.5708")
BOTH_TEXT = "a Franka and a Jetbot"


@dataclass(frozen=True)
class Show:
    """What a demo shows."""

    robots: tuple[str, ...]
    """What is brought up, each as [NAMESPACE:=]ROBOT[@X,Y,YAW]."""
    robots_text: str
    client: Callable[[], Any]
    play: Callable[[Any, DemoFindings], None]
    parts: frozenset[str]
    """What guests may take over."""
    ready_within: float = READY_WITHIN
    """[s]"""


SHOWS = {
    "follow": Show(
        BOTH, BOTH_TEXT, FollowClient, show_following,
        frozenset({"base", "target", "ball"}), PLANNING_READY_WITHIN,
    ),
    "journey": Show(BOTH, BOTH_TEXT, DemoClient, journey, frozenset({"base", "arm"})),
    "elbow": Show(
        ("franka:=franka",), "a Franka", ArmClient, show_elbow, frozenset({"arm"})
    ),
    "retract": Show(
        ("franka:=franka",), "a Franka", ArmClient, show_retraction, frozenset({"arm"})
    ),
}  # fmt: skip
"""By name."""
FOLLOWED_BY_IK = replace(
    SHOWS["follow"], client=lambda: FollowClient(IK), parts=frozenset({"base", "target"})
)
"""The show "follow" by inverse kinematics, which gives way to nothing."""


def show_of(name: str, by: str = RMPFLOW) -> Show:
    """Return a show.

    Args:
        name: of the show.
        by: who follows in it, where somebody follows.

    Raises:
        MotionError: lists what there is.
    """
    if name not in SHOWS:
        raise MotionError(f"demo '{name}' is not known.{did_you_mean(name, SHOWS)}")
    if by not in TARGET_TOPICS:
        raise MotionError(f"nothing follows by '{by}'.{did_you_mean(by, TARGET_TOPICS)}")
    if name != "follow" and by != RMPFLOW:
        raise MotionError(f"in '{name}' nothing is followed; --with is for the show 'follow'.")
    return FOLLOWED_BY_IK if by == IK else SHOWS[name]


def run_demo(show: Show, *, headless: bool, watch: Callable[[], bool]) -> int:
    """Run a show's client against a suite that is starting.

    Args:
        show: what to show.
        headless: once, then return; else again and again until a stop is asked for.
        watch: looks after the suite's processes; False when they are gone.

    Returns:
        Exit code: 0 when every check held.
    """
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    findings = DemoFindings()
    client = show.client()
    try:
        patience = show.ready_within
        if not client.wait(lambda: client.ready or not watch(), patience) or not watch():
            if not signals.STOP.is_set():
                findings.check(False, f"the suite was not ready within {patience:.0f} s")
            return 0 if findings.ok else 1
        if headless and not is_prepared():
            # A person need not wait, but it takes a processor from loops that are measured.
            print("demo: the planner's kernels are being compiled, once on a machine", flush=True)
            client.wait(lambda: is_prepared() or not watch(), PLANNING_READY_WITHIN)
        print(f"demo: {show.robots_text} up; the show begins", flush=True)
        while watch():
            show.play(client, findings)
            if headless or not client.spin(2.0):
                break
            if client.guests == show.parts:
                while watch() and client.spin(0.5):
                    pass
    finally:
        client.node.destroy_node()
        rclpy.try_shutdown()
    print(f"demo: {'all checks hold' if findings.ok else 'NOT as it should be'}", flush=True)
    sys.stdout.flush()
    return 0 if findings.ok else 1
