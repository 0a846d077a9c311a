# SPDX-License-Identifier: Apache-2.0
"""Start and goals: sampled ends, held joints, turns, few joints, tight places."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from barrier_scene import GOAL, START, TARGET, at, barrier_checker, franka
from model.robot_samples import write_robot
from raised_errors import about
from scene.coal_robot import CoalRobot
from scene.slider_robot import slider_robot

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkTolerance, pose_error
from motion_nodes.core.planning import shortcut
from motion_nodes.core.planning.industrial import SequenceItem, plan_sequence
from motion_nodes.core.planning.path_constraints import TaskSpaceRegion
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.planning.planning_problem import (
    START_TOLERANCE,
    Goal,
    JointGoal,
    PlanRequest,
    PlanStatus,
    PoseGoal,
    PosesGoal,
    check_start,
)
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.several_poses import PoseSampler
from motion_nodes.core.planning.shortcut import shorten_with_clearance
from motion_nodes.core.planning.tool_motions import ToolMotion
from motion_nodes.core.planning.tree_search import (
    GoalConfigurations,
    GoalOptions,
    goal_configurations,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy, rotation_about
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame
from motion_nodes.typing import Array

HAND = "panda_hand"


def found(
    *goals: Goal, checker: CollisionChecker | None = None, **options: object
) -> GoalConfigurations:
    request = PlanRequest(checker or barrier_checker(), START, goals, **options)  # type: ignore[arg-type]
    return goal_configurations(request, START)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile the sampler's kernels, so that no timeout includes their compilation."""
    found(PoseGoal(HAND, TARGET, IkTolerance(1e-4, 1e-3)), timeout=100.0)


def hand_poses(Q: Array) -> Array:
    fingers = {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}
    kinematics = Kinematics(franka().tree, franka().group("arm").joints, fixed=fingers)
    return kinematics.pose_batch(Q, HAND)


def test_start_a_hair_outside_its_limits_is_taken_to_the_limit():
    checker = barrier_checker()
    start = START.copy()
    start[5] = checker.limits.upper[5] + 1e-8
    checked = check_start(checker, start)
    assert checked.status is None
    assert checked.q[5] == checker.limits.upper[5]
    assert checked.clipped == pytest.approx(1e-8)
    start[5] += 2 * START_TOLERANCE
    refused = check_start(checker, start)
    assert refused.status is PlanStatus.START_OUTSIDE_LIMITS
    assert "panda_joint6" in refused.reason
    assert f"{checker.limits.upper[5]:.6g}" in refused.reason


def test_start_in_collision_names_the_pair_and_how_deep():
    checker = barrier_checker()
    inside = START.copy()
    inside[0] = math.pi / 2
    inside[3] = -1.5
    checked = check_start(checker, inside)
    assert checked.status is PlanStatus.START_IN_COLLISION
    assert "left" in checked.reason
    assert "mm deep" in checked.reason


def test_start_that_is_not_known_is_told():
    start = START.copy()
    start[2] = np.nan
    checked = check_start(barrier_checker(), start)
    assert checked.status is PlanStatus.START_OUTSIDE_LIMITS
    assert "panda_joint3" in checked.reason
    with pytest.raises(InvalidCommand):
        check_start(barrier_checker(), START[:3])


def test_joint_goal_is_kept_to_the_bit():
    result = found(JointGoal(GOAL))
    assert result.status is None
    assert (result.Q == GOAL).all()
    assert result.index == (0,)


def test_joint_goal_on_a_limit_by_rounding_is_taken_to_it():
    limit = barrier_checker().limits.upper
    goal = START.copy()
    goal[5] = limit[5] + 1e-7
    assert found(JointGoal(goal)).Q[0, 5] == limit[5]


