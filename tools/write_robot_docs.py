# SPDX-License-Identifier: Apache-2.0
"""Writes docs/robots.md and docs/what_runs_on_what.md from the descriptions of the shipped robots.

``python tools/write_robot_docs.py`` writes them; ``--check`` only reports whether they are current
(exit code 1 if not).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from motion_nodes.core.robot.loader import load_robot  # noqa: E402
from motion_nodes.core.robot.robot import Robot  # noqa: E402

PAGE = ROOT / "docs" / "robots.md"
HEAD = """<!-- Written by tools/write_robot_docs.py; edit the robots' own files instead. -->
# Robots

The shipped robots, as described by their files; `motion describe ROBOT` prints the same. Units:
rad or m, s, N m or N. The last line of each robot links to the sources of the numbers."""
KINDS = {
    "arm": "arm",
    "differential": "differential base",
    "holonomic": "holonomic base",
    "ackermann": "Ackermann base",
    "floating": "robot with a floating base",
}
COLUMNS = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")


MATRIX = ROOT / "docs" / "what_runs_on_what.md"
MATRIX_HEAD = """<!-- Written by tools/write_robot_docs.py; edit the robots' own files instead. -->
# What runs on what

The functions of each shipped robot, by its files. How they were tried is below: in simulation, and
against stand-ins of controllers. **No real robot was moved yet**
([limitations](limitations.md#hardware))."""
POLICIES = {"franka": "`franka_drawer`", "go2": "`go2_walk`, `go2_trot`", "g1": "`g1_walk`"}
DRIVERS = {
    **dict.fromkeys(("franka", "fr3"), "`franka`"),
    **dict.fromkeys(("ur3e", "ur5e", "ur10e", "ur16e"), "`ur`"),
    **dict.fromkeys(("xarm6", "xarm7"), "`xarm`"),
    "so101": "`feetech`", "open_manipulator_x": "`dynamixel`", "jetbot": "`two_wheels`",
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Robot], bool | str]] = {
    "joint control": lambda robot: bool(robot.arm_joints),
    "IK, planning": lambda robot: any(g.tip for g in robot.groups.values()),
    "RMPflow, MPC": lambda robot: (robot.directory / "rmpflow.yaml").is_file(),
    "gripper": lambda robot: {"open", "close"} <= robot.states.keys(),
    "base, navigator": lambda robot: robot.base is not None,
    "policy": lambda robot: POLICIES.get(robot.name, ""),
    "driver": lambda robot: DRIVERS.get(robot.name, ""),
}
TRIED = (
    ("joint control", "MuJoCo and the mock, by clients as of ros2_control", "all arms",
     "test/journeys/test_joint_journey.py", "test/conformance/test_joint_trajectory_controller.py"),
    ("IK", "beside finite differences, Pinocchio and closed forms", "all robots",
     "test/model/test_shipped_robots.py", "test/conformance/test_kinematics_services.py"),
    ("planning", "MuJoCo; benchmarks of scenes; MoveIt's interface by its clients", "arms",
     "test/journeys/test_plan_journey.py", "test/conformance/test_move_group.py"),
    ("RMPflow, MPC", "MuJoCo and without physics", "arms",
     "test/conformance/test_servo.py", "test/mpc/test_mpc_policy.py"),
    ("gripper", "MuJoCo", "arms with fingers",
     "test/journeys/test_gripper_journey.py", "test/conformance/test_grippers.py"),
    ("bases", "MuJoCo, the mock, and the equations of ros2_controllers", "all bases",
     "test/journeys/test_base_journey.py", "test/conformance/test_diff_drive.py"),
    ("navigator", "MuJoCo, by clients of Nav2", "bases",
     "test/journeys/test_navigation_journey.py", "test/conformance/test_nav2.py"),
    ("policies", "MuJoCo, `motion demo walk` and `drawer`", "Go2, G1, Franka", "test/policies"),
    ("driver `franka`", "franky-sim and a stand-in of franky", "Franka, FR3",
     "test/hardware/test_franka_sim.py"),
    ("driver `ur`", "a controller on loopback that speaks RTDE and runs the program", "UR arms",
     "test/hardware/test_ur_driver.py"),
    ("driver `xarm`", "a controller on loopback", "xArm", "test/hardware/test_xarm_driver.py"),
    ("drivers `feetech`, `dynamixel`", "servos on pseudo terminals", "SO-101, OpenMANIPULATOR-X",
     "test/hardware/test_feetech.py", "test/hardware/test_dynamixel.py"),
    ("driver `two_wheels`", "a wheel board on a pseudo terminal", "two-wheeled bases",
     "test/hardware/test_two_wheels.py"),
    ("a URDF of your own", "robots of other makers, derived by `motion new`", "any",
     "test/journeys/test_robot_variety.py"),
)  # fmt: skip
"""Function, how it was tried, with which robots, and the tests."""


