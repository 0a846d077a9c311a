# SPDX-License-Identifier: Apache-2.0
"""Shows of the demo, which are clients of a starting suite, and their execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions

from motion_nodes.core.planning.warm_up import is_prepared
from motion_nodes.errors import MotionError, did_you_mean
from motion_nodes.nodes.demo.arm import (
    RETRACTION_CHECKS,
    ArmClient,
    DemoFindings,
    show_elbow,
    show_retraction,
)
from motion_nodes.nodes.demo.base import ARM_CHECKS, SQUARE_CHECKS, DemoClient, journey
from motion_nodes.nodes.demo.follow import IK, RMPFLOW, TARGET_TOPICS, FollowClient, show_following
from motion_nodes.nodes.demo.learned_policies import (
    DRAWER_CHECKS,
    DRAWER_POLICY,
    DRAWER_ROBOTS,
    WALK_CHECKS,
    WALK_POLICY,
    DrawerClient,
    WalkClient,
    show_drawer,
    show_walking,
)
from motion_nodes.nodes.demo.party import CHECKS as PARTY_CHECKS
from motion_nodes.nodes.demo.party import ROBOTS as PARTY
from motion_nodes.nodes.demo.party import PartyClient, show_party
from motion_nodes.nodes.demo.surprise import CAMERA, OBJECT, SurpriseClient, show_surprise
from motion_nodes.nodes.demo.surprise import CHECKS as SURPRISE_CHECKS
from motion_nodes.nodes.demo.task_shows import (
    BRING_CHECKS,
    BRING_OBJECTS,
    FACTORY_CHECKS,
    BringClient,
    FactoryClient,
    bring_robots,
    factory_objects,
    show_bringing,
    show_factory,
)
from motion_nodes.nodes.demo.task_shows import ROBOTS as FACTORY
from motion_nodes.ros import signals
from motion_nodes.ros.environment import init_arguments

READY_TIMEOUT = 30.0
"""Timeout of the suite's start [s]."""
COMPILE_TIMEOUT = 170.0
"""Timeout of the suite's start if the planner's kernels have to be compiled [s]."""
BOTH = ("franka:=franka", "jetbot:=jetbot@0.5,-0.5,1.5708")
BOTH_TEXT = "a Franka and a Jetbot"


@dataclass(frozen=True)
class Show:
    """A show."""

    robots: tuple[str, ...] | Callable[[], tuple[str, ...]]
    """Robots of the suite, each as [NAMESPACE:=]ROBOT[@X,Y,YAW]; or what creates them."""
    robots_text: str
    """Their names for the user."""
    client: Callable[[], Any]
    """Makes the client."""
    play: Callable[[Any, DemoFindings], None]
    """Runs the show once."""
    checks: tuple[str, ...]
    """Checks of a round, see :meth:`DemoFindings.conclude`."""
    parts: frozenset[str]
    """Robots and objects that other clients may command."""
    ready_timeout: float = READY_TIMEOUT
    """Timeout of the suite's start [s]."""
    cameras: tuple[str, ...] = ()
    """Depth cameras, see :class:`~motion_nodes.bringup.bringup_config.BringupConfig`."""
    objects: tuple[str, ...] = ()
    """Objects that move freely in MuJoCo."""
    policies: tuple[str, ...] = ()
    """Learned policies, each as [NAMESPACE:=]POLICY."""
    tasks: bool = False
    """Whether the arms have task servers."""
    scene_bodies: bool = True
    """Whether objects of the planning scenes are bodies of the simulation."""
    without: frozenset[str] = frozenset()
    """Executables that the show does not need, each also as NAMESPACE/EXECUTABLE."""
    control_rate: float | None = None
    """Update rate of the simulation and of the joint controllers [Hz]; None: their default."""