def test_tolerances_of_joints_give_several_goals_within_them():
    below, above = np.full(7, 0.3), np.linspace(0.0, 0.6, 7)
    result = found(JointGoal(GOAL, below, above))
    assert len(result.Q) == GoalOptions().configurations
    assert (result.Q[0] == GOAL).all()
    assert (result.Q >= GOAL - below - 1e-12).all()
    assert (result.Q <= GOAL + above + 1e-12).all()
    again = found(JointGoal(GOAL, below, above))
    np.testing.assert_array_equal(result.Q, again.Q)


def test_tolerances_lead_out_of_a_collision():
    stuck = START.copy()
    stuck[0], stuck[3] = math.pi / 2, -1.5
    alone = found(JointGoal(stuck))
    assert alone.status is PlanStatus.GOAL_IN_COLLISION
    assert "left" in alone.reason
    wide = found(JointGoal(stuck, 1.2, 1.2))
    assert wide.status is None
    assert barrier_checker().are_free(wide.Q).all()


def test_pose_goal_gives_several_solutions_that_are_free_and_exact():
    checker = barrier_checker()
    tolerance = IkTolerance(1e-4, 1e-3)
    result = found(PoseGoal(HAND, TARGET, tolerance), timeout=20.0)
    assert result.status is None
    assert len(result.Q) >= 3
    again = found(PoseGoal(HAND, TARGET, tolerance), timeout=20.0)
    np.testing.assert_array_equal(result.Q, again.Q)
    assert checker.are_free(result.Q).all()
    assert checker.limits.within(result.Q)
    for X in hand_poses(result.Q):
        assert tolerance.accepts(pose_error(X, TARGET))
    apart = np.abs(result.Q[:, None] - result.Q[None]).max(axis=2) + np.eye(len(result.Q))
    assert apart.min() > 0.04


@pytest.mark.parametrize(
    "tolerance",
    [
        IkTolerance(0.05, math.inf),
        IkTolerance((0.1, 0.01, 0.05), math.inf),
        IkTolerance((0.1, 0.01, math.inf), 0.2),
        IkTolerance(1e-3, (0.1, 0.2, math.inf)),
        IkTolerance(math.inf, 0.05),
    ],
)
@pytest.mark.parametrize("offset", [None, (0.0, 0.05, 0.1)])
def test_regions_are_kept_to(tolerance, offset):
    X_LT = None if offset is None else at(*offset)
    X_BT = from_xyz_rpy((0.45, 0.1, 0.4), (math.pi, 0.2, 0.3))
    checker = CollisionChecker(franka(), "arm")
    goal = PoseGoal(HAND, X_BT, tolerance, X_LT)
    result = found(goal, checker=checker, timeout=20.0)
    assert result.status is None, result.reason
    assert checker.are_free(result.Q).all()
    for X in hand_poses(result.Q):
        assert tolerance.accepts(pose_error(X if X_LT is None else X @ X_LT, X_BT))


def test_alternatives_are_all_tried_and_named():
    far = PoseGoal(HAND, at(3.0, 0.0, 0.0))
    result = found(far, JointGoal(GOAL), PoseGoal(HAND, TARGET), timeout=20.0)
    assert result.status is None
    assert set(result.index) == {1, 2}


def test_unreachable_in_collision_and_outside_are_told_apart():
    far = found(PoseGoal(HAND, at(3.0, 0.0, 0.0)))
    assert far.status is PlanStatus.GOAL_UNREACHABLE
    assert "panda_hand" in far.reason
    assert "reaches" in far.reason
    inside = found(PoseGoal(HAND, at(0.0, 0.45, 0.5)))
    assert inside.status is PlanStatus.GOAL_IN_COLLISION
    assert "left" in inside.reason
    bad = GOAL.copy()
    bad[3] = 2.0
    outside = found(JointGoal(bad))
    assert outside.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint4" in outside.reason
    both = found(PoseGoal(HAND, at(3.0, 0.0, 0.0)), PoseGoal(HAND, at(0.0, 0.45, 0.5)))
    assert both.status is PlanStatus.GOAL_IN_COLLISION
    assert "cannot be reached" in both.reason


