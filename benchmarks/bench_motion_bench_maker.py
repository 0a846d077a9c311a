# SPDX-License-Identifier: Apache-2.0
"""Whole plans of MotionBenchMaker's problems as a user makes them, beside vamp's search.

Run: ``python benchmarks/bench_motion_bench_maker.py --problems FOLDER --vamp-python PYTHON``
(about two minutes); ``--service`` plans by ``plan_kinematic_path`` from another process instead.

FOLDER contains ``ROBOT_problems.json`` of the robots ur5, fetch and baxter with their
``ROBOT_spherized.urdf``, and ``panda_problems.json`` (``planning_problems.py``), from
https://github.com/KavrakiLab/vamp. Robots are loaded from these files, the Panda is the shipped
one; the joints that are not planned are where the problem has them. Ours is one call from Python,
or one service call: search, shortening, timing with limits of acceleration and effort, and
verification by exact shapes, of a scene that was never seen before. vamp's time is its search and
its simplification by its own clock. A problem is valid if at both ends vamp's spheres are free, and
so is our robot, within its limits: the shipped Panda's fingers open by 40 mm, not by 65 mm as those
of vamp's model, and a URDF alone does not state which of its links may overlap. With ``--srdf
FOLDER``, links that ``ROBOT.srdf`` there takes from the checks may, as in vamp. The first calls of
a robot, which load and compile code, are not timed.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import CLUSTER, Options, Report, Row, Spread, benchmark, motion_up, progress, workers
from harness.timing import peer_lines

import motion_nodes as mn
from motion_nodes.core.planning.planning_problem import START_TOLERANCE
from motion_nodes.core.robot.files.srdf_file import read_srdf
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import AllowedCollisions, Scene, WorldObject, world_object
from motion_nodes.core.scene.shapes import Solid
from motion_nodes.core.scene.world import World

PEER = "peers/motion_bench_maker_vamp.py"
PART = 25  # Problems that a worker of --cluster plans at once
LIMIT = 5.0  # Timeout of a plan [s]
ROBOTS = ("panda", "ur5", "fetch", "baxter")
FINGERS = {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}
PANDA = tuple(f"panda_joint{k}" for k in range(1, 8))
ROUNDING = 1e-5  # of the limits in the files, such as 3.14159 [rad]
MEDIAN, P99 = 6.0, 15.0  # Allowed beyond vamp's times [ms]


class Problem(NamedTuple):
    """A problem of a robot."""

    family: str
    objects: tuple[tuple[str, tuple[float, ...], np.ndarray], ...]
    """Type, dimensions as in moveit_msgs [m], and pose in the URDF's root, shape (4, 4)."""
    start: dict[str, float]
    """All joints of the robot [rad or m]."""
    goal: dict[str, float]
    """Joints of the group [rad or m]."""

    def items(self, X_BR: np.ndarray) -> list[WorldObject]:
        """Return the obstacles with the shapes that they are stated with.

        Args:
            X_BR: pose of the URDF's root in the frame of the scene, shape (4, 4): the UR5 stands
                on a mount 0.9 m above it.
        """
        return [world_object(f"object{k}", solid_of(kind, sizes), X_BR @ X)
                for k, (kind, sizes, X) in enumerate(self.objects)]  # fmt: skip

    def for_peer(self) -> dict[str, Any]:
        """Return the problem as JSON."""
        objects = [
            {"type": kind, "dimensions": sizes, "position": X[:3, 3].tolist(),
             "euler_xyz": [math.atan2(-X[1, 2], X[2, 2]), math.asin(max(-1.0, min(1.0, X[0, 2]))),
                           math.atan2(-X[0, 1], X[0, 0])]}
            for kind, sizes, X in self.objects
        ]  # fmt: skip
        start = {name: self.start[name] for name in self.goal}
        return {"family": self.family, "objects": objects, "start": start, "goal": self.goal}


