# SPDX-License-Identifier: Apache-2.0
"""Size of the package, and the files that a request passes through.

Run: ``python benchmarks/bench_structure.py`` (about a minute; ``--walks none`` only counts).

Walks are traced, not read: a profile hook in all threads of the nodes records which files run from
the request until its result, and which records (dataclasses and named tuples) are passed from one
file to another. Files that also run while nothing is asked, such as those of the loop, count, too,
and are listed separately. Twist: ``~/cmd_vel`` of a Jetbot until the first wheel command. IK:
``compute_ik`` until its response. MoveGroup: a joint goal around a box until the first moving
``joint_command``. The simulation is another process and does not count.
"""

from __future__ import annotations

import ast
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Options, Report, Row, benchmark
from harness.processes import START, ros_args, script_command, started

ROOT = Path(__file__).parents[1]
IMPORTS, PARAMETERS = 25, 6
"""Aims: modules imported from the package per module, parameters per function."""
IDLE = 1.0
"""Recorded before each request [s]."""


def sources(folder: str) -> Iterator[tuple[Path, str]]:
    """Yield the Python files of a folder and their text."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        yield file, file.read_text("utf-8")


def code_lines(text: str) -> int:
    """Return the number of lines that are neither empty, nor comments, nor docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in skipped
        for number, line in lines
    )


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters of a function, without self."""
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return [each for each in given if each.arg not in ("self", "cls")]


def is_command(given: list[ast.arg]) -> bool:
    """Return whether a function is a command of Typer: each option is a parameter."""
    words = [ast.unparse(each.annotation) for each in given if each.annotation is not None]
    return any("typer." in word or word.endswith(("Option", "Argument")) for word in words)


def only_subclasses(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the classes of the package with exactly one subclass, which is in another file.

    Classes of errors are left out: they are subclassed to be told apart.
    """
    places: dict[str, Path] = {}
    parents: dict[str, list[str]] = {}
    children: dict[str, list[Path]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            places[node.name] = file
            for base in node.bases:
                value = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(value, ast.Attribute):
                    continue  # of another library, such as ctypes.Structure
                name = getattr(value, "id", "")
                parents.setdefault(node.name, []).append(name)
                children.setdefault(name, []).append(file)

    def is_error(name: str) -> bool:
        return name.endswith("Exception") or any(map(is_error, parents.get(name, ())))

    return sorted(
        name
        for name, files in children.items()
        if name in places and len(files) == 1 and files[0] != places[name] and not is_error(name)
    )


def size() -> list[Row]:
    """Return the counts of the package and of its tests."""
    trees = {file: ast.parse(text) for file, text in sources("motion_nodes")}
    texts = [text for _, text in sources("motion_nodes")]
    tests = [text for _, text in sources("test")]
    imported: dict[Path, set[str]] = {}
    functions: list[list[ast.arg]] = []
    classes = 0
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("motion_nodes"):
                imported.setdefault(file, set()).add(node.module or "")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(parameters(node))
            classes += isinstance(node, ast.ClassDef)
    long = [given for given in functions if len(given) > PARAMETERS]
    commands = sum(map(is_command, long))
    importers = Counter(name for names in imported.values() for name in names)
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in trees}
    counts = {
        "modules": len(trees),
        "lines": sum(len(text.splitlines()) for text in texts),
        "lines of code": sum(map(code_lines, texts)),
        "classes": classes,
        "modules with one importer": sum(importers[name] == 1 for name in modules),
        "max lines of a module": max(len(text.splitlines()) for text in texts),
        "max imports of a module": max(map(len, imported.values())),
        f"modules with more than {IMPORTS} imports": sum(
            len(names) > IMPORTS for names in imported.values()
        ),
        f"functions with more than {PARAMETERS} parameters": len(long) - commands,
        "commands with more options": commands,
        "bases with one subclass, elsewhere": len(only_subclasses(trees)),
        "lines of tests": sum(len(text.splitlines()) for text in tests),
    }
    return [{"": name, "count": count} for name, count in counts.items()]


def traced(
    nodes: dict[str, dict[str, Any]], robot: str, request: Callable[[], None]
) -> dict[str, dict[str, list[str]]]:
    """Return files and types of a request to some nodes, which run beside a simulation."""
    listed = [{"executable": name, "ros_args": ros_args(**each)} for name, each in nodes.items()]
    simulation = script_command("harness/marked_node.py", "mock_sim", *ros_args(robots=[robot]))
    with tempfile.TemporaryDirectory() as name, started(simulation):
        folder = Path(name)
        command = script_command("harness/traced_nodes.py", "--nodes", json.dumps(listed))
        with started(command, TRACE_FOLDER=name):
            request()  # The first one loads and compiles
            (folder / "record").touch()
            time.sleep(IDLE)
            idle = recorded(folder)
            (folder / "record").touch()
            time.sleep(0.05)
            request()
            found = recorded(folder)
    return found | {"idle": idle["files"]}