def test_no_goal_and_cancelled_are_told():
    assert found().status is PlanStatus.NO_GOAL
    assert found(JointGoal(GOAL), cancelled=lambda: True).status is PlanStatus.CANCELLED


def test_goals_that_are_none_are_refused():
    with pytest.raises(InvalidCommand, check=about("a joint goal")):
        found(JointGoal(GOAL[:3]))
    with pytest.raises(UnknownFrame, check=about("panda_hnd")):
        found(PoseGoal("panda_hnd", TARGET))
    with pytest.raises(InvalidConfig):
        found(PoseGoal("panda_link0", TARGET))
    broken = TARGET.copy()
    broken[0, 0] = np.nan
    with pytest.raises(InvalidCommand, check=about("panda_hand")):
        found(PoseGoal(HAND, broken))
    assert found(JointGoal(GOAL * np.nan)).status is PlanStatus.GOAL_OUTSIDE_LIMITS


def checker_beside(q: Array, gap: float) -> CollisionChecker:
    """Return a checker with a box beside the hand, so close that spheres collide with it."""
    checker, X_BH = CollisionChecker(franka(), "arm"), hand_poses(q[None])[0]

    def place(y: float) -> None:
        pose = X_BH @ from_xyz_rpy((0.0, y, 0.02), (0.0, 0.0, 0.0))
        checker.set_scene(Scene(objects={"box": world_object("box", Box((0.1,) * 3), pose)}))

    low, high = 0.0, 0.4
    while high - low > 1e-5:
        y = 0.5 * (low + high)
        place(y)
        low, high = (low, y) if checker.exact.is_free(q) else (y, high)
    place(high + gap)
    return checker


@pytest.mark.parametrize("several", [False, True])
def test_a_pose_beside_spheres_is_recognized_after_some_configurations(several, monkeypatch):
    """The search for one that spheres permit would use all of its time, as none exists."""
    checker, draws = checker_beside(GOAL, 2e-4), 0
    assert checker.exact.is_free(GOAL)
    solve = PoseSampler.solve

    def counted(self, *given, **options):
        nonlocal draws
        draws += 1
        return solve(self, *given, **options)

    monkeypatch.setattr(PoseSampler, "solve", counted)
    pose = PoseGoal(HAND, hand_poses(GOAL[None])[0], EXACTLY)
    goal = PosesGoal((pose,)) if several else pose
    planned = plan(PlanRequest(checker, START, (goal,), timeout=600.0))
    assert planned.trajectory is not None, planned.reason
    assert checker.exact.are_free(planned.trajectory.positions).all()
    end = planned.trajectory.positions[-1]
    assert not checker.is_free(end)
    assert EXACTLY.accepts(pose_error(hand(end), pose.X_BT))
    assert draws < 60


def test_a_pose_beside_spheres_is_planned_with_path_constraints():
    checker = checker_beside(GOAL, 2e-4)
    pose = PoseGoal(HAND, hand_poses(GOAL[None])[0], EXACTLY)
    low = float(hand_poses(np.stack([START, GOAL]))[:, 2, 3].min()) - 0.1
    floor = TaskSpaceRegion(HAND, np.eye(4), (*(-np.inf,) * 2, low, *(-np.inf,) * 3))
    asked = PlanRequest(checker, START, (pose,), timeout=60.0, constraints=(floor,))
    planned = plan(asked)
    assert planned.trajectory is not None, planned.reason
    Q = planned.trajectory.positions
    assert checker.exact.are_free(Q).all()
    assert not checker.is_free(Q[-1])
    assert (hand_poses(Q)[:, 2, 3] > low - 1e-3).all()
    assert EXACTLY.accepts(pose_error(hand(Q[-1]), pose.X_BT))


def test_joints_that_do_not_move_the_link_stay():
    # All joints of the robot: fingers do not move the hand.
    checker = CollisionChecker(franka())
    start = np.concatenate([START, [0.03, 0.02]])
    request = PlanRequest(checker, start, (PoseGoal(HAND, TARGET),), timeout=20.0)
    result = goal_configurations(request, start)
    assert result.status is None
    assert (result.Q[:, 7:] == [0.03, 0.02]).all()


