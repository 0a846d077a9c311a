# SPDX-License-Identifier: Apache-2.0
"""``motion warm-up``: kernels compiled in advance."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from motion_nodes.core.control import state_plausibility, stream_cycle
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.planning.warm_up import load_planning
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.files.rmpflow_file import RMPFLOW_FILE
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import available_robots, load_description
from motion_nodes.kernels.cycle_code import compile_cycles

CYCLES = stream_cycle, state_plausibility
"""Modules with functions of control cycles, besides those that they import."""


def compile_kernels(robots: Sequence[str]) -> None:
    """Compile the kernels of robots (default: all), and print the times."""
    _timed("control cycles", compile_cycles)
    for name in robots or sorted(available_robots()):
        _timed(name, lambda name=name: _compile(name))  # type: ignore[misc]


def _compile(name: str) -> None:
    robot = load_description(name)
    Kinematics(robot.tree).warm_up()
    for group in robot.groups.values():
        if group.tip is not None:
            make_solver(IkChain.of_group(robot, group.name))
    load_planning(robot)
    if robot.arm_joints and (robot.directory / RMPFLOW_FILE).is_file():
        RmpflowPolicy(robot)


def _timed(name: str, work: Callable[[], None]) -> None:
    begin = time.monotonic()
    work()
    print(f"{name}: {time.monotonic() - begin:.2f} s")
