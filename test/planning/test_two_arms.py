# SPDX-License-Identifier: Apache-2.0
"""Two arms as one group: inverse kinematics of both tools, and a tray that stays level."""

import math

import numpy as np
import pinocchio as pin
import pytest
from raised_errors import about
from two_arms import TIPS, write_two_arms

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkStatus
from motion_nodes.core.planning.planning_problem import PlanRequest, PlanStatus
from motion_nodes.core.planning.several_poses import solve_poses
from motion_nodes.core.planning.tool_motions import ToolMotion, tool_path
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    UnknownFrame,
    UnknownGroup,
    UnknownJoint,
)

PATIENT = mn.IkSettings(timeout=10.0)
"""Timeout for loaded machines [s]."""
LEFT, RIGHT = TIPS
DOWN = np.diag([1.0, -1.0, -1.0])
WIDTH, TILT, SLIP, TURN = 0.3, 0.05, 0.002, 0.01
"""Width of the tray [m]; tolerances of its tilt [rad] and of the grasps [m], [rad]."""
pytestmark = pytest.mark.timeout(900)  # compiles on a new machine


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    return mn.load_robot(str(write_two_arms(tmp_path_factory.mktemp("two_arms"))))


@pytest.fixture(scope="module")
def arms(robot):
    return robot["both_arms"]


def tray(x: float) -> dict[str, np.ndarray]:
    """Return the poses of both tools that hold a tray."""
    poses = {}
    for tip, side in zip(TIPS, (1.0, -1.0), strict=True):
        poses[tip] = np.eye(4)
        poses[tip][:3, :3], poses[tip][:3, 3] = DOWN, (x, 0.5 * side * WIDTH, 0.25)
    return poses


def by_pinocchio(robot: mn.RobotModel, joints: tuple[str, ...], Q: np.ndarray) -> np.ndarray:
    """Return the poses of both tools by Pinocchio, shape (2, m, 4, 4)."""
    model = pin.buildModelFromXML(robot.description.urdf)
    data, full = model.createData(), pin.neutral(model)
    columns = [model.joints[model.getJointId(name)].idx_q for name in joints]
    frames, found = [model.getFrameId(tip) for tip in TIPS], []
    for q in Q:
        full[columns] = q
        pin.framesForwardKinematics(model, data, full)
        found.append([data.oMf[frame].homogeneous.copy() for frame in frames])
    return np.swapaxes(np.array(found), 0, 1)


def test_a_group_of_two_chains_has_their_tips(robot, arms):
    assert arms.tip is None
    assert arms.tips == TIPS
    assert robot["left_arm"].tips == (LEFT,)
    assert robot["left_gripper"].tips == ()
    with pytest.raises(InvalidConfig, match=RIGHT):
        arms.fk(arms.state("home"))


def test_both_tools_are_brought_to_their_poses(robot, arms):
    found = arms.ik(tray(0.35), "home", world=mn.World(), settings=PATIENT)
    assert found.success, found.reason
    reached = by_pinocchio(robot, arms.joint_names, found.q[None])[:, 0]
    assert reached == pytest.approx(np.array(list(tray(0.35).values())), abs=1e-3)
    held = arms.ik(tray(0.35), "home", locked={"left_panda_joint1": -0.4}, settings=PATIENT)
    assert held.success, held.reason
    assert held.q[0] == pytest.approx(-0.4)


def test_poses_that_share_joints_are_reached_together():
    """The elbow and the tool of one arm are solved for together."""
    arm = mn.load_robot("franka")["arm"]
    for q in arm.random(5, seed=2):
        wanted = {link: arm.fk(q, link) for link in ("panda_link4", "panda_hand")}
        found = arm.ik(wanted, q + 0.05, settings=PATIENT)
        assert found.success, found.reason
        for link, X in wanted.items():
            reached = arm.fk(found.q, link)
            assert np.linalg.norm(reached[:3, 3] - X[:3, 3]) <= 1e-3
            assert 0.5 * (np.trace(reached[:3, :3].T @ X[:3, :3]) - 1.0) >= math.cos(0.01)