def test_no_time_for_a_reachable_pose_is_told():
    assert len(found(PoseGoal(HAND, TARGET), timeout=20.0).Q)
    short = found(PoseGoal(HAND, TARGET), timeout=1e-9)
    assert short.status is PlanStatus.TIMED_OUT
    assert short.Q.shape == (0, 7)
    assert short.index == ()


EXACTLY = IkTolerance(1e-4, 1e-3)
SPACE = CollisionChecker(franka(), "arm")


def hold(**ranges: tuple[float, float]) -> JointGoal:
    """Return a goal with ranges of some joints; all others are free."""
    low, high = SPACE.limits.lower.copy(), SPACE.limits.upper.copy()
    for name, (least, most) in ranges.items():
        low[SPACE.joint_names.index(name)] = least
        high[SPACE.joint_names.index(name)] = most
    q = np.clip(START, low, high)
    return JointGoal(q, below=q - low, above=high - q)


def found_of_held_goals(goal: PoseGoal, checker: CollisionChecker = SPACE) -> GoalConfigurations:
    return goal_configurations(PlanRequest(checker, START, (goal,), timeout=60.0), START)


def hand(q: Array) -> Array:
    fingers = dict.fromkeys(("panda_finger_joint1", "panda_finger_joint2"), 0.04)
    return Kinematics(franka().tree, SPACE.joint_names, fixed=fingers).pose(q, HAND)


@pytest.mark.parametrize("seed", range(12))
def test_the_pose_is_found_with_the_joint_where_it_is_to_be(seed):
    """By construction a configuration with that joint value exists."""
    rng = np.random.default_rng(seed)
    while True:
        q = rng.uniform(SPACE.limits.lower, SPACE.limits.upper)
        if SPACE.is_free(q):
            break
    held = int(rng.integers(7))
    room = float(rng.choice([0.0, 0.02]))
    name = SPACE.joint_names[held]
    goal = PoseGoal(HAND, hand(q), EXACTLY, joints=hold(**{name: (q[held] - room, q[held] + room)}))
    result = found_of_held_goals(goal)
    assert result.status is None, result.reason
    assert SPACE.are_free(result.Q).all()
    assert np.abs(result.Q[:, held] - q[held]).max() <= room + 1e-9
    for each in result.Q:
        assert EXACTLY.accepts(pose_error(hand(each), goal.X_BT))


def test_a_plan_ends_with_both():
    checker = barrier_checker()
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=hold(panda_joint3=(-0.4, 0.4)))
    planned = plan(PlanRequest(checker, START, (asked,), timeout=60.0))
    assert planned.trajectory is not None, planned.reason
    end = planned.trajectory.positions[-1]
    assert abs(end[2]) <= 0.4 + 1e-9
    assert EXACTLY.accepts(pose_error(hand(end), TARGET))


def test_a_contradiction_is_named():
    # With a straight elbow the hand reaches beyond the pose.
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=hold(panda_joint4=(-0.15, -0.1)))
    result = found_of_held_goals(asked)
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    assert "contradict each other" in result.reason
    assert "panda_joint4 in [-0.15, -0.1]" in result.reason
    assert "panda_joint2" not in result.reason


def test_what_is_out_of_reach_anyway_is_not_called_a_contradiction():
    far = TARGET.copy()
    far[:3, 3] = (3.0, 0.0, 0.0)
    result = found_of_held_goals(PoseGoal(HAND, far, joints=hold(panda_joint1=(0.0, 0.1))))
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    assert "reaches" in result.reason
    assert "contradict" not in result.reason