SHOWS = {
    "follow": Show(
        BOTH, BOTH_TEXT, FollowClient, show_following,
        ("Franka tracked a target", "between links", "a ball crossed", *SQUARE_CHECKS),
        frozenset({"base", "target", "ball"}), COMPILE_TIMEOUT,
    ),
    "journey": Show(BOTH, BOTH_TEXT, DemoClient, journey, (*ARM_CHECKS, *SQUARE_CHECKS),
        frozenset({"base", "arm"}),
    ),
    "elbow": Show(
        ("franka:=franka",), "a Franka", ArmClient, show_elbow, ("the elbow moved",),
        frozenset({"arm"}),
    ),
    "retract": Show(
        ("franka:=franka",), "a Franka", ArmClient, show_retraction, RETRACTION_CHECKS,
        frozenset({"arm"}),
    ),
    "surprise": Show(
        ("franka:=franka",), "a Franka", SurpriseClient, show_surprise, SURPRISE_CHECKS,
        frozenset({"arm"}),
        COMPILE_TIMEOUT, cameras=(CAMERA,), objects=(OBJECT,),
    ),
    "walk": Show(
        ("go2:=go2",), "a Go2", WalkClient, show_walking, WALK_CHECKS, frozenset({"robot"}),
        policies=(f"go2:={WALK_POLICY}",),
    ),
    "drawer": Show(
        DRAWER_ROBOTS, "a Franka before a drawer", DrawerClient, show_drawer, DRAWER_CHECKS,
        frozenset({"arm"}), COMPILE_TIMEOUT, policies=(f"franka:={DRAWER_POLICY}",),
        without=frozenset({"controller_manager"}),
    ),
    "bring": Show(
        bring_robots, "a Franka on a Nova Carter", BringClient, show_bringing, BRING_CHECKS,
        frozenset({"robot"}), COMPILE_TIMEOUT, objects=BRING_OBJECTS, tasks=True,
        without=frozenset({"trajectory_generator", "controller_manager", "ik_service"}),
    ),
    "party": Show(
        PARTY, "a Franka, an xArm 6, a Jetbot, a Kaya and a Leatherback", PartyClient, show_party,
        PARTY_CHECKS, frozenset({"party"}), COMPILE_TIMEOUT,
        without=frozenset({
            "trajectory_generator", "controller_manager", "ik_service", "franka/rmpflow_policy",
        }),
    ),
    "factory": Show(
        FACTORY, "four Frankas", FactoryClient, show_factory, FACTORY_CHECKS,
        frozenset({"factory"}),
        COMPILE_TIMEOUT, objects=factory_objects(), tasks=True, scene_bodies=False,
        control_rate=125.0,  # four arms at 250 Hz overload two processors
        without=frozenset({
            "trajectory_generator", "controller_manager", "ik_service", "rmpflow_policy",
        }),
    ),
}  # fmt: skip
"""Shows by name."""
FOLLOWED_BY_IK = replace(
    SHOWS["follow"],
    client=lambda: FollowClient(IK),
    checks=("Franka tracked a target", "between links", *SQUARE_CHECKS),
    parts=frozenset({"base", "target"}),
)
"""Show "follow" by inverse kinematics, without an obstacle."""


def show_of(name: str, by: str = RMPFLOW) -> Show:
    """Return a show.

    Args:
        name: of the show.
        by: follower of the target, for the show "follow".

    Raises:
        MotionError: an unknown show or follower.
    """
    if name not in SHOWS:
        raise MotionError(f"unknown demo '{name}'.{did_you_mean(name, (*SHOWS, 'wipe'))}")
    if by not in TARGET_TOPICS:
        raise MotionError(f"unknown follower '{by}'.{did_you_mean(by, TARGET_TOPICS)}")
    if name != "follow" and by != RMPFLOW:
        raise MotionError(f"demo '{name}' has no follower; --with is only for 'follow'.")
    return FOLLOWED_BY_IK if by == IK else SHOWS[name]


def run_demo(show: Show, *, headless: bool, watch: Callable[[], bool]) -> int:
    """Run a show as a client of a starting suite.

    Args:
        show: to run.
        headless: run it once; else in a loop until a stop signal.
        watch: monitors the suite's processes; returns False once they ended.

    Returns:
        Exit code, see :meth:`DemoFindings.conclude`.
    """
    rclpy.init(args=init_arguments([]), signal_handler_options=SignalHandlerOptions.NO)
    findings = DemoFindings()
    client = show.client()
    try:
        timeout = show.ready_timeout
        if not client.wait(lambda: client.ready or not watch(), timeout) or not watch():
            if not signals.STOP.is_set():
                missing = client.waiting_for()
                findings.check(
                    False,
                    f"the suite was not ready within {timeout:.0f} s"
                    + (f"; waiting for {missing}" if missing else ""),
                )
            return findings.conclude(show.checks, headless=headless)
        if headless and not show.policies and not is_prepared():
            # The compilation would disturb the checked loops.
            print("demo: compiling the planner's kernels, once per machine", flush=True)
            client.wait(lambda: is_prepared() or not watch(), COMPILE_TIMEOUT)
        print(f"demo: {show.robots_text} ready; the show starts", flush=True)
        while watch():
            findings.begin_round()
            show.play(client, findings)
            if headless or not client.spin(2.0):
                break
            if client.guests == show.parts:
                while watch() and client.spin(0.5):
                    pass
    finally:
        client.node.destroy_node()
        rclpy.try_shutdown()
    return findings.conclude(show.checks, headless=headless)