@pytest.mark.long
def test_a_tray_is_carried_level_over_a_wall(robot, arms):
    """Tilt, and slip and rotation between the grasps, by Pinocchio at steps of 1 mm."""
    world = mn.World()
    world.add("wall", mn.Box(0.02, 0.6, 0.3), mn.pose(xyz=(0.48, 0.0, 0.15)))
    start = arms.ik(tray(0.35), "home", world=world, settings=PATIENT).q
    first, second = (arms.fk(start, tip) for tip in TIPS)
    slack = (SLIP,) * 3 + (TURN,) * 3
    X_LR = np.linalg.inv(first) @ second
    grasps = mn.TaskSpaceRegion(
        RIGHT, X_LR, [-x for x in slack], slack, reference_link=LEFT, name="tray"
    )
    level = mn.TaskSpaceRegion.rotation_within(LEFT, DOWN, (TILT, TILT, math.inf), name="level")
    plan = arms.plan(start, tray(0.6), world, constraints=[grasps, level], timeout=20.0)
    assert plan.success, plan.reason
    motion = plan.motion
    Q = motion.states(np.linspace(0.0, motion.duration, 3000))[0]
    left, right = by_pinocchio(robot, arms.joint_names, Q)
    assert np.linalg.norm(np.diff(left[:, :3, 3], axis=0), axis=1).max() < 1e-3
    assert np.arccos(np.clip(-left[:, 2, 2], -1.0, 1.0)).max() <= math.hypot(TILT, TILT)
    change = np.linalg.inv(X_LR) @ np.linalg.inv(left) @ right
    assert np.abs(change[:, :3, 3]).max() <= SLIP + 1e-5
    angles = np.arccos(np.clip(0.5 * (np.trace(change[:, :3, :3], axis1=1, axis2=2) - 1.0), -1, 1))
    assert angles.max() <= math.sqrt(3.0) * TURN + 1e-5
    assert left[:, 2, 3].max() > 0.3, "the tray did not pass over the wall"
    assert left[-1] == pytest.approx(tray(0.6)[LEFT], abs=0.01)
    assert motion.limit_use(arms.limits).stretch <= 1.0 + 1e-6
    assert arms.collision_free_batch(Q[::50], world).all()


def test_each_arm_is_an_obstacle_of_the_other(arms):
    """Unconstrained, the tools exchange sides without collisions of the arms."""
    ends = {LEFT: tray(0.6)[RIGHT], RIGHT: tray(0.4)[LEFT]}
    plan = arms.plan("home", ends, timeout=60.0)
    assert plan.success, plan.reason
    assert arms.collision_free_batch(plan.trajectory.positions).all()
    for tip, wanted in ends.items():
        assert arms.fk(plan.path[-1], tip) == pytest.approx(wanted, abs=0.01)


@pytest.mark.long
def test_invalid_targets_are_refused_by_name(arms):
    for error, targets in (
        (UnknownFrame, {"left_tool": np.eye(4)}),
        (InvalidConfig, {"stand": np.eye(4)}),
        (InvalidCommand, {}),
        (InvalidCommand, {LEFT: np.full((4, 4), np.nan)}),
        (InvalidCommand, {LEFT: 2.0 * np.eye(4)}),
    ):
        with pytest.raises(error):
            arms.ik(targets)
    with pytest.raises(UnknownJoint):
        arms.ik(tray(0.35), locked={"elbow": 0.0})
    far = tray(0.35)
    far[RIGHT][0, 3] = 3.0
    found = arms.ik(far, "home", settings=PATIENT)
    assert found.status is IkStatus.OUT_OF_REACH
    assert RIGHT in found.reason
    same = dict.fromkeys(TIPS, tray(0.35)[LEFT])
    found = arms.ik(same, "home", world=mn.World(), settings=PATIENT)
    assert found.status is IkStatus.REFUSED
    assert "right_" in found.reason
    plan = arms.plan("home", far, timeout=1.0)
    assert plan.status is PlanStatus.GOAL_UNREACHABLE
    assert RIGHT in plan.reason


def test_motions_of_one_tool_reject_goals_of_two(arms):
    checker, q = arms.checker(), arms.state("home")
    poses = tuple(mn.PoseGoal(tip, X) for tip, X in tray(0.35).items())
    request = PlanRequest(checker, q, (mn.PosesGoal(poses),))
    with pytest.raises(InvalidCommand, check=about("LIN")):
        tool_path(request, q, ToolMotion.LIN, None, LEFT)
    reached = tool_path(request, q, ToolMotion.PTP, None, LEFT)
    end = reached.evaluate([reached.length])[0]
    for tip, X in tray(0.35).items():
        assert arms.fk(end, tip) == pytest.approx(X, abs=0.01)