def test_joints_beyond_their_limits_or_not_finite_are_told():
    bad = GOAL.copy()
    bad[3] = 2.0
    result = found_of_held_goals(PoseGoal(HAND, TARGET, joints=JointGoal(bad, 0.1, 0.1)))
    assert result.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint4 is 2" in result.reason
    result = found_of_held_goals(PoseGoal(HAND, TARGET, joints=JointGoal(bad * np.nan)))
    assert result.status is PlanStatus.GOAL_OUTSIDE_LIMITS


def test_joints_that_do_not_move_the_link_go_where_they_are_to_be():
    checker = CollisionChecker(franka())
    start = np.concatenate([START, [0.03, 0.02]])
    low, high = checker.limits.lower.copy(), checker.limits.upper.copy()
    low[7:], high[7:] = 0.005, 0.01
    q = np.clip(start, low, high)
    asked = PoseGoal(HAND, TARGET, EXACTLY, joints=JointGoal(q, q - low, high - q))
    # The first look at this chain compiles, on a busy machine for more than the usual second.
    options = GoalOptions(patience=30.0)
    request = PlanRequest(checker, start, (asked,), timeout=60.0)
    result = goal_configurations(request, start, options)
    assert result.status is None, result.reason
    assert (result.Q[:, 7:] == 0.01).all()


URDF = """<robot name="turner"><link name="post"/><link name="arm"/><link name="hand"/>
  <joint name="turn" type="continuous"><parent link="post"/><child link="arm"/>
    <axis xyz="0 0 1"/><limit velocity="1" effort="1"/></joint>
  <joint name="swing" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="1 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-7" upper="7" velocity="1" effort="1"/></joint></robot>"""
ROBOT = {
    "format": 1,
    "name": "turner",
    "kind": "arm",
    "urdf": "tiny.urdf",
    "frames": {"base": "post", "tool": "hand"},
    "limits": {"acceleration": {"turn": 5.0, "swing": 5.0}},
    "named_states": {"home": {"turn": 0.0, "swing": 0.0}},
    "drives": [{"joints": ["turn", "swing"], "mode": "position", "stiffness": 10.0}],
    "sources": {"limits": "chosen", "drives": "chosen"},
}
TURN = 2.0 * np.pi


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    """The robot without obstacles."""
    file = write_robot(tmp_path_factory.mktemp("turner"), ROBOT, URDF)
    return CollisionChecker(mn.load_robot(file.parent).description, ("turn", "swing"))


@pytest.mark.parametrize("turns", [-3, 0, 1])
def test_a_continuous_joint_is_there(checker, turns):
    start = (3.0, -1.0)
    request = PlanRequest(checker, start, (mn.JointGoal((3.0 + turns * TURN, -1.0)),))
    found = plan(request)
    assert found.success, found.reason
    assert found.trajectory is not None
    np.testing.assert_allclose(found.trajectory.positions, [start], atol=1e-12)
    for motion in (ToolMotion.PTP, ToolMotion.LIN):
        sequence = plan_sequence([SequenceItem(request, motion, "hand")], effort_share=0.0)
        assert sequence.success, sequence.reason
        assert sequence.trajectory is not None
        assert np.ptp(sequence.trajectory.positions, axis=0).max() < 1e-9


def test_point_to_point_turns_continuous_joints_in_the_shorter_direction(checker):
    request = PlanRequest(checker, (3.0 + 2.0 * TURN, 0.5), (mn.JointGoal((-3.0, 0.5)),))
    found = plan_sequence([SequenceItem(request, ToolMotion.PTP, "hand")], effort_share=0.0)
    assert found.success, found.reason
    assert found.trajectory is not None
    assert found.trajectory.positions[-1, 0] == pytest.approx(3.0 * TURN - 3.0)


@pytest.mark.parametrize("turns", [-1, 1])
def test_a_joint_with_limits_makes_the_turn(checker, turns):
    start = (3.0, -0.5 * turns * TURN)
    goal = (3.0 + 2.0 * TURN, 0.5 * turns * TURN)
    found = plan(PlanRequest(checker, start, (mn.JointGoal(goal),)))
    assert found.success, found.reason
    assert found.trajectory is not None
    path = found.trajectory.positions
    np.testing.assert_allclose(path[-1] - path[0], (0.0, turns * TURN), atol=1e-9)
    assert np.ptp(path[:, 0]) < 0.1


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("so101")["arm"]


