# SPDX-License-Identifier: Apache-2.0
"""Latency of plan_kinematic_path for clients in other processes, with jerk limits and verification.

Run: ``python benchmarks/bench_plan_service.py`` (about two minutes on a quiet machine).

A Franka among 40 and 1000 boxes; start and goal are random valid states, the same for all runs. One
client, and four that send their requests at the same time. "planning" is the planning_time of the
response, "bare" a round trip of get_planner_params, which only costs rclpy and DDS. Requests that
fail are counted and not timed.
"""

from __future__ import annotations

import collections
import itertools
import json
import subprocess
import time
from typing import Any

import numpy as np
import rclpy
from harness import Report, arguments, isolate, motion_up, progress
from harness.clients import Client, plan_goal
from harness.processes import script_command
from harness.timing import Spread
from moveit_msgs.msg import CollisionObject, MoveItErrorCodes, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetMotionPlan, GetPlannerParams
from shape_msgs.msg import SolidPrimitive

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import WorldObject, world_object
from motion_nodes.scene.world import World

ROBOT, GROUP = "franka", "arm"
WARM_UP = 5  # requests before those that are timed
COLUMNS = ["", "plans", "failed", "p50 [ms]", "p95 [ms]", "p99 [ms]", "planning p50 [ms]",
           "bare p50 [ms]"]  # fmt: skip


def boxes(count: int) -> list[WorldObject]:
    """Return boxes around the robot, smaller where there are more, none close to its base."""
    rng = np.random.default_rng(count)
    size = 0.12 * (40.0 / count) ** (1.0 / 3.0)
    found: list[WorldObject] = []
    while len(found) < count:
        xyz = rng.uniform((-0.9, -0.9, 0.05), (0.9, 0.9, 1.1))
        if np.hypot(*xyz[:2]) > 0.3:
            box = Box(tuple(rng.uniform(0.3, 1.0, 3) * size))
            found.append(world_object(f"box{len(found)}", box, from_xyz_rpy(xyz)))
    return found


def valid_states(objects: list[WorldObject], count: int) -> np.ndarray:
    """Return random states of the arm that the exact geometry permits, shape (count, n)."""
    robot = load_robot(ROBOT)
    world = World()
    world.add(*objects)
    checker = CollisionChecker(robot, GROUP, scene=world.scene, clearance=0.01)
    rng, limits = np.random.default_rng(1), robot.group(GROUP).limits
    states: list[np.ndarray] = []
    while len(states) < count:
        q = rng.uniform(limits.lower, limits.upper)
        if checker.is_free(q) and checker.exact.is_free(q):
            states.append(q)
    return np.array(states)


def apply(client: Client, objects: list[WorldObject]) -> None:
    """Replace the world by boxes."""
    scene = PlanningScene()
    scene.robot_state.is_diff = True
    for item in objects:
        message = CollisionObject(id=item.name, pose=pose_message(item.X_WO))
        size = [float(x) for x in item.parts[0].solid.size]  # type: ignore[union-attr]
        message.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=size)]
        scene.world.collision_objects.append(message)
    service = client.node.create_client(ApplyPlanningScene, "apply_planning_scene")
    assert client.call(service, ApplyPlanningScene.Request(scene=scene)).success


def request(joints: tuple[str, ...], start: np.ndarray, goal: np.ndarray) -> Any:
    """Return a request from one state to another."""
    message = GetMotionPlan.Request(motion_plan_request=plan_goal(GROUP, joints, goal).request)
    state = message.motion_plan_request.start_state.joint_state
    state.name, state.position = list(joints), start.tolist()
    return message


def answered(client: Client, service: Any, request: Any) -> None:
    """Call a service until it responds: first responses are lost if discovery is not complete."""
    for _ in range(10):
        try:
            client.call(service, request, within=3.0)
        except TimeoutError:
            continue
        return
    raise TimeoutError(f"no response of {service.srv_name}")


def run_client(states: np.ndarray) -> dict[str, list[float]]:
    """Send requests one after the other; return their times [ms]."""
    rclpy.init()
    client = Client(rclpy.create_node("plan_latency_client"))
    joints = load_robot(ROBOT).group(GROUP).joints
    plans = client.node.create_client(GetMotionPlan, "plan_kinematic_path")
    bare = client.node.create_client(GetPlannerParams, "get_planner_params")
    answered(client, bare, GetPlannerParams.Request())
    times: dict[str, list[float]] = {"plan": [], "planning": [], "bare": [], "failed": []}
    for number, (start, goal) in enumerate(itertools.pairwise(states)):
        message = request(joints, start, goal)
        begin = time.perf_counter()
        answer = client.call(plans, message).motion_plan_response
        middle = time.perf_counter()
        client.call(bare, GetPlannerParams.Request())
        end = time.perf_counter()
        if number < WARM_UP:
            continue
        if answer.error_code.val != MoveItErrorCodes.SUCCESS:
            times["failed"].append(answer.error_code.val)
            continue
        times["plan"].append(1e3 * (middle - begin))
        times["planning"].append(1e3 * answer.planning_time)
        times["bare"].append(1e3 * (end - middle))
    client.close()
    rclpy.shutdown()
    return times


def measure(count: int, clients: int, plans: int) -> list[Any]:
    """Return a row of the table: clients in processes of their own."""
    progress(f"{count} boxes, {clients} clients")
    command = script_command("bench_plan_service.py", "--boxes", str(count), "--plans", str(plans))
    started = [
        subprocess.Popen([*command, "--client"], stdout=subprocess.PIPE, text=True)
        for _ in range(clients)
    ]
    outputs = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    found = {name: [t for out in outputs for t in out[name]] for name in outputs[0]}
    spread = Spread.of(found["plan"])
    for code, number in collections.Counter(found["failed"]).items():
        progress(f"{number} failed with error code {code:.0f}")
    return [f"{count} boxes, {clients} client{'s' * (clients > 1)}", spread.count,
            len(found["failed"]), spread.p50, spread.p95, spread.p99,
            Spread.of(found["planning"]).p50, Spread.of(found["bare"]).p50]  # fmt: skip


def main() -> None:
    """Measure, or be a client."""
    parser = arguments(__doc__)
    parser.add_argument("--plans", type=int, default=200, help="per client")
    parser.add_argument("--boxes", type=int, default=40, help="of a client")
    parser.add_argument("--client", action="store_true", help="be a client; used by itself")
    given = parser.parse_args()
    if given.client:
        states = valid_states(boxes(given.boxes), given.plans + WARM_UP + 1)
        print(json.dumps(run_client(states)))
        return
    isolate()
    report = Report("Latency of plan_kinematic_path from other processes")
    rows = []
    with motion_up(ROBOT, "--backend", "mock", "--viewer", "none", "--no-floor"):
        for count, numbers in ((40, (1, 4)), (1000, (1,))):
            rclpy.init()
            client = Client(rclpy.create_node("plan_latency_scene"))
            apply(client, boxes(count))
            client.close()
            rclpy.shutdown()
            rows += [measure(count, number, given.plans) for number in numbers]
    report.table("plan_kinematic_path", COLUMNS, rows)
    report.write(given.json)


if __name__ == "__main__":
    main()