def solid_of(kind: str, sizes: Sequence[float]) -> Solid:
    """Return the shape of an object."""
    if kind == "box":
        return Box((sizes[0], sizes[1], sizes[2]))
    return Sphere(sizes[0]) if kind == "sphere" else Cylinder(sizes[1], sizes[0])


def problems_of(folder: Path, robot: str) -> list[Problem]:
    """Return the problems of a robot."""
    content = json.loads((folder / f"{robot}_problems.json").read_text())["problems"]
    if robot == "panda":
        return [panda_problem(family, row) for family, rows in content.items() for row in rows]
    return [
        Problem(
            row["family"],
            tuple((item["type"], tuple(item["dimensions"]), orthonormal(item["pose"]))
                  for item in row["objects"]),
            row["start"], row["goal"],
        )
        for row in content
    ]  # fmt: skip


def orthonormal(pose: Any) -> np.ndarray:
    """Return a pose without the rounding of its file."""
    X = np.array(pose, float)
    u, _, v = np.linalg.svd(X[:3, :3])
    X[:3, :3] = u @ v
    return X


def panda_problem(family: str, row: dict[str, Any]) -> Problem:
    """Return a problem of the format of the Panda's file, with its first goal."""
    objects = []
    for kind in ("sphere", "box", "cylinder"):
        for item in row[kind]:
            if kind == "box":
                sizes = tuple(2.0 * x for x in item["half_extents"])
            else:
                sizes = (item["radius"],) if kind == "sphere" else (item["length"], item["radius"])
            quat = item.get("orientation_quat_xyzw", (0.0, 0.0, 0.0, 1.0))
            objects.append((kind, sizes, from_xyz_quat(item["position"], quat)))
    ends = (dict(zip(PANDA, map(float, q), strict=True)) for q in (row["start"], row["goals"][0]))
    start, goal = ends
    return Problem(family, tuple(objects), start | FINGERS, goal)


class Answer(NamedTuple):
    """Our plan of a problem."""

    solved: bool
    spent: float
    """Time of the call [ms]."""
    reason: str = ""


class Source(NamedTuple):
    """What a user loads."""

    file: str
    srdf: Path | None

    @classmethod
    def of(cls, robot: str, options: Options) -> Source:
        """Return the files of a robot."""
        if robot == "panda":
            return cls("franka", None)
        srdf = Path(options.srdf, f"{robot}.srdf") if options.srdf else None
        known = srdf if srdf is not None and srdf.is_file() else None
        return cls(str(options.problems / f"{robot}_spherized.urdf"), known)


def root_in_base(robot: Robot) -> np.ndarray:
    """Return the pose of the URDF's root in the robot's base frame, shape (4, 4)."""
    kinematics = Kinematics(robot.tree, (), base=robot.base_frame)
    return np.asarray(kinematics.pose(np.empty(0), robot.tree.root))


class Planned(NamedTuple):
    """Our robot and its group."""

    model: mn.RobotModel
    group: Any
    allowed: AllowedCollisions
    """Links that may overlap."""

    @classmethod
    def load(cls, source: Source, joints: Sequence[str]) -> Planned:
        """Return the robot, with the group of some joints."""
        model = mn.load_robot(source.file)
        named = [name for name in model if set(model[name].joint_names) == set(joints)]
        group = model[named[0]] if named else model.group(list(joints))
        allowed = AllowedCollisions()
        if source.srdf is not None:
            pairs = read_srdf(source.srdf, model.description.tree).disabled
            allowed = allowed.with_pairs((pair.link1, pair.link2) for pair in pairs)
        return cls(model, group, allowed)

    def scene(self, problem: Problem) -> Scene:
        """Return a new scene."""
        items = problem.items(root_in_base(self.model.description))
        return Scene({item.name: item for item in items}, allowed=self.allowed)

    def ends(self, problem: Problem) -> list[list[float]]:
        """Return start and goal in the order of the group."""
        both = (problem.start, problem.goal)
        return [[given[name] for name in self.group.joint_names] for given in both]

    def rest(self, problem: Problem) -> dict[str, float]:
        """Return the positions of the other joints."""
        own = set(self.model.joint_names) - set(self.group.joint_names)
        return {name: x for name, x in problem.start.items() if name in own}

    def is_valid(self, problem: Problem) -> bool:
        """Return whether both ends are within the limits and collision-free, by exact shapes."""
        checker = self.group.checker(World(self.scene(problem)), state=self.rest(problem))
        ends = np.array(self.ends(problem))
        tolerances = (START_TOLERANCE, ROUNDING)
        inside = not any(map(checker.limits.violations, ends, tolerances))
        return bool(inside and checker.exact.are_free(checker.limits.clip(ends)).all())


