# SPDX-License-Identifier: Apache-2.0
"""The planning pipeline: from a request to a verified motion, with payloads and moved joints."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from barrier_scene import GOAL, START, TARGET, at, barrier_checker, franka, max_depth
from scene.coal_robot import CoalRobot

import motion_nodes as mn
from motion_nodes.core.ik.problem import IkRequest, IkTolerance
from motion_nodes.core.planning import pipeline, plan_run, planners
from motion_nodes.core.planning.cartesian import (
    CartesianOptions,
    cartesian_motion,
    cartesian_path,
    checker_kinematics,
)
from motion_nodes.core.planning.path_verification import Verification
from motion_nodes.core.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.core.planning.planners import (
    default_settings,
    find_planner,
    make_planner,
    planner_names,
)
from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
)
from motion_nodes.core.planning.pose_solvers import pose_solver
from motion_nodes.core.planning.recovery import RecoverySettings
from motion_nodes.core.planning.rrt import RrtSettings
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.warm_up import warm_up
from motion_nodes.core.robot.inverse_dynamics import PayloadDynamics
from motion_nodes.core.robot.kinematics import GroupKinematics, Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.timed_path import PathEfforts, TimedPath
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint
from motion_nodes.kernels import robot_codegen
from motion_nodes.typing import Array


def planned(goal: Goal, **options: object) -> MotionPlan:
    request = PlanRequest(barrier_checker(), START, (goal,), timeout=60.0)
    return plan(request, PlanOptions(**options))  # type: ignore[arg-type]


def check_motion(result: MotionPlan, checker: CollisionChecker, end: Array | None = None) -> None:
    assert result.status is PlanStatus.SOLVED, result.reason
    assert result.path is not None
    assert result.motion is not None
    assert result.trajectory is not None
    limits = checker.limits
    times = np.linspace(result.motion.start_time, result.motion.end_time, 2000)
    q, v, a, _ = result.motion.states(times)
    assert limits.within(q, 1e-9)
    assert (np.abs(v) <= limits.velocity + 1e-6).all()
    assert (np.abs(a) <= limits.acceleration + 1e-6).all()
    assert (result.path[0] == START).all()
    np.testing.assert_allclose(result.trajectory.positions[0], START, atol=1e-12)
    if end is not None:
        assert (result.path[-1] == end).all()
        np.testing.assert_allclose(result.trajectory.positions[-1], end, atol=1e-9)
    oracle = CoalRobot(checker)
    assert min(oracle.distance(q) for q in result.trajectory.positions[::4]) > -1e-4


def test_hundred_seeds_find_their_way_between_barriers():
    checker = barrier_checker()
    request = PlanRequest(checker, START, (JointGoal(GOAL),), timeout=5.0)
    warm_up(checker)
    options = PlanOptions(retime=False, verify=False)
    results = [plan(replace(request, random_seed=seed), options) for seed in range(100)]
    solved = [r for r in results if r.success]
    assert len(solved) >= 95
    for result in solved[::10]:
        assert result.path is not None
        assert (result.path[0] == START).all()
        assert (result.path[-1] == GOAL).all()
        assert max_depth(result.path, checker) < 3e-3


def test_a_refused_motion_is_searched_again_with_other_samples(monkeypatch):
    """Equal samples would mostly lead along the way that was refused."""
    seeds, search = [], RrtConnect.plan

    def spied(self: RrtConnect, request: PlanRequest) -> PlanResult:
        seeds.append(request.random_seed)
        return search(self, request)

    monkeypatch.setattr(RrtConnect, "plan", spied)
    refusal = Verification(False, "too close", 1, 0.0, 0.0)
    monkeypatch.setattr(plan_run.PlanRun, "verified", lambda *_: refusal)
    request = PlanRequest(barrier_checker(), START, (JointGoal(GOAL),), timeout=60.0)
    assert plan(request).result.status is PlanStatus.INVALID_PATH
    assert len(seeds) == len(set(seeds)) > 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_motion_to_joint_values_is_free_and_within_limits(seed):
    checker = barrier_checker()
    request = PlanRequest(checker, START, (JointGoal(GOAL),), timeout=60.0, random_seed=seed)
    result = plan(request)
    check_motion(result, checker, GOAL)
    stages = ["path", "shorten", "retime", "sample", "verify"]
    assert [stage.name for stage in result.stages[-5:]] == stages
    assert all(stage.time >= 0.0 and stage.words for stage in result.stages)
    assert result.time >= sum(stage.time for stage in result.stages)


def test_motion_to_a_pose_gets_there():
    tolerance = IkTolerance(1e-4, 1e-3)
    result = planned(PoseGoal("panda_hand", TARGET, tolerance))
    check_motion(result, barrier_checker())
    assert result.trajectory is not None
    X = Kinematics(franka().tree, franka().group("arm").joints).pose(
        result.trajectory.positions[-1], "panda_hand"
    )
    np.testing.assert_allclose(X, TARGET, atol=2e-3)


def test_slower_motion_takes_longer_and_zero_means_full_speed():
    slow = planned(JointGoal(GOAL), velocity_scaling=0.2, acceleration_scaling=0.2)
    full = planned(JointGoal(GOAL), velocity_scaling=0.0, acceleration_scaling=0.0)
    fast = planned(JointGoal(GOAL))
    assert slow.motion is not None
    assert full.motion is not None
    assert fast.motion is not None
    assert slow.motion.duration > 2.0 * fast.motion.duration
    assert full.motion.duration == pytest.approx(fast.motion.duration)


def test_equal_seeds_give_equal_motions():
    first, again = planned(JointGoal(GOAL)), planned(JointGoal(GOAL))
    assert first.trajectory is not None
    assert again.trajectory is not None
    np.testing.assert_array_equal(first.trajectory.positions, again.trajectory.positions)


def test_more_attempts_take_the_shortest_path():
    options = {"shorten": False, "retime": False, "verify": False}
    one = planned(JointGoal(GOAL), **options)
    best = planned(JointGoal(GOAL), attempts=8, **options)
    assert best.result.cost <= one.result.cost
    assert len([s for s in best.stages if s.name == "path"]) == 8


def test_robot_that_is_there_gets_a_trajectory_of_one_point():
    result = planned(JointGoal(START))
    assert result.success
    assert result.trajectory is not None
    assert result.trajectory.times.tolist() == [0.0]
    assert "nothing to move" in result.notes[0]


@pytest.mark.parametrize(
    ("goal", "status", "word"),
    [
        (PoseGoal("panda_hand", at(3.0, 0.0, 0.0)), PlanStatus.GOAL_UNREACHABLE, "reaches"),
        (JointGoal(GOAL + 3.0), PlanStatus.GOAL_OUTSIDE_LIMITS, "panda_joint2"),
    ],
)
def test_failures_keep_their_status_and_words(goal, status, word):
    result = planned(goal)
    assert result.status is status
    assert word in result.reason
    assert result.trajectory is None
    assert result.path is None


def test_carried_object_is_kept_clear_of_what_the_hand_passes():
    """An empty hand passes straight over a wall, a stick in it has to be lifted over the wall."""
    world = World()
    world.add(world_object("wall", Box((0.5, 0.02, 0.45)), at(0.45, 0.0, 0.225)))
    empty = CollisionChecker(franka(), "arm", scene=world.scene)
    over = franka().named_state("ready", "arm")
    q, other = over - 0.6 * np.eye(7)[0], over + 0.6 * np.eye(7)[0]
    X_WL = Kinematics(franka().tree, franka().group("arm").joints).pose(q, "panda_hand")
    world.add(world_object("stick", Box((0.02, 0.02, 0.2)), X_WL @ at(0.0, 0.0, 0.22)))
    touching = ("panda_leftfinger", "panda_rightfinger")
    world.attach_object("stick", "panda_hand", X_WL, touching)
    carrying = CollisionChecker(franka(), "arm", scene=world.scene)
    request = PlanRequest(empty, q, (JointGoal(other),), timeout=20.0)
    straight = plan(request)
    assert straight.success
    assert straight.path is not None
    np.testing.assert_array_equal(straight.path, [q, other])
    around = plan(replace(request, checker=carrying))
    assert around.success, around.reason
    assert straight.trajectory is not None
    assert around.trajectory is not None
    oracle = CoalRobot(carrying)
    assert min(oracle.distance(q) for q in straight.trajectory.positions) < -0.01
    assert min(oracle.distance(q) for q in around.trajectory.positions) > -1e-4
    assert plan(replace(request, goals=(JointGoal(over),))).success
    refused = plan(replace(request, checker=carrying, goals=(JointGoal(over),)))
    assert refused.status is PlanStatus.GOAL_IN_COLLISION
    assert "stick" in refused.reason


def test_path_that_fails_verification_is_searched_anew_and_else_withheld(monkeypatch):
    answers = iter([False, True])

    class Doubtful:
        def __init__(self, checker: CollisionChecker) -> None:
            self.resolution = checker.resolution

        def verify(self, path: Array) -> Verification:
            free = next(answers)
            return Verification(free, "" if free else "link in box", len(path), 0.0, 0.0)

    monkeypatch.setattr(plan_run, "PathVerifier", Doubtful)
    result = planned(JointGoal(GOAL), preferred_clearance=0.0)
    assert result.success
    assert any("finer" in note and "link in box" in note for note in result.notes)
    answers = itertools.repeat(False)
    withheld = planned(JointGoal(GOAL), preferred_clearance=0.0)
    assert withheld.status is PlanStatus.INVALID_PATH
    assert withheld.trajectory is None
    assert withheld.path is None
    assert "link in box" in withheld.reason


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("", "RRTConnect"),
        ("RRTConnectkConfigDefault", "RRTConnect"),
        ("geometric::RRTConnect", "RRTConnect"),
        ("RRTkConfigDefault", "RRT"),
        ("RRT*", "RRTstar"),
        ("RRTstarkConfigDefault", "RRTstar"),
        ("JacobianTransposeRRT", "TaskSpaceRRT"),
        ("direct", "Direct"),
        ("AORRTC", "AnytimeRRTConnect"),
    ],
)
def test_planners_go_by_many_names(name, known):
    assert find_planner(name) == (known, "")
    assert make_planner(name).name == known


@pytest.mark.parametrize("name", ["birrt", "my_planner_config", "Straight-Line*"])
def test_a_registered_name_is_that_planner_whatever_else_it_could_mean(name, monkeypatch):
    monkeypatch.setattr(planners, "_MAKERS", dict(planners._MAKERS))
    planners.register(name, lambda _: make_planner("RRT"))
    assert find_planner(name) == (name, "")
    assert make_planner(name).name == "RRT"


def test_unknown_planner_gives_the_default_and_a_note():
    name, note = find_planner("RRTConect")
    assert name == "RRTConnect"
    assert "'RRTConnect'" in note
    result = planned(JointGoal(GOAL), planner="PRM", retime=False)
    assert result.success
    assert result.result.planner == "RRTConnect"
    assert any("PRM" in note for note in result.notes)


def test_every_planner_has_settings_of_its_own_and_plans():
    settings = default_settings()
    assert set(settings) <= set(planner_names())
    shared = make_planner("RRTConnect", RrtSettings(max_iterations=123))
    assert isinstance(shared, RrtConnect)
    assert shared.settings.max_iterations == 123
    near = START + np.array([0.2, 0.1, 0.1, 0.1, 0.1, -0.1, 0.1])
    request = PlanRequest(barrier_checker(), START, (JointGoal(near),), timeout=1.0)
    for name in planner_names():
        result = make_planner(name).plan(request)
        assert result.success, (name, result.reason)
        assert math.isfinite(result.cost)


def test_among_many_boxes_no_sample_of_a_motion_touches_by_coal():
    rng = np.random.default_rng(8)
    world = World()
    for number in range(40):
        angle, radius = rng.uniform(0.5, 2.0 * np.pi - 0.5), rng.uniform(0.6, 0.9)
        place = (radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0.0, 1.0))
        world.add(world_object(f"box_{number}", Box((0.08, 0.08, 0.08)), at(*place)))
    robot = franka()
    checker = CollisionChecker(robot, "arm", scene=world.scene)
    start = robot.home[robot.group("arm").indices]
    goal = np.array(
        [0.2505104637491229, 1.0106442366023503, 2.892404152828816, -2.3368046560068043,
         -2.698978701068385, 3.6834611146737943, -2.884053666556085]
    )  # fmt: skip
    result = plan(PlanRequest(checker, start, (JointGoal(goal),), timeout=60.0))
    assert result.success, result.reason
    assert result.trajectory is not None
    oracle = CoalRobot(checker)
    assert min(oracle.distance(q) for q in result.trajectory.positions[::3]) > -1e-4


@pytest.mark.parametrize(
    "goal",
    [
        JointGoal([1.0, 2.0]),
        JointGoal(["up"] * 7),
        JointGoal(None),  # type: ignore[arg-type]
        JointGoal(START, [0.1, 0.2], 0.1),
        JointGoal(START, "wide", 0.1),  # type: ignore[arg-type]
        PoseGoal("panda_hand", np.diag([1.0, 1.0, -1.0, 1.0])),
        PoseGoal("panda_hand", TARGET, X_LT=np.full((4, 4), np.nan)),
    ],
)
def test_goals_of_a_wrong_form_are_invalid_commands(goal):
    with pytest.raises(InvalidCommand):
        plan(PlanRequest(barrier_checker(), START, (goal,)))


def test_a_timeout_is_a_number():
    with pytest.raises(InvalidCommand, match="timeout of planning is nan"):
        PlanRequest(barrier_checker(), START, (JointGoal(GOAL),), timeout=math.nan)


FRANKA = mn.load_robot("franka")
ARM, ROBOT = FRANKA["arm"], FRANKA.description
LOAD = mn.Payload("panda_hand_tcp", 2.5, (0.02, 0.0, 0.05))


def carrying(payload: mn.Payload | None, share: float = 0.9) -> mn.PlanOptions:
    return mn.PlanOptions(payload=payload, effort_share=share)


@pytest.mark.timeout(900)
def test_efforts_of_a_payload_are_those_of_the_controllers_model():
    names = ROBOT.joint_names
    loaded = PayloadDynamics(ROBOT, names, LOAD.link)
    rng, kinematics = np.random.default_rng(2), Kinematics(ROBOT.tree, names)
    Q, V, A = rng.uniform(-1.0, 1.0, (3, 10, len(names)))
    added = LOAD.efforts_batch(kinematics, Q, V, A)
    for q, v, a, tau in zip(Q, V, A, added, strict=True):
        loaded.set_payload(0.0)
        bare = loaded.efforts(q, v, a)
        loaded.set_payload(LOAD.mass, LOAD.center)
        assert tau == pytest.approx(loaded.efforts(q, v, a) - bare, abs=1e-6)


@pytest.mark.timeout(900)
def test_motions_with_a_payload_respect_the_effort_limits():
    """The same motion, planned without the payload, exceeds the effort limits."""
    start, goal = ARM.state("ready"), np.array([1.5, 0.9, 0.0, -0.6, 0.0, 1.6, 0.8])
    efforts = PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, 0.6, LOAD)
    empty, loaded = (ARM.plan(start, goal, options=carrying(x, 0.6)) for x in (None, LOAD))
    assert empty.success, empty.reason
    assert loaded.success, loaded.reason
    assert efforts.stretch(empty.motion) > 1.01
    assert efforts.stretch(loaded.motion) <= 1.001
    assert loaded.motion.duration > empty.motion.duration


@pytest.mark.timeout(900)
def test_payloads_beyond_the_effort_limits_are_rejected_by_joint():
    ready, far = ARM.state("ready"), ARM.state("ready").copy()
    far[[1, 3, 5]] = 1.5, -0.1, 1.6
    heavy = mn.Payload("panda_hand_tcp", 40.0)
    plan = ARM.plan(ready, far, options=carrying(heavy))
    assert plan.status is PlanStatus.INVALID_PATH
    assert "40 kg at panda_hand_tcp is too heavy at the start" in plan.reason
    assert "panda_joint" in plan.reason
    request = PlanRequest(ARM.checker(), ready, (mn.JointGoal(far),))
    recovered = pipeline.plan(request, replace(carrying(heavy), recovery=RecoverySettings()))
    assert recovered.reason == plan.reason, "no recovery was to be attempted"
    medium = mn.Payload("panda_hand_tcp", 9.0)
    assert not PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, payload=medium).overload(ready)[1]
    plan = ARM.plan(ready, far, options=carrying(medium))
    assert plan.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint2 needs" in plan.reason
    assert " N m to hold" in plan.reason
    plan = ARM.plan(ready, mn.PoseGoal(ARM.tip, ARM.fk(far)), options=carrying(medium))
    assert plan.status is PlanStatus.INVALID_PATH
    assert plan.trajectory is None
    assert "% of the motion" in plan.reason
    assert ARM.plan(ready, far, options=carrying(heavy, share=0.0)).success


@pytest.mark.timeout(900)
def test_lines_with_a_payload_respect_the_effort_limits_too():
    path = np.array([ARM.state("ready"), [1.5, 0.9, 0.0, -0.6, 0.0, 1.6, 0.8]])
    efforts = PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, 0.6, LOAD)

    def line(payload: mn.Payload | None, share: float = 0.6) -> TimedPath:
        return cartesian_motion(
            ARM.checker(), path, avoid_collisions=False, effort_share=share, payload=payload
        )

    empty, loaded = line(None), line(LOAD)
    assert efforts.stretch(empty) > 1.01
    assert efforts.stretch(loaded) <= 1.001
    assert line(LOAD, share=0.0).duration <= empty.duration < loaded.duration
    with pytest.raises(Infeasible, match="40 kg at panda_hand_tcp is too heavy: panda_joint"):
        line(mn.Payload("panda_hand_tcp", 40.0))


@pytest.mark.timeout(900)
def test_invalid_payloads():
    for bad in ({"mass": -1.0}, {"mass": np.nan}, {"mass": 1.0, "center": (0.0, np.inf, 0.0)}):
        with pytest.raises(InvalidConfig):
            mn.Payload("panda_hand", **bad)
    with pytest.raises(UnknownFrame):
        ARM.plan("ready", "home", options=carrying(mn.Payload("hook", 1.0)))


ARMS = {"franka": ("arm", "panda_hand"), "g1": ("left_arm", "left_wrist_yaw_link")}
"""Group and link; the joints of the hand are below the link, those of the waist above it."""


def checker_with(name: str, seed: int) -> CollisionChecker:
    """Return a checker of an arm whose other joints are at random positions."""
    robot = load_robot(name)
    checker = CollisionChecker(robot, ARMS[name][0])
    rng = np.random.default_rng(seed)
    limits, home = robot.limits, robot.home
    share = rng.uniform(0.0, 0.2, len(home))
    checker.set_positions(home + share * (np.where(share > 0.1, limits.upper, limits.lower) - home))
    return checker


def home_of(checker: CollisionChecker) -> np.ndarray:
    return checker.robot.home[checker.robot.indices(checker.joint_names)]


@pytest.mark.parametrize("name", ARMS)
def test_kinematics_are_those_with_fixed_joints(name):
    checker, link = checker_with(name, 1), ARMS[name][1]
    robot, q = checker.robot, home_of(checker)
    values = dict(zip(robot.joint_names, checker.positions.tolist(), strict=True))
    fixed = {joint: x for joint, x in values.items() if joint not in checker.joint_names}
    oracle = Kinematics(robot.tree, checker.joint_names, fixed=fixed, base=robot.base_frame)
    found = checker_kinematics(checker)
    assert found.pose(q, link) == pytest.approx(oracle.pose(q, link), abs=1e-12)
    Q = q + np.random.default_rng(2).uniform(-0.3, 0.3, (5, len(q)))
    expected = oracle.jacobian_batch(Q, link)
    assert found.jacobian_batch(Q, link) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ARMS)
def test_solutions_reach_the_pose_in_the_base_and_no_code_is_compiled_again(name):
    link = ARMS[name][1]
    for seed in range(3):
        checker = checker_with(name, seed)
        kinematics, q = checker_kinematics(checker), home_of(checker)
        goal = kinematics.pose(q + 0.1, link)
        solver, columns = pose_solver(checker, link)
        found = solver.solve(IkRequest(goal, seed=q[columns]))
        assert found.success
        end = q.copy()
        end[columns] = found.q
        assert kinematics.pose(end, link) == pytest.approx(goal, abs=0.02)
        line = [kinematics.pose(q + 0.02, link)]
        options = CartesianOptions(avoid_collisions=False)
        path = cartesian_path(checker, q, link, line, options)
        assert path.success, path.reason
        if seed == 0:
            known = len(robot_codegen._loaded)
    assert len(robot_codegen._loaded) == known


def test_refused():
    robot = load_robot("franka")
    with pytest.raises(UnknownJoint):
        GroupKinematics(robot, ["elbow"], robot.home)
    with pytest.raises(InvalidCommand):
        GroupKinematics(robot, robot.joint_names[:7], robot.home[:7])
    kinematics = GroupKinematics(robot, robot.joint_names[:7], robot.home)
    with pytest.raises(InvalidCommand):
        kinematics.pose(robot.home, "panda_hand")
    with pytest.raises(InvalidCommand):
        kinematics.jacobian_batch(robot.home[:7], "panda_hand")