def turned(arm: mn.JointGroup, axis: list[float], angle: float) -> np.ndarray:
    """Return the tip's pose in ``ready``, turned about one of its axes."""
    X = arm.fk(arm.state("ready")).copy()
    X[:3, :3] = X[:3, :3] @ rotation_about(np.array(axis), np.array(angle))
    return X


def end_of_plan(arm: mn.JointGroup, X: np.ndarray, *, relaxed: bool) -> np.ndarray:
    """Check that a plan reaches the position and notes relaxation; return the tip's final pose."""
    plan = arm.plan("home", X)
    assert plan.result.success
    assert any("5 joints" in note for note in plan.notes) == relaxed
    end = arm.fk(plan.result.path[-1])
    np.testing.assert_allclose(end[:3, 3], X[:3, 3], atol=1e-3)
    return end


def test_a_pose_that_five_joints_reach_is_reached_exactly(arm):
    X = arm.fk([0.4, -0.7, 0.6, 0.8, 0.9])
    np.testing.assert_allclose(end_of_plan(arm, X, relaxed=False), X, atol=0.012)


def test_an_orientation_is_nearly_reached(arm):
    """The last joint's axis is 8 mm beside the tip, so that its roll tilts the tip's axis."""
    X = turned(arm, [0.0, 0.0, 1.0], 0.7)
    end = end_of_plan(arm, X, relaxed=True)
    np.testing.assert_allclose(end[:3, :3], X[:3, :3], atol=0.05)


def test_the_rotation_about_the_approach_axis_is_left_free(arm):
    """A rotation by 3.05 rad is outside the range of the last joint."""
    X = turned(arm, [0.0, 0.0, 1.0], 3.05)
    end = end_of_plan(arm, X, relaxed=True)
    np.testing.assert_allclose(end[:3, 2], X[:3, 2], atol=0.012)


def test_tolerances_that_the_client_gave_per_axis_are_kept(arm):
    X = turned(arm, [0.0, 0.0, 1.0], 3.05)
    goal = PoseGoal("gripper_frame_link", X, IkTolerance(1e-3, (0.02, 0.02, 0.01)))
    result = arm.plan("home", goal, options=mn.PlanOptions(preferred_clearance=0.0)).result
    assert result.status is PlanStatus.GOAL_UNREACHABLE
    wide = dataclasses.replace(goal, tolerance=IkTolerance(1e-3, (0.02, 0.02, np.inf)))
    assert arm.plan("home", wide).result.success


PREFERRED = 0.005
RADIUS = 0.1
"""Radius of the robot that slides between two walls at x = 0, with a gap from y = -1 to 1 [m]."""


@pytest.fixture
def slider(tmp_path):
    robot = slider_robot(tmp_path, f'<sphere radius="{RADIUS}"/>', RADIUS)
    world = World()
    for name, y in (("below", -3.0), ("above", 3.0)):
        world.add(world_object(name, Box((0.2, 4.0, 1.0)), at(0.0, y, 0.0)))
    return CollisionChecker(robot, scene=world.scene, resolution=0.02)


@pytest.fixture
def searches(monkeypatch):
    """Return the list to which each search appends its allowed time [s]."""
    times: list[float] = []
    original = RrtConnect.plan

    def counted(self: RrtConnect, request: PlanRequest) -> object:
        times.append(request.timeout)
        return original(self, request)

    monkeypatch.setattr(RrtConnect, "plan", counted)
    return times


@pytest.fixture
def samplings(monkeypatch):
    """Return the list to which each batch of configurations appends its size."""
    sizes: list[int] = []
    original = CollisionChecker.are_free

    def counted(self: CollisionChecker, Q: Array) -> object:
        sizes.append(len(Q))
        return original(self, Q)

    monkeypatch.setattr(CollisionChecker, "are_free", counted)
    return sizes