def planned(source: Source, problems: Sequence[Problem]) -> Iterator[Answer]:
    """Plan the problems by the front door."""
    robot = Planned.load(source, list(problems[0].goal))

    def call(problem: Problem) -> tuple[float, Any]:
        (start, goal), state, scene = robot.ends(problem), robot.rest(problem), robot.scene(problem)
        begin = time.perf_counter()
        try:
            plan = robot.group.plan(start, goal, World(scene), timeout=LIMIT, state=state)
        except mn.MotionError as error:
            return 1e3 * (time.perf_counter() - begin), str(error)
        return 1e3 * (time.perf_counter() - begin), plan

    for problem in problems[:3]:
        call(problem)
    for problem in problems:
        spent, plan = call(problem)
        refused = isinstance(plan, str)
        yield Answer(not refused and plan.success, spent, plan if refused else plan.reason)


def served(source: Source, problems: Sequence[Problem]) -> Iterator[Answer]:
    """Plan the problems by ``plan_kinematic_path`` of a suite in other processes."""
    from moveit_msgs.msg import PlanningScene
    from moveit_msgs.srv import ApplyPlanningScene, GetMotionPlan
    from planner_client import Codes, at, state
    from ros_client import RosClient

    from motion_nodes.ros.scene.collision_objects import object_message

    assert source.srdf is None, "--srdf is not sent to services"
    model = mn.load_robot(source.file).description
    goal = set(problems[0].goal)
    group = next((name for name, x in model.groups.items() if set(x.joints) == goal), "")
    group = group or "+".join(model.groups)
    words = ("--backend", "mock", "--viewer", "none", "--no-floor")
    with motion_up(source.file, *words):
        client = RosClient("motion_bench_maker")
        try:
            for problem in (*problems[:3], *problems):
                message = PlanningScene()
                message.world.collision_objects = [
                    object_message(item, model.base_frame)
                    for item in problem.items(root_in_base(model))
                ]
                request = ApplyPlanningScene.Request(scene=message)
                assert client.call(ApplyPlanningScene, "apply_planning_scene", request).success
                asked = GetMotionPlan.Request()
                plan = asked.motion_plan_request
                plan.group_name, plan.allowed_planning_time = group, LIMIT
                known = {n: float(x) for n, x in problem.start.items() if n in model.joint_names}
                plan.start_state = state(known)
                plan.goal_constraints = [at(problem.goal, 0.0)]
                begin = time.perf_counter()
                answer = client.call(GetMotionPlan, "plan_kinematic_path", asked)
                spent = 1e3 * (time.perf_counter() - begin)
                code = answer.motion_plan_response.error_code
                yield Answer(code.val == Codes.SUCCESS, spent, f"{code.val} {code.message}")
        finally:
            client.close()


