# SPDX-License-Identifier: Apache-2.0
"""``motion doctor`` and ``motion warm-up``: the installation is checked, kernels are compiled."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from rich.console import Console
from rich.markup import escape

from motion_nodes.core.control import joint_arbiter, state_plausibility
from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.planning.warm_up import is_prepared, load_all_planning, load_planning
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import available_robots, load_description, load_robot
from motion_nodes.core.robot.rmpflow_settings import RMPFLOW_FILE
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import MotionError
from motion_nodes.kernels.cache import cache_state
from motion_nodes.kernels.cycle_code import compile_cycles
from motion_nodes.ros import environment
from motion_nodes.ros.environment import Check

LIBRARIES = ("numpy", "numba", "llvmlite", "msgspec", "ruckig", "mujoco", "viser")


def examine() -> bool:
    """Run and print all checks; return whether all succeeded."""
    console = Console()
    console.print(f"motion_nodes {_version('motion_nodes')}, Python {platform.python_version()}")
    failed, count = [], 0
    for check in _checks():
        mark = "[green]ok[/green]  " if check.ok else "[red]NO[/red]  "
        text = escape(f"{check.what}: {check.text}")
        console.print(f"{mark}{text}", highlight=False, soft_wrap=True)
        count += 1
        failed += [] if check.ok else [check.what]
    if failed:
        summary = f"[red]{len(failed)} of {count} checks failed[/red]: {escape(', '.join(failed))}"
    else:
        summary = f"[green]All {count} checks passed[/green]: try motion demo"
    console.print(summary, highlight=False, soft_wrap=True)
    return not failed


def _checks() -> Iterator[Check]:
    rclpy = environment.check_rclpy()
    yield rclpy
    if rclpy.ok:
        checks: tuple[Callable[[], Check], ...] = (
            environment.check_middleware,
            environment.check_messages,
            environment.check_two_processes,
        )
        for check in checks:
            yield check()
    yield _libraries()
    yield _cache()
    yield _robots()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _libraries() -> Check:
    versions = {name: _version(name) for name in LIBRARIES}
    missing = [name for name, version in versions.items() if not version]
    if missing:
        return Check("libraries", False, f"missing: {', '.join(missing)} (pip install them)")
    return Check("libraries", True, ", ".join(f"{n} {v}" for n, v in versions.items()))


def _cache() -> Check:
    state = cache_state()
    if state.folder is None:
        return Check(
            "kernel cache",
            False,
            f"{state.preferred} is not writable; kernels are compiled at every start",
        )
    text = f"{state.entries} entries, {state.size / 1e6:.1f} MB in {state.folder}"
    return Check("kernel cache", True, text)


def _robots() -> Check:
    broken = []
    names = sorted(available_robots())
    for name in names:
        try:
            load_robot(name)
        except MotionError as error:
            broken.append(f"{name}: {error}")
    return Check("robots", not broken, "; ".join(broken) or ", ".join(names))


CYCLES = joint_arbiter, state_plausibility
"""Modules with functions of control cycles, besides those that they import."""


def compile_kernels(robots: Sequence[str]) -> None:
    """Compile the kernels of robots (default: all), and print the times."""
    _timed("control cycles", compile_cycles)
    names = robots or sorted(available_robots())
    _timed("new robots", partial(compile_generic_kinematics, load_description(names[0])))
    for name in names:
        robot = load_description(name)
        _timed(name, partial(compile_robot, robot))
        if robot.arm_joints and not is_prepared():
            _timed("all planners", partial(load_all_planning, robot))


def compile_generic_kinematics(robot: Robot) -> None:
    """Compile the kinematics of trees without code of their own: ``motion new`` begins with it."""
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    kinematics.frames_batch(robot.home[np.newaxis])
    kinematics.jacobian_batch(robot.home[np.newaxis], kinematics.frame_names[-1])


def compile_robot(robot: Robot) -> None:
    """Compile the code that a suite of this robot needs, the longest first.

    Args:
        robot: the robot.
    """
    Kinematics(robot.tree, base=robot.base_frame).warm_up(())
    if robot.arm_joints and (robot.directory / RMPFLOW_FILE).is_file():
        RmpflowPolicy(robot)
    for group in robot.groups.values():
        if group.joints:
            CollisionChecker(robot, group.joints)
        if group.tip is not None:
            make_solver(IkChain.of_group(robot, group.name))
            with contextlib.suppress(MotionError):  # such as an arm without inertial parameters
                CartesianImpedance(robot, group.name)
    load_planning(robot)


def _timed(name: str, work: Callable[[], None]) -> None:
    begin = time.monotonic()
    work()
    print(f"{name}: {time.monotonic() - begin:.2f} s")
