# SPDX-License-Identifier: Apache-2.0
"""Journey B: joint commands move a Franka in MuJoCo under gravity, over DDS between processes."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import EVERY
from ros_client import LATCHED, RELIABLE, RosClient
from ros_processes import SuiteProcess
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.meshes import resolve_mesh, with_absolute_meshes
from motion_nodes.core.robot.poses import from_xyz_quat, inverse
from motion_nodes.ros.joint_topics import stamp_ns

CONTROLLER = "/joint_trajectory_controller"
ROBOT = load_robot("franka")
ARM = [name for name in ROBOT.joint_names if "finger" not in name]
HOME = dict(zip(ROBOT.joint_names, ROBOT.home.tolist(), strict=True))
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Arm:
    """A client of the Franka."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.states = client.listen(JointState, "/joint_states", EVERY)
        self.reports = client.listen(
            JointTrajectoryControllerState, f"{CONTROLLER}/controller_state"
        )
        self.commands = client.listen(JointState, "/joint_command", RELIABLE)
        self.publisher = client.publisher(JointState, f"{CONTROLLER}/reference")

    @property
    def joints(self) -> dict[str, float]:
        message = self.states.newest
        return dict(zip(message.name, message.position, strict=True))

    def send(
        self, goal: Mapping[str, float] | None = None, stamp: float = 0.0, **channels: Any
    ) -> None:
        message = JointState(**channels)
        if goal is not None:
            message.name, message.position = list(goal), list(goal.values())
        message.header.stamp.sec = int(stamp)
        self.publisher.publish(message)

    def away(self, goal: Mapping[str, float]) -> float:
        """Return the max distance of a joint from its goal [rad]."""
        joints = self.joints
        return max(abs(joints[name] - value) for name, value in goal.items())

    def arrives(self, goal: Mapping[str, float]) -> None:
        """Wait until the measured joints are at a goal."""
        self.client.wait(lambda: self.away(goal) < 0.01, f"the joints at {goal}")

    def move(self, goal: Mapping[str, float], within: float = 15.0) -> None:
        self.client.repeat(
            lambda: self.send(goal),
            lambda: self.away(goal) < 0.005,
            f"the arm at {goal}, it is at {self.joints}",
            rate=2.0,
            within=within,
        )

    def targets(self) -> list[float]:
        """Return the reference positions in the next report of the controller [rad or m]."""
        self.reports.clear()
        self.client.wait(lambda: len(self.reports) > 1, "the controller's reports")
        return list(self.reports.newest.reference.positions)

    def fastest(self) -> float:
        return max(map(abs, self.states.newest.velocity))

    def clear(self) -> None:
        for heard in (self.states, self.reports, self.commands):
            heard.clear()


def goal_near_home(offset: float) -> dict[str, float]:
    return {name: HOME[name] + offset for name in ARM}


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """A Franka whose controller was started before the robot."""
    client = module_client
    container_only = module_suite.bring_up(
        "franka", without=ALONE, backend="hardware", use_sim_time=True
    )
    arm = Arm(client)
    waiting = client.wait_for_diagnosis(CONTROLLER, "waiting for joint_states")
    told = "command refused: the robot's state is not known"
    client.repeat(
        lambda: arm.send({ARM[0]: 0.3}),  # the first may precede discovery
        lambda: told in container_only["container"].output,
        told,
        rate=2.0,
    )
    sim = module_suite.node("mujoco_sim", robots=["franka"])
    processes = {"container": container_only["container"], "mujoco_sim": sim}
    holding = client.wait_for_diagnosis(CONTROLLER, "holding")
    client.wait(lambda: arm.states and arm.reports, "the arm")

    def bring_back(which: str) -> SuiteProcess:
        processes[which] = module_suite.run(processes[which].command)
        return processes[which]

    return SimpleNamespace(
        arm=arm, client=client, processes=processes, again=bring_back,
        waiting=waiting, holding=holding,
    )  # fmt: skip


@pytest.fixture
def arm(cell):
    """The arm at rest near home."""
    cell.client.wait_for_diagnosis(CONTROLLER, "ing")
    cell.arm.move({name: HOME[name] for name in ARM})
    cell.client.wait(lambda: cell.arm.fastest() < 0.01, "the arm to rest")
    return cell.arm


def log(cell: SimpleNamespace) -> str:
    return cell.processes["container"].output


def test_a_controller_that_is_early_waits_and_says_so(cell):
    assert cell.waiting.level == DiagnosticStatus.WARN
    # A command from before the robot was refused, not queued.
    assert cell.arm.away(HOME) < 0.02