def test_constraints_that_the_start_violates_say_by_how_much(arms):
    slack = (SLIP,) * 6
    apart = mn.TaskSpaceRegion(
        RIGHT, np.eye(4), [-x for x in slack], slack, reference_link=LEFT, name="tray"
    )
    plan = arms.plan("home", tray(0.35), constraints=[apart])
    assert plan.status is PlanStatus.START_VIOLATES_CONSTRAINTS
    assert "tray: y is" in plan.reason


def test_a_validity_condition_is_part_of_the_search(arms):
    checker = arms.checker()
    poses = tuple(mn.PoseGoal(tip, X) for tip, X in tray(0.35).items())
    q = arms.state("home")
    found = solve_poses(checker, mn.PosesGoal(poses), q, validity=lambda q: "never")
    assert found.status is IkStatus.REFUSED
    assert "never" in found.reason


def test_a_condition_may_return_a_boolean_of_numpy():
    arm = mn.load_robot("franka")["arm"]
    q = arm.state("ready")
    wanted = {"panda_hand": arm.fk(q, "panda_hand")}
    assert arm.ik(wanted, q, validity=lambda x: x[3] < 0.0, settings=PATIENT).success
    found = arm.ik(wanted, q, validity=lambda x: x[3] > 0.0, settings=PATIENT)
    assert not found.success
    assert "rejected as invalid" in found.reason


def test_any_groups_and_joints_are_a_group(robot, arms):
    """The declared group for its joints in order; another one otherwise."""
    both = robot["left_arm+right_arm"]
    assert both.name == arms.name
    swapped = robot["right_arm + left_arm"]
    joints = robot["right_arm"].joint_names + robot["left_arm"].joint_names
    assert swapped.joint_names == joints == robot.group(joints).joint_names
    assert swapped.tips == (RIGHT, LEFT) or set(swapped.tips) == set(TIPS)
    q = swapped.random(seed=3)
    for tip, side, part in ((RIGHT, "right_arm", slice(0, 7)), (LEFT, "left_arm", slice(7, 14))):
        one = robot[side]
        root = robot.description.tree.root
        X_RB = swapped.fk(q, one.base) if one.base != root else np.eye(4)
        assert np.allclose(swapped.fk(q, tip), X_RB @ one.fk(q[part]), atol=1e-12)
        J = swapped.jacobian(q, tip)
        R = X_RB[:3, :3]
        J_one = one.jacobian(q[part])
        assert np.allclose(J[:, part], np.vstack([R @ J_one[:3], R @ J_one[3:]]), atol=1e-12)
        rest = np.delete(J, np.arange(14)[part], axis=1)
        assert not rest.any()


def test_joints_between_two_links_are_a_chain(robot):
    whole = robot["left_arm"]
    part = robot.group(whole.joint_names[2:5])
    assert part.base is not None
    assert part.tip is not None
    q = part.random(seed=1)
    assert part.ik(part.fk(q), seed=q, settings=PATIENT).success
    assert robot.group(whole.joint_names).tip == whole.tip
    assert robot.group(whole.joint_names[::-1]).tip is None
    assert robot.group([whole.joint_names[0], whole.joint_names[2]]).tip is None


@pytest.mark.parametrize(
    ("words", "error", "names"),
    [
        ("left_arm+left_arm", InvalidConfig, ("left_panda_joint1", "twice")),
        (["left_arm", "left_panda_joint3"], InvalidConfig, ("left_panda_joint3", "twice")),
        ("left_arm+right_arn", UnknownGroup, ("right_arn", "right_arm")),
        (["left_panda_join1"], UnknownGroup, ("left_panda_joint1",)),
        (["left_mount"], UnknownGroup, ("left_mount",)),
        ([], InvalidConfig, ("joints",)),
        ("", UnknownGroup, ("left_arm",)),
    ],
)
def test_invalid_groups_are_refused_by_name(robot, words, error, names):
    with pytest.raises(error) as caught:
        robot.group(words)
    for name in names:
        assert name in str(caught.value)


def test_a_group_that_is_no_chain_names_its_tips_when_asked_for_a_pose(robot):
    both = robot["right_arm+left_arm"]
    for ask in (
        lambda: both.ik(np.eye(4)),
        lambda: both.ik_batch(np.eye(4)[None]),
        lambda: both.fk(both.state("home")),
        lambda: both.plan(both.state("home"), np.eye(4)),
        lambda: both.rmpflow(),
    ):
        with pytest.raises(InvalidConfig) as caught:
            ask()
        assert all(tip in str(caught.value) for tip in TIPS)
