# SPDX-License-Identifier: Apache-2.0
"""What stands on the core and can be left out, and the one table that names it.

An extra is a folder here, with its parts in other wings: executables, commands, clients. Only these
parts import it; all others ask this table, so that an extra can be deleted with its folder. What
it offered is then refused by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from motion_nodes.errors import MotionError


class Extra(NamedTuple):
    """What an extra offers outside of its folder."""

    executables: tuple[str, ...] = ()
    """Nodes that need it."""
    commands: tuple[str, ...] = ()
    """Commands of ``motion`` that need it."""
    parts: tuple[str, ...] = ()
    """Further modules, or folders, of the package that import it."""
    needs: tuple[str, ...] = ()
    """Extras that it imports."""
    environment: str = ""
    """``module:function`` of the extra that returns environment variables of a suite's processes;
    empty for none."""
    page: str = ""
    """``module:function`` of the extra that shows a robot in the browser; empty for none."""
    cell: str = ""
    """``module:function`` of the extra that checks objects and cameras of a simulated cell; empty
    for none."""
    policy: str = ""
    """``module:function`` of the extra that checks that a policy fits a robot; empty for none."""


_DEMOS = ("nodes/demo",)

EXTRAS: Mapping[str, Extra] = MappingProxyType({
    "agent_tools": Extra(
        commands=("mcp",), parts=("nodes/clients/ros_robot_link.py", "cli/suite_commands.py")
    ),
    "compat": Extra(),
    "formats": Extra(
        commands=("dataset",), parts=("cli/learning_commands.py", "ros/recorded_episodes.py")
    ),
    "hardware": Extra(("robot_driver",), ("hardware",), ("cli/suite_commands.py",)),
    "learning": Extra(
        commands=("learn",), parts=("cli/learning_commands.py",), needs=("policies", "sim")
    ),
    "perception": Extra(("object_detector", "occupancy_mapper")),
    "policies": Extra(
        ("policy_controller",), ("policy",),
        ("nodes/policy", "cli/learning_commands.py", "api/robot_model.py"),
        policy="policy_files:check_fit",
    ),
    "robot_setup": Extra(
        commands=("new", "mount", "spheres"), parts=("cli/robot_commands.py", *_DEMOS)
    ),
    "sim": Extra(
        ("mock_sim", "mujoco_sim"),
        parts=("nodes/simulation.py", "nodes/cell_topics.py", "cli/robot_commands.py", *_DEMOS),
        cell="cell_words:check_words",
    ),
    "tasks": Extra(
        ("task_server",), ("task",),
        ("nodes/task", "nodes/clients", "nodes/viewer", "ros/clients/task_client.py",
         "cli/suite_commands.py", *_DEMOS),
    ),
    "viewer": Extra(
        ("browser_viewer",),
        parts=("nodes/viewer", "cli/robot_commands.py", "cli/learning_commands.py", *_DEMOS),
        needs=("tasks",),
        environment="page_token:page_environment",
        page="preview:show_robot",
    ),
})  # fmt: skip
"""All extras by the name of their folder."""


def is_present(name: str) -> bool:
    """Return whether an extra is part of this installation, with those that it needs."""
    folder = Path(__file__).parent / name / "__init__.py"
    return folder.is_file() and all(map(is_present, EXTRAS[name].needs))


def absent() -> dict[str, Extra]:
    """Return the extras that are not part of this installation."""
    return {name: extra for name, extra in EXTRAS.items() if not is_present(name)}


def require_executable(executable: str) -> None:
    """Check that the extras of an executable are part of this installation.

    Raises:
        MotionError: one of them is not; names it.
    """
    for name, extra in absent().items():
        if executable in extra.executables:
            raise MotionError(
                f"executable '{executable}' needs the extra '{name}', which is not installed."
            )


def _offered(kind: str) -> Iterator[Any]:
    """Yield the functions that the extras of this installation offer as a field of Extra."""
    for name, extra in EXTRAS.items():
        module, _, function = getattr(extra, kind).partition(":")
        if module and is_present(name):
            try:
                found = importlib.import_module(f"motion_nodes.extras.{name}.{module}")
            except ModuleNotFoundError as error:
                raise MotionError(
                    f"the {kind} needs '{error.name}': pip install motion_nodes[{name}]."
                ) from None
            yield getattr(found, function)


def shown_on_page(robot: Any, what: Any, world: Any, port: int) -> Any:
    """Show a robot in the browser by the extra that can.

    Args:
        robot: description of the robot.
        what: state, trajectory or plan; see ``RobotModel.show``.
        world: obstacles, or None.
        port: first TCP port to try.

    Raises:
        MotionError: no such extra is installed.
    """
    for show in _offered("page"):
        return show(robot, what, world, port)
    raise MotionError("showing robots needs the extra 'viewer', which is not installed.")


def check_policy(policy: str, robot: Any) -> None:
    """Check that a learned policy fits a robot, by the extra that can; else its node does.

    Args:
        policy: network, folder, or name of a published policy.
        robot: description of the robot.

    Raises:
        MotionError: it does not.
    """
    for check in _offered("policy"):
        check(policy, robot)


def check_cell(objects: Sequence[str], cameras: Sequence[str], robots: Mapping[str, Any]) -> None:
    """Check the objects and cameras of a simulated cell, by the extra that can; else its node does.

    Args:
        objects: free objects, as words of the command line.
        cameras: depth cameras, likewise.
        robots: descriptions of the robots by namespace.

    Raises:
        MotionError: the first fault.
    """
    for check in _offered("cell"):
        check(objects, cameras, robots)


def suite_environment() -> dict[str, str]:
    """Return the environment variables that extras set for the processes of a suite."""
    found: dict[str, str] = {}
    for make in _offered("environment"):
        found |= make()
    return found
