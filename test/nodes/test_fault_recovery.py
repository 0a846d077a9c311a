# SPDX-License-Identifier: Apache-2.0
"""Faults injected into every node of the registry, all of them in one process.

The node that raises halts and restarts by itself; the others are unaffected.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from patience import LIMIT, wait_until
from policies.standing_policy import write_standing_policy
from rclpy.action import ActionClient
from ros_client import BEST_EFFORT, values_of
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.nodes.registry import NODES, node_class
from motion_nodes.ros.concurrency import fault_recovery
from motion_nodes.ros.concurrency.rclpy_internals import GuardedExecutor
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.run import SWITCH_INTERVAL, _serve

ROBOTS = ("arm:=franka", "base:=jetbot@3,0,0", "omni:=kaya@0,3,0", "car:=leatherback@6,0,0")
RATES = {"rmpflow_policy": 20.0, "articulation_controller": 50.0, "mock_sim": 50.0}
RATE = 5.0
"""[Hz] Slower than usual, for all share one interpreter."""


SHORT_PAUSES = (0.05, 0.05, 0.05)
SHIPPED_PAUSES = fault_recovery.PAUSES
"""[s] Before restarts. In the shorter ones a busy process does not answer its clients."""


class Fault(Exception):
    """The injected fault."""


def nodes_of_all_kinds(folder: Path) -> list[tuple[str, list[str]]]:
    """Return the executable and ROS arguments of at least one node of each class."""
    config = BringupConfig(
        placements=parse_placements(ROBOTS), backend="mock", use_sim_time=False,
        viewer_port=18480, tasks=True, cameras=("arm/camera",),
    )  # fmt: skip
    found = []
    for spec in nodes_for(config):
        if spec.executable in ("robot_state", "controller_manager", "base_navigator") and (
            spec.namespace != "base"
        ):
            continue
        rate = ["-p", f"update_rate:={RATES.get(spec.executable, RATE)}"]
        period = ["-p", "diagnostic_updater.period:=0.2"]
        found.append((spec.executable, [*spec.ros_args(), *rate, *period]))
    cell = json.dumps(["other:=jetbot@9,0,0"])
    found.append(("mujoco_sim", ["--ros-args", "-p", f"robots:={cell}", "-p",
                                 "publish_clock:=false"]))  # fmt: skip
    policy = ["-p", "robot:=go2", "-p", f"policy:={write_standing_policy(folder)}"]
    found.append(("policy_controller", ["--ros-args", *policy]))
    # A robot that does not answer; its node waits for it.
    driver = ["-p", "robot:=so101", "-p", "device:=/dev/no_such_port"]
    found.append(("robot_driver", ["--ros-args", "-r", "__ns:=/real", *driver]))
    images = json.dumps(["camera/depth/image_rect_raw"])
    found.append(("object_detector", ["--ros-args", "-r", "__ns:=/arm", "-p", "robot:=franka",
                                      "-p", f"depth_images:={images}"]))  # fmt: skip
    robots = json.dumps(["arm:=franka"])
    found.append(("articulation_graph", ["--ros-args", "-p", f"robots:={robots}"]))
    return found


@pytest.fixture(scope="module")
def nodes(ros, tmp_path_factory):
    """One node of each class, active, served as in a process of the suite."""
    patch = pytest.MonkeyPatch()
    patch.setattr(fault_recovery, "PAUSES", SHORT_PAUSES)
    patch.setattr(fault_recovery, "WINDOW", 600.0)  # as long as the slowest machine takes
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    made: dict[str, MotionNode[Any]] = {}
    wanted = nodes_of_all_kinds(tmp_path_factory.mktemp("policy"))
    assert {executable for executable, _ in wanted} == set(NODES)
    for executable, args in wanted:
        made[executable] = node_class(executable)(ros_args=args)
    executor = GuardedExecutor()
    for node in made.values():
        executor.add_node(node)
    thread = threading.Thread(
        target=_serve, args=(executor, list(made.values()), threading.Event()), daemon=True
    )
    thread.start()
    wait_until(lambda: all(node.active for node in made.values()), "all nodes active", 240.0)
    yield made
    for node in made.values():
        node.stop()
    executor.shutdown(timeout_sec=5.0)
    thread.join(5.0)
    for node in made.values():
        node.destroy_node()
    sys.setswitchinterval(interval)
    patch.undo()


def inject(node: MotionNode[Any], times: float) -> list[float]:
    """Let the node's next ``times`` ticks raise; return the times at which they did [s]."""
    raised: list[float] = []
    tick = type(node).tick

    def failing(dt: float) -> None:
        if len(raised) < times:
            raised.append(time.monotonic())
            raise Fault("injected")
        tick(node, dt)

    node.tick = failing  # type: ignore[method-assign]
    return raised


def restarts(node: MotionNode[Any]) -> int:
    return len(node._recovery._restarts)


@pytest.fixture(autouse=True)
def afresh(nodes):
    """Forget the restarts of earlier tests."""
    for node in nodes.values():
        node._recovery._restarts.clear()