def recorded(folder: Path) -> dict[str, dict[str, list[str]]]:
    """End a recording, and return it."""
    (folder / "record").unlink()
    until = time.monotonic() + 10.0
    while not (folder / "trace.json").exists():
        if time.monotonic() > until:
            raise RuntimeError("the traced nodes wrote no trace")
        time.sleep(0.01)
    found: dict[str, dict[str, list[str]]] = json.loads((folder / "trace.json").read_text())
    (folder / "trace.json").unlink()
    return found


class Requests:
    """A client with the three requests, all through DDS."""

    def __init__(self) -> None:
        import rclpy
        from ros_client import RosClient

        self.client = RosClient("walks")
        self._goal, self._rclpy = 1, rclpy

    def twist(self) -> None:
        """Drive until the first wheel command that moves; then stop."""
        from geometry_msgs.msg import TwistStamped
        from sensor_msgs.msg import JointState

        node, moved = self.client.node, []
        out = node.create_publisher(TwistStamped, "diff_drive_controller/cmd_vel", 1)
        seen = node.create_subscription(
            JointState, "joint_command", lambda m: moved.extend(v for v in m.velocity if v), 1
        )
        until = time.monotonic() + START
        while not moved:
            message = TwistStamped()
            message.twist.linear.x = 0.1
            message.header.stamp = node.get_clock().now().to_msg()
            out.publish(message)
            self.client.spin(0.05)
            assert time.monotonic() < until, "no wheel command"
        node.destroy_publisher(out)
        node.destroy_subscription(seen)

    def known(self) -> None:
        """Wait until the node knows the state of the joints: requests name none."""
        from moveit_msgs.srv import GetPositionFK

        request = GetPositionFK.Request(fk_link_names=["panda_hand"])
        until = time.monotonic() + START
        while self.client.call(GetPositionFK, "compute_fk", request, START).error_code.val != 1:
            self.client.spin(0.05)
            assert time.monotonic() < until, "no state of the joints"

    def ik(self) -> None:
        """Ask for the joint positions of a pose."""
        from moveit_msgs.srv import GetPositionIK

        self.known()
        request = GetPositionIK.Request()
        request.ik_request.group_name = "arm"
        pose = request.ik_request.pose_stamped
        pose.header.frame_id = "panda_link0"
        pose.pose.position.x, pose.pose.position.z = 0.5, 0.4
        pose.pose.orientation.x, pose.pose.orientation.w = 1.0, 0.0
        response = self.client.call(GetPositionIK, "compute_ik", request, START)
        assert response.error_code.val == 1, response

    def move(self) -> None:
        """Move around a box until the first joint command that moves."""
        from moveit_msgs.action import MoveGroup
        from planner_client import at
        from rclpy.action import ActionClient
        from sensor_msgs.msg import JointState

        node, moved = self.client.node, []
        self._goal = -self._goal
        goal = MoveGroup.Goal()
        goal.request.group_name = "arm"
        target = (0.5 * self._goal, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8)
        goal.request.goal_constraints = [
            at({f"panda_joint{k}": value for k, value in enumerate(target, 1)})
        ]
        client = ActionClient(node, MoveGroup, "move_action")
        assert client.wait_for_server(START)
        seen = node.create_subscription(
            JointState, "joint_command", lambda m: moved.extend(v for v in m.velocity if v), 10
        )
        sent = client.send_goal_async(goal)
        until = time.monotonic() + START
        while not (moved and sent.done()):
            self.client.spin(0.01)
            assert time.monotonic() < until, "no joint command"
        node.destroy_subscription(seen)
        result = sent.result().get_result_async()
        while not result.done() and time.monotonic() < until:
            self.client.spin(0.05)
        client.destroy()
        if "being compiled" in result.result().result.error_code.message:
            self.move()  # Until then only straight motions are planned


def walks(lists: str) -> list[Row]:
    """Return the walks of the three requests; write their files and types to a folder if named."""
    requests = Requests()
    franka = {"robot": "franka"}
    cases = {
        "Twist": ({"differential_base": {"robot": "jetbot"}}, "jetbot", requests.twist),
        "IK": ({"ik_service": franka}, "franka", requests.ik),
        "MoveGroup": (
            {"rrt_planner": franka, "articulation_controller": franka}, "franka", requests.move
        ),
    }  # fmt: skip
    rows: list[Row] = []
    for name, (nodes, robot, request) in cases.items():
        found = traced(nodes, robot, request)
        lines = sum(
            len((ROOT / "motion_nodes" / file).read_text("utf-8").splitlines())
            for file in found["files"]
        )
        rows.append(
            {"walk": name, "files": len(found["files"]), "lines of them": lines,
             "of these idle, too": len(set(found["files"]) & set(found["idle"])),
             "types": len(found["types"])}
        )  # fmt: skip
        if lists:
            Path(lists).mkdir(parents=True, exist_ok=True)
            Path(lists, f"{name}.json").write_text(json.dumps(found, indent=1))
    return rows


@benchmark(
    "Structure", ros=True, walks=("all", "all, or none", ("all", "none")),
    lists=("", "write files and types of each walk, with functions, to this folder"),
)  # fmt: skip
def measure(report: Report, options: Options) -> None:
    """Count, and trace the walks."""
    report.table("Size", size())
    if options.walks == "all":
        report.table("Walks", walks(options.lists))