@pytest.mark.long
def test_moves_by_name_and_holds_under_gravity(cell, arm):
    goal = dict(zip(ARM, (0.4, -0.3, 0.3, -2.0, 0.2, 1.9, 0.3), strict=True))
    arm.move(dict(reversed(goal.items())))
    cell.client.wait(lambda: arm.fastest() < 0.005, "the arm to rest")
    arm.states.clear()
    cell.client.spin(1.0)
    assert len(arm.states) > 20
    for message in arm.states.messages:
        joints = dict(zip(message.name, message.position, strict=True))
        assert max(abs(joints[name] - value) for name, value in goal.items()) < 0.01


def test_breaks_do_not_add_up_to_a_sag(cell, arm):
    before = arm.targets()
    for _ in range(5):
        assert cell.client.change_state(CONTROLLER, "deactivate")
        assert cell.client.change_state(CONTROLLER, "activate")
        arm.targets()
    assert arm.targets() == before


def test_transform_tree_is_the_forward_kinematics(cell, arm):
    client = cell.client
    static = client.listen(TFMessage, "/tf_static", LATCHED)
    moving = client.listen(TFMessage, "/tf")
    described = client.listen(String, "/robot_description", LATCHED)
    client.wait(lambda: static and moving and described, "tf, tf_static, robot_description")
    urdf = described.newest.data
    assert urdf == with_absolute_meshes(ROBOT.urdf, ROBOT.directory)
    meshes = re.findall(r'<mesh filename="([^"]+)"', urdf)
    assert meshes
    assert all("://" in uri for uri in meshes)
    assert all(resolve_mesh(uri, Path("/")).is_file() for uri in meshes)
    transforms = {t.child_frame_id: t for t in static.newest.transforms}

    def matched() -> tuple[TFMessage, JointState] | None:
        states = {stamp_ns(message): message for message in arm.states.messages}
        for tf in reversed(moving.messages):
            if (state := states.get(stamp_ns(tf.transforms[0]))) is not None:
                return tf, state
        return None

    tf, message = client.wait(matched, "a state with the time of a transform")
    transforms |= {t.child_frame_id: t for t in tf.transforms}
    q = dict(zip(message.name, message.position, strict=True))
    tree = ROBOT.tree
    X_WF = Kinematics(tree).frames(np.array([q[name] for name in tree.joint_names]))
    names = list(tree.packed.frame_names)
    assert set(transforms) == set(names[1:])
    for child, transform in transforms.items():
        t, r = transform.transform.translation, transform.transform.rotation
        X_PC = from_xyz_quat((t.x, t.y, t.z), (r.x, r.y, r.z, r.w))
        parent = names.index(transform.header.frame_id)
        expected = inverse(X_WF[parent]) @ X_WF[names.index(child)]
        np.testing.assert_allclose(X_PC, expected, atol=2e-3)


@pytest.mark.long
def test_killed_simulation(cell, arm):
    arm.move(goal_near_home(-0.3))
    arm.send(goal_near_home(0.4))
    cell.client.wait(lambda: arm.fastest() > 0.3, "motion")
    cell.processes["mujoco_sim"].kill()
    cell.client.wait_for_diagnosis(CONTROLLER, "commands are refused", DiagnosticStatus.ERROR)
    told = "joints stopped, commands are refused until the state is known again"
    cell.client.wait(lambda: told in log(cell), told)
    cell.client.spin(0.3)  # Earlier messages may still arrive.
    arm.clear()
    arm.send(goal_near_home(0.1))
    cell.client.spin(0.5)
    assert not arm.commands, "no commands without a robot"
    arm.clear()
    cell.again("mujoco_sim")
    cell.client.wait_for_diagnosis(CONTROLLER, "holding")
    cell.client.wait(lambda: len(arm.states) > 20, "the robot's return")
    # The robot restarts at home, far from its last reference: it is held there without a jump.
    for message in arm.states.messages:
        joints = dict(zip(message.name, message.position, strict=True))
        assert max(abs(joints[name] - HOME[name]) for name in ARM) < 0.01
    arm.move(goal_near_home(0.2))


def test_sigterm_leaves_the_arm_holding(cell, arm):
    arm.send(goal_near_home(0.5))
    cell.client.wait(lambda: arm.fastest() > 0.3, "motion")
    assert cell.processes["container"].stop(15) == 0
    cell.client.wait(
        lambda: not np.nan_to_num(arm.commands.newest.velocity).any(), "the last command to stand"
    )
    cell.client.wait(lambda: arm.fastest() < 0.01, "rest")
    rested = arm.joints
    cell.client.spin(0.5)
    arm.arrives(rested)
