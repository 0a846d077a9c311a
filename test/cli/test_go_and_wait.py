# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of ``motion go``, ``wait`` and others are refused before ROS is used."""

import math

import pytest

from motion_nodes.cli.suite_commands import _for_its_arm
from motion_nodes.cli.values import PoseWords
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.clients import commands, wait


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("go franka", "neither is given"),
        ("go franka --to ready --to-position 0.4,0,0.4", "both are given"),
        ("go franka --to redy", "Did you mean 'ready'"),
        ("go franka --to 9,0,0,0,0,0,0", "outside the limits"),
        ("go franka --to-position 0.4,nan,0.4", "'nan' is not a finite number"),
        ("go franka --to-rpy 0,0,0", "--to-position x,y,z [m] is required"),
        ("go franka --to ready --velocity 0", "--velocity is 0"),
        ("go franka --to ready --acceleration 1.5", "--acceleration is 1.5"),
        ("go franka --to ready --timeout inf", "--timeout is inf"),
        ("go franka@a --to ready", "must be X,Y,YAW"),
        ("go frnka --to ready", "Did you mean 'franka'"),
        ("go ready", "motion go ROBOT --to ready"),
        ("go jetbot", "give a target: --to x,y"),
        ("go jetbot --to 1", "needs 2 or 3 numbers"),
        ("go jetbot --to-position 1,2,3", "its only target option is --to x,y or x,y,yaw"),
        ("go jetbot --to 1,0 --velocity 0.5", "its only target option is --to x,y or x,y,yaw"),
        ("wait franka --timeout 0", "--timeout is 0"),
        ("wait franka --node move_grup", "Did you mean 'move_group'"),
        ("wait frnka", "Did you mean 'franka'"),
        ("recover frnka", "Did you mean 'franka'"),
        ("recover jetbot", "no arm"),
        ("recover franka --timeout nan", "--timeout is nan"),
        ("task pick up the cube --timeout 0", "--timeout is 0"),
        ("mcp frnka", "Did you mean 'franka'"),
        ("mcp jetbot", "arms only"),
        ("mcp franka --max-velocity 2", "max_velocity is 2"),
    ],
)
def test_wrong_words_are_told_before_ros_is_asked(motion, monkeypatch, command, said):
    def never(*_args, **_more):
        raise AssertionError("ROS was asked")

    monkeypatch.setattr(commands, "execute", never)
    monkeypatch.setattr(wait, "wait_for_nodes", never)
    monkeypatch.setattr(commands, "recover", never)
    monkeypatch.setattr(commands, "run_task", never)
    done = motion(command)
    assert done.code == 2
    assert said in done.text


@pytest.mark.parametrize(
    ("to", "position", "for_arm"),
    [
        ("1,0.5", None, False), ("1, -0.5, 1e-1", None, False), (None, None, False),
        ("ready", None, True), ("lift=0.3", None, True), (None, "0.4,0,0.5", True),
    ],
)  # fmt: skip
def test_numbers_are_for_the_base_of_a_mobile_manipulator(to, position, for_arm):
    pose = PoseWords(position, None, None)
    assert _for_its_arm(load_robot("franka"), to, pose) is for_arm
    assert not _for_its_arm(load_robot("jetbot"), to, pose), "it has no arm"


@pytest.fixture
def ordered(motion, monkeypatch):
    """Run a command; return the order that it would have executed, and the command's result."""
    orders = []

    def carry_out(order, patience, news, end="", /):
        orders.append((order, patience))
        return end

    def run(command, end=""):
        monkeypatch.setattr(commands, "execute", lambda *given: carry_out(*given, end))
        done = motion(command)
        return orders[-1][0], done

    return run


def test_joints_are_ordered_from_the_planner_of_the_namespace(ordered):
    order, done = ordered("go left:=franka --to ready --velocity 0.3")
    robot = load_robot("franka")
    assert order.action == "/left/move_action"
    request = order.goal.request
    assert request.max_velocity_scaling_factor == 0.3
    wanted = {c.joint_name: c.position for c in request.goal_constraints[0].joint_constraints}
    group = robot.group("arm")
    assert list(wanted) == list(group.joints)
    assert list(wanted.values()) == pytest.approx(robot.named_state("ready", group.name))
    assert done.code == 0
    assert "target reached after" in done.out


def test_a_pose_has_an_orientation_only_where_one_is_given(ordered):
    order, _ = ordered("go left:=franka --to-position 0.4,0.1,0.5")
    constraints = order.goal.request.goal_constraints[0]
    assert not constraints.orientation_constraints
    assert constraints.position_constraints[0].header.frame_id == "left/panda_link0"
    order, _ = ordered("go franka --to-position 0.4,0.1,0.5 --to-rpy 180,0,0 --degrees")
    constraints = order.goal.request.goal_constraints[0]
    assert abs(constraints.orientation_constraints[0].orientation.x) == pytest.approx(1.0)
    assert constraints.position_constraints[0].header.frame_id == "panda_link0"


def test_a_base_is_sent_to_a_pose_of_its_odometry(ordered):
    order, done = ordered("go b:=jetbot --to 1,-2,90 --degrees", "the wheels are stuck")
    assert order.action == "/b/navigate_to_pose"
    pose = order.goal.pose
    assert pose.header.frame_id == "b/odom"
    assert (pose.pose.position.x, pose.pose.position.y) == (1.0, -2.0)
    assert pose.pose.orientation.z == pytest.approx(math.sin(math.pi / 4))
    assert done.code == 1
    assert "target not reached: the wheels are stuck." in done.text
    assert commands.base_to_pose("", "odom", Pose2()).action == "/navigate_to_pose"