@pytest.mark.parametrize("gap", [0.001, 0.003, 0.0049])
def test_a_tight_goal_is_searched_once(gap, slider, searches, samplings):
    goal = [-RADIUS - 0.1 - gap, -2.0]
    request = PlanRequest(slider, [4.0, -2.0], (JointGoal(goal),), timeout=20.0)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert searches == [pytest.approx(20.0, abs=1.0)]
    assert not found.notes
    assert len(samplings) < 2 * shortcut._BATCHES


def test_a_goal_in_a_pocket_is_searched_once(slider, searches, samplings):
    """The robot fits between two posts with 1 mm on each side: it cannot evade."""
    world = World(slider.scene)
    for name, y in (("one", 0.201), ("two", -0.201)):
        world.add(world_object(name, Box((1.0, 0.2, 1.0)), at(3.0, y, 0.0)))
    slider.set_scene(world.scene)
    request = PlanRequest(slider, [-4.0, 2.0], (JointGoal([3.0, 0.0]),), timeout=20.0)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert len(searches) == 1
    assert len(samplings) < 2 * shortcut._BATCHES
    assert found.trajectory is not None
    oracle = CoalRobot(slider)
    distances = np.array([oracle.distance(q) for q in found.trajectory.positions])
    assert distances.min() > 0.0
    outside = np.abs(found.trajectory.positions[:, 0] - 3.0) > 0.65
    assert distances[outside].min() > PREFERRED - 5e-4


@pytest.mark.parametrize("seed", range(8))
def test_where_there_is_room_the_arm_keeps_the_preferred_clearance(seed):
    rng = np.random.default_rng(seed)
    world = World()
    world.add(world_object("post", Box((0.06, 0.06, 0.9)), at(0.45, 0.0, 0.45)))
    world.add(world_object("table", Box((2.0, 2.0, 0.02)), at(0.0, 0.0, -0.05)))
    checker = CollisionChecker(franka(), "arm", scene=world.scene)
    clear = checker.snapshot()
    clear.set_sphere_margin(PREFERRED)
    over = franka().named_state("ready", "arm")
    ends: list[Array] = []
    while len(ends) < 2:
        q = over + rng.uniform(-0.25, 0.25, 7) + np.eye(7)[0] * (1.2 - 2.4 * len(ends))
        ends += [q] if clear.is_free(q) else []
    request = PlanRequest(checker, ends[0], (JointGoal(ends[1]),), 20.0, random_seed=seed)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert found.trajectory is not None
    assert clear.are_free(found.trajectory.positions).all(), found.notes
    oracle = CoalRobot(checker)
    assert min(oracle.distance(q) for q in found.trajectory.positions[::5]) > 0.0


def test_stretches_join_and_keep_the_ends(slider):
    clear = slider.snapshot()
    clear.set_sphere_margin(0.04)
    begin, end = [-0.21, -2.0], [0.21, -2.0]
    path = np.array([begin, [-0.4, -1.5], [-0.205, -0.9], [0.0, -0.895], [0.205, -0.9], end])
    assert all(slider.edge_free(a, b) for a, b in pairwise(path))
    one, same = (shorten_with_clearance(slider, clear, path) for _ in "ab")
    np.testing.assert_array_equal(one.path, same.path)
    np.testing.assert_array_equal(one.path[[0, -1]], [begin, end])
    assert one.ends_only
    assert not one.clear[[0, -1]].any()
    assert one.clear[1:-1].all()
    for a, b, kept in zip(one.path[:-1], one.path[1:], one.clear, strict=True):
        assert (clear if kept else slider).edge_free(a, b)
    assert one.near_a_tight_line(np.array([begin]), 1e-6).all()
    assert not one.near_a_tight_line(np.array([[0.0, 3.0]]), 0.1).any()
