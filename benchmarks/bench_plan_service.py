# SPDX-License-Identifier: Apache-2.0
"""Latency of plan_kinematic_path for clients in other processes, with jerk limits and verification.

Run: ``python benchmarks/bench_plan_service.py`` (about two minutes on an idle machine).

A Franka among 40 and 1000 boxes; start and goal are random valid states, equal in all runs. One
client, and four concurrent ones. "planning" is the planning_time of the response, "bare" a round
trip of get_planner_params, the overhead of rclpy and DDS. Failed requests are counted, not timed.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import rclpy
from harness import Options, Report, Row, Spread, benchmark, median, motion_up, progress
from moveit_msgs.msg import PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetMotionPlan, GetPlannerParams
from planner_client import Codes, at, state
from ros_client import RosClient

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, WorldObject, world_object
from motion_nodes.ros.scene.collision_objects import object_message

ROBOT, GROUP = load_robot("franka"), "arm"
WARM_UP = 5  # number of requests before the timed ones


class Answer(NamedTuple):
    """Answer to a request, and times [ms]."""

    code: int
    whole: float
    planning: float
    bare: float
    """Round trip of a request without work."""


def boxes(count: int) -> list[WorldObject]:
    """Return boxes around the robot, none close to its base; more boxes are smaller."""
    rng, found = np.random.default_rng(count), list[WorldObject]()
    size = 0.12 * (40.0 / count) ** (1.0 / 3.0)
    while len(found) < count:
        xyz = rng.uniform((-0.9, -0.9, 0.05), (0.9, 0.9, 1.1))
        if np.hypot(*xyz[:2]) > 0.3:
            shape = Box(*(rng.uniform(0.3, 1.0, 3) * size).tolist())
            found.append(world_object(f"box{len(found)}", shape, from_xyz_rpy(xyz)))
    return found


def valid_states(objects: list[WorldObject], count: int) -> list[dict[str, float]]:
    """Return random states of the arm that are collision-free by the exact geometry."""
    scene, group = Scene({item.name: item for item in objects}), ROBOT.group(GROUP)
    checker = CollisionChecker(ROBOT, GROUP, scene=scene, clearance=0.01)
    rng, states = np.random.default_rng(1), list[dict[str, float]]()
    while len(states) < count:
        q = rng.uniform(group.limits.lower, group.limits.upper)
        if checker.is_free(q) and checker.exact.is_free(q):
            states.append(dict(zip(group.joints, q.tolist(), strict=True)))
    return states


def run_client(objects: int, plans: int) -> list[Answer]:
    """Run a client: send requests sequentially and time them."""
    states = valid_states(boxes(objects), plans + WARM_UP + 1)
    rclpy.init(args=[])
    client, answers = RosClient("plan_latency_client"), list[Answer]()
    for _ in range(10):  # responses are lost until discovery is complete
        with contextlib.suppress(AssertionError):
            client.call(GetPlannerParams, "get_planner_params", within=3.0)
            break
    for start, goal in itertools.pairwise(states):
        request = GetMotionPlan.Request()
        asked = request.motion_plan_request
        asked.group_name, asked.goal_constraints = GROUP, [at(goal, 0.0)]
        asked.start_state = state(start)
        begin = time.perf_counter()
        answer = client.call(GetMotionPlan, "plan_kinematic_path", request).motion_plan_response
        middle = time.perf_counter()
        client.call(GetPlannerParams, "get_planner_params")
        bare = time.perf_counter() - middle
        planned = (answer.error_code.val, 1e3 * (middle - begin), 1e3 * answer.planning_time)
        answers.append(Answer(*planned, 1e3 * bare))
    client.close()
    rclpy.shutdown()
    return answers[WARM_UP:]


def measure(count: int, clients: int, plans: int) -> Row:
    """Return a row of the table; clients run in separate processes."""
    progress(f"{count} boxes, {clients} clients")
    with ProcessPoolExecutor(clients, multiprocessing.get_context("spawn")) as pool:
        outputs = pool.map(run_client, [count] * clients, [plans] * clients)
        answers = list(itertools.chain.from_iterable(outputs))
    good = [each for each in answers if each.code == Codes.SUCCESS]
    if failed := [each.code for each in answers if each.code != Codes.SUCCESS]:
        progress(f"error codes {failed}")
    whole, planning = Spread.of(x.whole for x in good), Spread.of(x.planning for x in good)
    return {
        "": f"{count} boxes, {clients} client{'s' * (clients > 1)}", "plans": len(good),
        "failed": len(failed), "p50 [ms]": whole.p50, "p95 [ms]": whole.p95, "p99 [ms]": whole.p99,
        "planning p50 [ms]": planning.p50, "planning p99 [ms]": planning.p99,
        "bare p50 [ms]": median(x.bare for x in good),
    }  # fmt: skip


@benchmark("Latency of plan_kinematic_path from other processes", ros=True,
           plans=(200, "per client"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure."""
    rows = []
    with motion_up("franka", "--backend", "mock", "--viewer", "none", "--no-floor"):
        for count, numbers in ((40, (1, 4)), (1000, (1,))):
            client, scene = RosClient("plan_latency_scene"), PlanningScene()
            scene.robot_state.is_diff = True
            objects = [object_message(item, ROBOT.base_frame) for item in boxes(count)]
            scene.world.collision_objects = objects
            request = ApplyPlanningScene.Request(scene=scene)
            assert client.call(ApplyPlanningScene, "apply_planning_scene", request).success
            client.close()
            rows += [measure(count, number, options.plans) for number in numbers]
    report.table("plan_kinematic_path", rows)