@pytest.mark.long
@pytest.mark.parametrize("executable", sorted(NODES))
def test_a_fault_stays_with_its_node(nodes, executable, monkeypatch):
    node = nodes[executable]
    loops = {name: other._loop for name, other in nodes.items() if other is not node}
    logged: list[str] = []
    for level in ("warning", "error", "fatal"):
        monkeypatch.setattr(node.get_logger(), level, lambda text, **_: logged.append(text))
    halted = threading.Event()
    halt = node.halt
    monkeypatch.setattr(node, "halt", lambda: (halted.set(), halt())[1])
    raised = inject(node, 1)
    wait_until(lambda: raised, "the fault")
    assert halted.wait(LIMIT)
    wait_until(lambda: any("active again after a fault" in text for text in logged), "the restart")
    assert restarts(node) == 1
    assert node.state_label == "active"
    assert not node._recovery.text
    assert len(raised) == 1
    assert {name: nodes[name]._loop for name in loops} == loops, "another node was restarted"
    assert sum("Traceback" in text for text in logged) == 1
    assert any("Fault: injected; restart 1 of 3" in text for text in logged)
    del node.tick


@pytest.mark.long
def test_a_fault_that_stays_ends_inactive_with_the_reason(nodes, client):
    node = nodes["articulation_graph"]
    raised = inject(node, np.inf)
    status = client.wait_for_diagnosis(
        "/articulation_graph", "stays inactive after 3 restarts", DiagnosticStatus.ERROR
    )
    assert "Fault: injected" in status.message
    assert len(raised) == 4
    assert client.state("/articulation_graph") == "inactive"
    del node.tick
    assert client.change_state("/articulation_graph", "activate")
    client.wait(lambda: not node._recovery.text, "the end of the fault")
    status = client.wait_for_diagnosis("/articulation_graph", "", DiagnosticStatus.OK)
    assert values_of(status)["last fault"] == "the loop stopped: Fault: injected"


@pytest.mark.long
def test_a_goal_under_way_is_aborted_and_the_arm_holds(nodes, client, monkeypatch):
    monkeypatch.setattr(fault_recovery, "PAUSES", SHIPPED_PAUSES)
    node = nodes["articulation_controller"]
    states = client.listen(JointState, "/arm/joint_states", BEST_EFFORT)
    joints = [name for name in node.controller.joint_names if "finger" not in name]
    client.wait(lambda: node.refusal() is None, "a state of the arm")
    start = node.controller.step(0.0).positions[: len(joints)]
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = joints
    point = JointTrajectoryPoint(positions=(start + 0.4).tolist())
    point.time_from_start.sec = 4
    goal.trajectory.points = [point]
    action = ActionClient(
        client.node,
        FollowJointTrajectory,
        "/arm/joint_trajectory_controller/follow_joint_trajectory",
    )
    client.wait(action.server_is_ready, "the action")
    sent = action.send_goal_async(goal)
    client.wait(sent.done, "acceptance")
    assert sent.result().accepted
    result = sent.result().get_result_async()
    client.wait(lambda: states and max(map(abs, states.newest.velocity)) > 0.05, "motion")
    raised = inject(node, 1)
    client.wait(result.done, "the result")
    assert raised
    assert result.result().result.error_code != FollowJointTrajectory.Result.SUCCESSFUL
    assert result.result().result.error_string
    client.wait(lambda: max(map(abs, states.newest.velocity)) < 1e-3, "rest")
    held = np.array(states.newest.position)
    wait_until(lambda: restarts(node) == 1 and node.state_label == "active", "the restart", 60.0)
    client.wait(lambda: node.refusal() is None, "a state of the arm")
    client.spin(0.3)
    assert np.abs(np.array(states.newest.position) - held).max() < 1e-3
    del node.tick
    action.destroy()


@pytest.mark.parametrize(
    ("executable", "space", "controller"),
    [
        ("differential_base", "base", "diff_drive_controller"),
        ("holonomic_base", "omni", "mecanum_drive_controller"),
        ("ackermann_base", "car", "ackermann_steering_controller"),
    ],
)
def test_wheels_stop_and_parameters_stay(nodes, client, executable, space, controller):
    node = nodes[executable]
    assert client.set_parameters(f"/{space}/{controller}", cmd_vel_timeout=0.7).successful
    commands = client.listen(JointState, f"/{space}/joint_command", BEST_EFFORT)
    publisher = client.publisher(TwistStamped, f"/{space}/{controller}/cmd_vel")
    twist = TwistStamped()
    twist.twist.linear.x = 0.1

    def fast() -> bool:
        return bool(commands) and bool(np.nanmax(np.abs(commands.newest.velocity)) > 0.05)

    client.repeat(lambda: publisher.publish(twist), fast, "turning wheels")
    raised = inject(node, 1)
    client.wait(lambda: raised and not fast(), "the stop")
    wait_until(lambda: restarts(node) == 1 and node.state_label == "active", "the restart", 60.0)
    client.spin(0.3)
    assert not fast(), "commands before the fault are dropped"
    assert node.params.cmd_vel_timeout == 0.7
    del node.tick