def rows_of(
    robot: str,
    problems: Sequence[Problem],
    mine: Sequence[Answer],
    peers: Sequence[dict[str, Any]],
    compared: bool,
) -> Iterator[Row]:
    """Yield the row of each family, then that of all; ``compared`` with vamp."""
    rows = list(zip(problems, mine, peers, strict=True))
    for family in (*dict.fromkeys(problem.family for problem in problems), "all"):
        each = [row for row in rows if family in (row[0].family, "all")]
        fair = [row for row in each if row[2]["free"] and row[2]["valid"]]
        own = Spread.of(answer.spent for _, answer, _ in fair if answer.solved)
        their = Spread.of(1e3 * (peer["search"] + peer["simplify"])
                          for _, _, peer in fair if peer.get("solved"))  # fmt: skip
        row: Row = {
            "robot": robot, "family": family, "problems": len(each),
            "vamp: free": sum(peer["free"] for _, _, peer in each), "valid": len(fair),
            "solved": sum(answer.solved for _, answer, _ in fair),
            "median ms": own.p50, "p95 ms": own.p95, "p99 ms": own.p99, "max ms": own.maximum,
        }  # fmt: skip
        if compared:
            row |= {
                "vamp: solved": sum(bool(peer.get("solved")) for _, _, peer in fair),
                "vamp: median ms": their.p50, "vamp: p95 ms": their.p95, "vamp: p99 ms": their.p99,
                "median beyond": own.p50 - their.p50, "p99 beyond": own.p99 - their.p99,
                "within": "yes" if own.p50 <= their.p50 + MEDIAN and own.p99 <= their.p99 + P99
                and all(answer.solved for _, answer, _ in fair) else "no",
            }  # fmt: skip
        yield row


def measured(report: Report, robot: str, problems: Sequence[Problem], options: Options) -> None:
    """Plan the problems of a robot by vamp and by ours; print the table."""
    source = Source.of(robot, options)
    peers: list[dict[str, Any]] = [{} for _ in problems]
    if options.vamp_python:
        progress(f"{robot}: vamp")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"robot": robot, "problems": [x.for_peer() for x in problems]}, file)
            file.flush()
            peers = peer_lines(options.vamp_python, PEER, file.name)
    robot_of_ours = Planned.load(source, list(problems[0].goal))
    for problem, peer in zip(problems, peers, strict=True):
        peer["free"] = peer.get("start", True) and peer.get("goal", True)
        peer["valid"] = robot_of_ours.is_valid(problem)
    progress(f"{robot}: ours")
    if options.cluster:
        with workers(options) as pool:
            parts = [problems[k : k + PART] for k in range(0, len(problems), PART)]
            calls = [pool.submit(lambda part: [*planned(source, part)], part) for part in parts]
            mine = [answer for call in calls for answer in call.result()]
    else:
        mine = list((served if options.service else planned)(source, problems))
    mine = mine[-len(problems) :]
    rows = list(rows_of(robot, problems, mine, peers, bool(options.vamp_python)))
    reasons = []
    for problem, answer, peer in zip(problems, mine, peers, strict=True):
        if not answer.solved and peer["free"] and peer["valid"]:
            reasons.append(f"{problem.family}: {answer.reason}")
    how = "plan_kinematic_path of another process" if options.service else "the front door"
    how += "" if source.srdf is None else ", with its SRDF"
    report.table(f"{robot}, by {how}", rows, "; ".join(f"Not solved: {x}" for x in reasons[:10]))


@benchmark("Planning: MotionBenchMaker of four robots as shipped",
           problems=(Path, "folder of the problems"),
           vamp_python=("", "a Python that has vamp"), every=(1, "stride of all problems"),
           robots=(list(ROBOTS), "robots"), family=("", "only families that begin so"),
           srdf=("", "folder of the robots' SRDF files"),
           service=(False, "by plan_kinematic_path"), cluster=CLUSTER)  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure."""
    if options.problems is None:
        sys.exit("No problems: name their folder with --problems.")
    if options.service:
        import rclpy
        from harness.processes import isolate

        isolate()
        rclpy.init(args=[])
    for robot in options.robots:
        found = problems_of(options.problems, robot)[:: options.every]
        found = [x for x in found if x.family.startswith(options.family)]
        measured(report, robot, found, options)