def matrix() -> str:
    """Return docs/what_runs_on_what.md."""
    lines = [MATRIX_HEAD, "", f"| robot | kind | {' | '.join(FUNCTIONS)} |"]
    lines.append("|---|---|" + "---|" * len(FUNCTIONS))
    for file in sorted((ROOT / "motion_nodes" / "robots").glob("*/robot.yaml")):
        robot = load_robot(file)
        cells = (function(robot) for function in FUNCTIONS.values())
        texts = ("yes" if cell is True else cell or "" for cell in cells)
        name = f"[{robot.name}](robots.md#{robot.name})"
        lines.append(f"| {name} | {KINDS[robot.kind]} | {' | '.join(texts)} |")
    lines += [
        "",
        "All run in MuJoCo, on the page, and in Python without ROS.",
        "",
    ]
    lines += ["## Tried how", "", "| function | tried how | with | tests |", "|---|---|---|---|"]
    for function, how, robots, *tests in TRIED:
        links = ", ".join(f"[{Path(test).stem}](../{test})" for test in tests)
        lines.append(f"| {function} | {how} | {robots} | {links} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return docs/robots.md."""
    lines = [HEAD]
    for file in sorted((ROOT / "motion_nodes" / "robots").glob("*/robot.yaml")):
        lines += ["", *section(load_robot(file))]
    return "\n".join(lines) + "\n"


def section(robot: Robot) -> Iterator[str]:
    """Yield the section of a robot."""
    folder = f"../motion_nodes/robots/{robot.directory.name}"
    frames = f"Base frame `{robot.base_frame}`"
    if robot.tool_frame:
        frames += f", tool frame `{robot.tool_frame}`"
    spheres = sum(map(len, robot.spheres.values()))
    yield f"## {robot.name}"
    yield ""
    yield f"{KINDS[robot.kind].capitalize()}. {frames}."
    yield f"Files: [{robot.directory.name}]({folder})."
    yield ""
    yield "| joint | type | lower | upper | velocity | acceleration | jerk | effort |"
    yield "|---|---|---|---|---|---|---|---|"
    for k, joint in enumerate(robot.joint_names):
        numbers = [number(getattr(robot.limits, column)[k]) for column in COLUMNS]
        passive = ", passive" if joint in robot.passive_joints else ""
        kind = robot.tree.joints[joint].kind.name.lower()
        yield f"| `{joint}` | {kind}{passive} | {' | '.join(numbers)} |"
    if robot.groups:
        yield ""
        yield "| group | aliases | joints | base | tip |"
        yield "|---|---|---|---|---|"
        for group in robot.groups.values():
            ends = (code([end]) if end else "" for end in (group.base, group.tip))
            joints = f"{len(group.joints)}: {code(group.joints)}"
            yield f"| `{group.name}` | {code(group.aliases)} | {joints} | {' | '.join(ends)} |"
    yield ""
    if robot.states:
        yield f"Named states: {code(robot.states)}."
    if spheres:
        yield f"Collision spheres: {spheres}, on {len(robot.spheres)} links."
    yield f"Sources: {', '.join(sources(robot, folder))}."


def sources(robot: Robot, folder: str) -> Iterator[str]:
    """Yield the sources of numbers, as links."""
    for what, where in robot.description.sources.items():
        file, _, chapter = where.partition("#")
        yield f"{what} [{chapter or file}]({folder}/{where})"


def code(words: Iterable[str]) -> str:
    """Return words in backquotes."""
    return ", ".join(f"`{word}`" for word in words)


def number(value: float) -> str:
    """Return a limit with four digits; empty: unlimited."""
    if not math.isfinite(value):
        return ""
    return np.format_float_positional(value, 4, fractional=False, trim="-")


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them; return the exit code."""
    old = {
        file: text
        for file, text in ((PAGE, page()), (MATRIX, matrix()))
        if not file.exists() or file.read_text(encoding="utf-8") != text
    }
    for file, text in old.items():
        if "--check" in arguments:
            print(f"docs/{file.name} is not current; run python tools/write_robot_docs.py")
        else:
            file.write_text(text, encoding="utf-8")
            print(f"wrote docs/{file.name}")
    return int(bool(old) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
