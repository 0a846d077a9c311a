# SPDX-License-Identifier: Apache-2.0
"""Tasks and limits, and null spaces."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ik.ik_samples import RandomChain, draw, pose_of, solver_of
from raised_errors import about
from scipy.optimize import lsq_linear

import motion_nodes as mn
from motion_nodes.core.ik import tasks_and_limits
from motion_nodes.core.ik.bounded_least_squares import bounded_least_squares
from motion_nodes.core.ik.problem import IkRequest, IkTolerance, pose_error
from motion_nodes.core.ik.redundancy import (
    LimitCentring,
    Manipulability,
    Posture,
    TipKeeper,
    self_motion,
)
from motion_nodes.core.robot.poses import rate_of_rotation_vector, rotation_about, rotation_vector
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint

ARM = mn.load_robot("franka")["arm"]
G1 = mn.load_robot("g1")
BODY = G1[["left_leg", "right_leg", "waist", "left_arm", "right_arm"]]
HAND, DT = "panda_hand_tcp", 0.02
GOOD = np.array([0.3, -0.5, 0.4, -2.0, 0.2, 1.8, 0.5])
X_WB = mn.pose(xyz=(0.3, -0.2, 0.8), rpy=(0.2, -0.1, 1.0))


def near(group: mn.JointGroup, base: str = "fixed", seed: int = 0, **options) -> mn.Configuration:
    spread = 0.3 * np.random.default_rng(seed).normal(size=len(group.joint_names))
    q = group.limits.clip(group.state("home") + spread)
    return group.configuration(q, base=base, X_WB=X_WB, **options)


@pytest.fixture(scope="module")
def lift(tmp_path_factory):
    """A column of two stages, the upper a mimic joint, and an arm with an endless first joint."""
    folder = tmp_path_factory.mktemp("lift")
    source = (Path(__file__).parents[1] / "variety" / "lift_column.urdf").read_text()
    urdf = folder / "lift.urdf"
    urdf.write_text(source.replace('name="j0" type="revolute"', 'name="j0" type="continuous"'))
    chain = '<chain base_link="base_link" tip_link="tool0"/>'
    (folder / "lift.srdf").write_text(
        f'<robot name="lift_column"><group name="arm">{chain}</group></robot>'
    )
    robot = mn.load_robot(folder / "lift.srdf", urdf=urdf)
    assert robot["arm"].limits.continuous.any()
    return robot["arm"]


def test_humanoid_frames_and_centre_of_mass_are_those_of_pinocchio():
    now = near(BODY, "floating")
    model = pin.buildModelFromXML(G1.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    q, columns = pin.neutral(model), list(range(6))
    q[:7] = pin.SE3ToXYZQUAT(pin.SE3(now.X_WB))
    for name, value in zip(now.joint_names, now.q, strict=True):
        joint = model.joints[model.getJointId(name)]
        q[joint.idx_q] = value
        columns.append(joint.idx_v)
    J = pin.jacobianCenterOfMass(model, data, q)[:, columns]
    c_W, own = now.center_of_mass()
    np.testing.assert_allclose(c_W, data.com[0], atol=1e-12)
    np.testing.assert_allclose(own, J, atol=1e-9)
    frame = model.getFrameId("left_wrist_yaw_link")
    world = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    oracle = pin.computeFrameJacobian(model, data, q, frame, world)[:, columns]
    np.testing.assert_allclose(now.jacobian("left_wrist_yaw_link"), oracle, atol=1e-12)


def tasks_of(now: mn.Configuration, frame: str, reference: str) -> list[mn.Task]:
    away = mn.pose(xyz=(0.3, -0.2, 0.1), rpy=(0.8, 0.4, -1.5))
    return [
        mn.FrameTask(frame, now.pose(frame) @ away),
        mn.FrameTask(frame, away, reference=reference),
        mn.CenterOfMassTask([0.1, 0.2, 0.3]),
        mn.PostureTask(now.q + 0.4),
        mn.DampingTask(),
        mn.GazeTask(frame, [1.5, -0.4, 0.6], axis=(1.0, 0.2, -0.5)),
        mn.GazeTask(frame, [0.3, 0.2, -0.4], reference=reference),
    ]


def test_errors_change_as_their_jacobians_say_while_a_configuration_is_integrated(lift):
    robots = [
        (near(ARM, state={"panda_finger_joint1": 0.02}), HAND, "panda_link3"),
        (near(BODY, "floating"), "left_wrist_yaw_link", "right_wrist_yaw_link"),
        (near(BODY, "planar"), "left_wrist_yaw_link", "pelvis"),
        (near(lift), "tool0", "stage2"),
    ]
    rng, step = np.random.default_rng(1), 1e-6
    for now, frame, reference in robots:
        direction = rng.normal(size=len(now.velocity_names))
        for task in tasks_of(now, frame, reference):
            _, J = task.linearized(now)
            ahead, behind = (task.error(now.integrate(direction, t)) for t in (step, -step))
            if not isinstance(task, mn.DampingTask):
                np.testing.assert_allclose((behind - ahead) / (2 * step), J @ direction, atol=1e-7)


def test_a_camera_looks_at_a_point_that_another_link_carries():
    now = BODY.configuration("home", base="floating", X_WB=X_WB)
    eye, hand = "torso_link", "left_wrist_yaw_link"
    gaze = mn.GazeTask(eye, [0.1, 0.0, 0.0], axis=(2.0, 0.0, 0.0), reference=hand)
    reach = mn.FrameTask(hand, now.pose(hand) @ mn.pose(xyz=(0.1, 0.3, 0.2)))
    for _ in range(60):
        now = now.integrate(mn.solve_step(now, [gaze, reach], dt=DT), DT)
    X, p = now.pose(eye), now.pose(hand) @ [0.1, 0.0, 0.0, 1.0]
    way = p[:3] - X[:3, 3]
    assert X[:3, 0] @ way == pytest.approx(np.linalg.norm(way), rel=1e-7)
    assert np.abs(reach.error(now)).max() < 1e-4


@pytest.mark.parametrize("away", [0.0, 1e-13, 1e-9])
def test_a_gaze_to_the_front_is_kept_and_one_to_the_back_turns_away(away):
    now = ARM.configuration("ready")
    X = now.pose(HAND)
    ahead = mn.GazeTask(HAND, X[:3, 3] + X[:3, 2] + away * X[:3, 0])
    assert np.linalg.norm(ahead.error(now)) == pytest.approx(away, abs=1e-12)
    assert np.isfinite(mn.solve_step(now, ahead, dt=DT)).all()
    behind = mn.GazeTask(HAND, X[:3, 3] - X[:3, 2] + away * X[:3, 0])
    assert np.linalg.norm(behind.error(now)) == pytest.approx(np.pi, abs=1e-6)
    for _ in range(200):
        v = mn.solve_step(now, behind, [mn.ConfigurationLimit(), mn.VelocityLimit()], dt=DT)
        now = now.integrate(v, DT)
    assert np.linalg.norm(behind.error(now)) < 1e-4


def test_constraints_are_kept_exactly_and_tasks_as_well_as_they_permit():
    pytest.importorskip("daqp")
    now = near(BODY, "floating", seed=4)
    feet = [mn.FrameTask(f"{side}_ankle_roll_link", now) for side in ("left", "right")]
    other = near(BODY, "floating", seed=5)
    hand = mn.FrameTask("left_wrist_yaw_link", other)
    v = mn.solve_step(now, [hand, mn.DampingTask(0.1)], constraints=feet, dt=1.0)
    # The optimality conditions of the program without bounds, as one linear system.
    (e, J), size = hand.linearized(now), len(now.velocity_names)
    C = np.concatenate([foot.linearized(now)[1] for foot in feet])
    H = J.T @ J + (0.01 + 1e-6) * np.eye(size)
    system = np.block([[H, C.T], [C, np.zeros((12, 12))]])
    oracle = np.linalg.solve(system, np.concatenate([J.T @ e, np.zeros(12)]))[:size]
    np.testing.assert_allclose(v, oracle, atol=1e-8)
    # Twice the same constraint is one; what no joint changes is none.
    twice = mn.solve_step(now, [hand, mn.DampingTask(0.1)], constraints=[*feet, *feet], dt=1.0)
    np.testing.assert_allclose(twice, v, atol=1e-8)
    fixed = mn.FrameTask("panda_link0", np.eye(4))
    assert np.isfinite(
        mn.solve_step(ARM.configuration("ready"), mn.DampingTask(), constraints=fixed, dt=DT)
    ).all()


def test_a_hand_on_a_line_stays_on_it_within_limits():
    pytest.importorskip("daqp")
    now = ARM.configuration("ready")
    X = now.pose(HAND)
    line = mn.FrameTask(HAND, now, weights=((0.0, 1.0, 1.0), 1.0))
    pull = mn.FrameTask(HAND, X[:3, 3] + [0.2, 0.3, 0.1])
    rules = [mn.ConfigurationLimit(), mn.VelocityLimit(), mn.CollisionLimit()]
    for _ in range(100):
        v = mn.solve_step(now, [pull], rules, constraints=line, dt=DT)
        assert (np.abs(v) <= ARM.limits.velocity + 1e-9).all()
        now = now.integrate(v, DT)
        assert np.abs(line.error(now)[1:]).max() < 2e-3  # linearized
    assert abs((now.pose(HAND)[:3, 3] - X[:3, 3]) @ X[:3, 0]) > 0.1
    far = mn.FrameTask(HAND, X @ mn.pose(xyz=(0.5, 0.0, 0.0)))
    with pytest.raises(mn.MotionError, match="cannot be kept within the limits"):
        mn.solve_step(now, [pull], rules, constraints=far, dt=DT)


def test_an_endless_joint_takes_the_shorter_way_and_a_mimic_joint_keeps_its_range(lift):
    turn = lift.joint_names.index("j0")
    q = lift.state("home").copy()
    q[turn] = 3.0
    now = lift.configuration(q)
    q[turn] = -3.0
    v = mn.solve_step(now, [mn.PostureTask(q, weight=1.0)], dt=1.0)
    assert v[turn] == pytest.approx(2.0 * math.pi - 6.0, abs=1e-4)
    up = mn.FrameTask("tool0", now.pose("tool0") @ mn.pose(xyz=(0.0, 0.0, 9.0)))
    for _ in range(50):
        now = now.integrate(mn.solve_step(now, [up], [mn.ConfigurationLimit()], dt=DT), DT)
    assert lift.limits.within(now.q)


def test_a_hand_arrives_as_fast_as_its_joints_may():
    now = ARM.configuration("ready")
    hand = mn.FrameTask(HAND, now.pose(HAND) @ mn.pose(xyz=(0.1, 0.2, -0.1), rpy=(0.4, 0.0, 0.5)))
    rules = [mn.ConfigurationLimit(), mn.VelocityLimit()]
    for _ in range(100):
        v = mn.solve_step(now, [hand, mn.PostureTask(now, weight=1e-3)], rules, dt=DT)
        assert (np.abs(v) <= ARM.limits.velocity + 1e-12).all()
        now = now.integrate(v, DT)
    assert np.abs(hand.error(now)).max() < 1e-4
    hand.target = hand.target[:3, 3] + 0.05  # a position alone leaves the rotation to the others
    for _ in range(50):
        now = now.integrate(mn.solve_step(now, hand, rules, dt=DT), DT)
    assert np.abs(hand.error(now)[:3]).max() < 1e-4
    assert np.abs(hand.error(now)[3:]).max() > 0.1


def test_the_program_and_the_bounded_least_squares_agree():
    pytest.importorskip("daqp")
    rng = np.random.default_rng(2)
    for _ in range(20):
        J, e = rng.normal(size=(6, 9)), rng.normal(size=6)
        high = rng.uniform(0.01, 0.5, 9)
        rows = tasks_and_limits.LimitRows(-high, high, np.zeros((1, 9)), np.ones(1))
        d = tasks_and_limits.bounded_least_squares(J, e, 1e-3, np.zeros(9), -high, high)
        np.testing.assert_allclose(
            tasks_and_limits._quadratic_program(J, e, 1e-3, rows), d, atol=1e-8
        )


@pytest.mark.parametrize("seed", range(3))
def test_links_stay_apart_from_a_ball_and_the_hand_in_its_box(seed):
    pytest.importorskip("daqp")
    rng = np.random.default_rng(seed)
    now = ARM.configuration("ready", X_WB=X_WB if seed else None)
    X = now.pose(HAND)
    world, middle = mn.World(), X[:3, 3] + rng.uniform(-0.05, 0.05, 3) + X[:3, 2] * 0.25
    world.add("ball", mn.Sphere(0.06), mn.pose(xyz=tuple(middle)))
    floor = X[2, 3] - 0.3
    rules = [
        mn.ConfigurationLimit(), mn.VelocityLimit(), mn.CollisionLimit(world, distance=0.01),
        mn.PositionLimit(HAND, [-np.inf, -np.inf, floor], [np.inf] * 3),
    ]  # fmt: skip
    checker = ARM.checker(world)
    checker.set_base_pose(now.X_WB)
    hand, least = mn.FrameTask(HAND, mn.multiply(X, mn.pose(xyz=(0.0, 0.0, 0.5)))), np.inf
    for _ in range(150):
        now = now.integrate(mn.solve_step(now, [hand], rules, dt=DT), DT)
        least = min(least, checker.distance(now.q).value)
        assert now.pose(HAND)[2, 3] >= floor - 1e-3  # linearized
    assert 0.005 < least < 0.05
    # A robot that begins within a distance may not come nearer, but stand still or leave.
    world.move({"ball": mn.pose(xyz=tuple(now.pose(HAND)[:3, 3]))})
    assert np.isfinite(mn.solve_step(now, [hand], rules, dt=DT)).all()


def test_a_differential_base_never_moves_sideways_and_keeps_away_from_a_wall():
    pytest.importorskip("daqp")
    robot = mn.load_robot("nova_carter")
    now = robot["wheels"].configuration("home", base="planar")
    assert now.velocity_names[:2] == ("base x", "base yaw")
    world = mn.World()
    world.add("wall", mn.Box(0.1, 4.0, 1.0), mn.pose(xyz=(1.5, 0.0, 0.5)))
    frame = robot.description.base_frame
    drive = mn.FrameTask(frame, mn.pose(xyz=(2.0, 0.6, 0.0)), weights=(1.0, 0.0))
    rules = [mn.VelocityLimit(base=[0.5, 1.0]), mn.CollisionLimit(world, detection=0.3)]
    for _ in range(120):
        v = mn.solve_step(now, [drive, mn.DampingTask(1e-3)], rules, dt=0.05)
        before, now = now.X_WB, now.integrate(v, 0.05)
        moved = np.linalg.inv(before) @ now.X_WB
        # On an arc, half the turn is the direction of the chord.
        yaw = math.atan2(moved[1, 0], moved[0, 0])
        assert moved[1, 3] == pytest.approx(math.tan(yaw / 2.0) * moved[0, 3], abs=1e-9)
    assert now.X_WB[0, 3] > 0.5
    checker = robot["wheels"].checker(world)
    checker.set_base_pose(now.X_WB)
    assert checker.distance(now.q).value > 0.0


@pytest.mark.parametrize(
    ("call", "kind", "field"),
    [
        (lambda: ARM.configuration([1.0] * 6), InvalidCommand, "q"),
        (lambda: ARM.configuration([math.nan] * 7), InvalidCommand, "q"),
        (lambda: ARM.configuration("ready", base="sliding"), InvalidConfig, "base"),
        (lambda: ARM.configuration("ready", X_WB=2.0 * np.eye(4)), InvalidCommand, "X_WB"),
        (lambda: step(mn.FrameTask(HAND, np.ones(4))), InvalidCommand, "target"),
        (lambda: step(mn.FrameTask(HAND, [0.0, 0.0, math.nan])), InvalidCommand, "target"),
        (lambda: step(mn.FrameTask(HAND, [[0.0], [1.0, 2.0]])), InvalidCommand, "target"),
        (lambda: step(mn.FrameTask("panda_hand_tpc", np.eye(4))), UnknownFrame, "panda_hand_tpc"),
        (lambda: step(mn.FrameTask(HAND, np.eye(4), weights=(-1.0, 1.0))), InvalidConfig, "weight"),
        (lambda: step(mn.FrameTask(HAND, np.eye(4), gain=1.5)), InvalidConfig, "gain"),
        (lambda: step(mn.PostureTask([0.0])), InvalidCommand, "target"),
        (lambda: step(mn.PostureTask(np.zeros(7), weight=np.ones(3))), InvalidCommand,
         "PostureTask"),
        (lambda: step(mn.CenterOfMassTask([0.0, math.inf, 0.0])), InvalidCommand, "target"),
        (lambda: step(HAND), InvalidCommand, "tasks"),
        (lambda: step(mn.GazeTask(HAND, [1.0, 0.0])), InvalidCommand, "target"),
        (lambda: step(mn.GazeTask(HAND, [1.0, 0.0, 0.0], axis=[0.0] * 3)), InvalidCommand, "axis"),
        (lambda: step(mn.GazeTask("camera", [1.0, 0.0, 0.0])), UnknownFrame, "camera"),
        (lambda: step(mn.GazeTask(HAND, [0.0] * 3, reference=HAND)), InvalidCommand, "target"),
        (lambda: mn.solve_step(near(ARM), mn.DampingTask(), constraints=[HAND], dt=DT),
         InvalidCommand, "tasks"),
        (lambda: mn.Configuration(mn.load_robot("franka"), [], []), InvalidCommand, "robot"),
        (lambda: step(mn.DampingTask(), dt=math.nan), InvalidCommand, "dt"),
        (lambda: step(mn.DampingTask(), damping=0.0), InvalidConfig, "damping"),
        (lambda: step(mn.DampingTask(), mn.VelocityLimit({"elbow": 1.0})), UnknownJoint, "elbow"),
        (lambda: mn.VelocityLimit(-1.0), InvalidConfig, "weight"),
        (lambda: mn.PositionLimit(HAND, [0.0, 0.0], [1.0, 1.0]), InvalidConfig, "lower"),
        (lambda: mn.CollisionLimit(distance=0.2), InvalidConfig, "detection"),
        (lambda: near(ARM).integrate([math.inf] * 7, DT), InvalidCommand, "velocity"),
    ],
)  # fmt: skip
def test_invalid_input_is_named(call, kind, field):
    with pytest.raises(kind, check=about(field)):
        call()


def step(task, *rules, dt: float = DT, damping: float = 1e-6) -> np.ndarray:
    return mn.solve_step(ARM.configuration("ready"), [task], rules, dt=dt, damping=damping)


def objectives(chain, reference):
    return {
        "posture": Posture(chain, reference, np.linspace(0.5, 2.0, len(reference))),
        "centring": LimitCentring(chain),
        "manipulability": Manipulability(chain),
    }


@pytest.mark.parametrize("name", ["posture", "centring", "manipulability"])
@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_slopes_are_those_of_the_values(name, robot):
    chain = solver_of(robot).chain
    objective = objectives(chain, chain.centre + 0.3)[name]
    for q in draw(chain, 10, 1):
        slope = [
            (objective.value(q + d) - objective.value(q - d)) / 2e-5 for d in 1e-5 * np.eye(len(q))
        ]
        np.testing.assert_allclose(objective.gradient(q), slope, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["posture", "centring", "manipulability"])
def test_a_solution_serves_its_objective_and_is_one_all_the_same(name):
    solver = solver_of()
    chain = solver.chain
    objective = objectives(chain, chain.centre + 0.2)[name]
    gains = []
    for q in draw(chain, 15, 2):
        target = pose_of("franka", chain, q)
        plain = solver.solve(IkRequest(target))
        result = solver.solve(IkRequest(target, objectives=[objective]))
        assert result.success
        assert (chain.lower <= result.q).all()
        assert (result.q <= chain.upper).all()
        errors = pose_error(pose_of("franka", chain, result.q), target)
        assert np.linalg.norm(errors[:3]) <= 1e-6
        assert np.linalg.norm(errors[3:]) <= 1e-6
        gains.append(objective.value(plain.q) - objective.value(result.q))
        # No small motion along the null space improves the objective.
        if np.minimum(result.q - chain.lower, chain.upper - result.q).min() > 1e-3:
            J = chain.kinematics.jacobian(result.q, chain.tip)
            along = np.linalg.svd(J)[2][6]
            slope = objective.gradient(result.q)
            assert abs(slope @ along) < 0.02 * max(1.0, float(np.linalg.norm(slope)))
    assert min(gains) > -1e-9
    assert np.median(gains) > 0.01


def test_objectives_without_freedom_change_nothing():
    solver = solver_of("ur10e")
    q = draw(solver.chain, 1, 3)[0]
    target = pose_of("ur10e", solver.chain, q)
    plain = solver.solve(IkRequest(target))
    served = solver.solve(IkRequest(target, objectives=[Posture(solver.chain, q)]))
    np.testing.assert_allclose(served.q, plain.q, atol=1e-5)


def test_a_free_axis_is_freedom_for_an_objective():
    solver = solver_of("ur10e")
    chain = solver.chain
    about_z = dataclasses.replace(
        solver.settings, tolerance=IkTolerance(1e-5, (1e-5, 1e-5, np.inf))
    )
    for q in draw(chain, 5, 4):
        target = pose_of("ur10e", chain, q)
        posture = Posture(chain, np.zeros(6), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        result = solver.solve(IkRequest(target, objectives=[posture], settings=about_z))
        assert result.success
        assert abs(result.q[5]) < 1e-2  # the last joint of this arm turns the tool about its z
        assert np.abs(result.errors[:5]).max() <= 1e-5


def test_weights_and_postures_are_checked():
    chain = solver_of().chain
    with pytest.raises(InvalidCommand):
        Posture(chain, np.zeros(6))
    with pytest.raises(InvalidCommand):
        Posture(chain, np.zeros(7), -1.0)


def test_null_space_motion_leaves_the_tip_and_no_limit():
    solver = solver_of()
    chain = solver.chain
    rng = np.random.default_rng(5)
    for q in draw(chain, 20, 5):
        q[2] = chain.upper[2]
        X, J = chain.kinematics.pose_and_jacobian(q, chain.tip)
        keeper = TipKeeper(chain, X, IkTolerance(1e-6, 1e-6))
        motion = keeper.within_null_space(q, rng.normal(size=7))
        np.testing.assert_allclose(J @ motion, 0.0, atol=1e-9)
        assert motion[2] <= 1e-12
        again = keeper.within_null_space(q, motion)
        np.testing.assert_allclose(again, motion, atol=1e-9)


@pytest.mark.parametrize("exact", [True, False])
def test_the_elbow_moves_to_a_posture_while_the_hand_stays(exact):
    now = ARM.configuration(GOOD)
    other = GOOD.copy()
    other[2] = -0.6
    elbow, hand = now.pose("panda_link4"), mn.FrameTask(HAND, now, weights=1e3)
    posture, limits = mn.PostureTask(other, weight=1.0, gain=0.1), mn.ConfigurationLimit()
    away = [np.linalg.norm(posture.error(now))]
    for _ in range(60):
        if exact:
            v = mn.solve_step(now, posture, limits, constraints=hand, dt=DT)
        else:
            v = mn.solve_step(now, [hand, posture], limits, dt=DT)
        now = now.integrate(v, DT)
        errors = hand.error(now)
        assert np.linalg.norm(errors[:3]) <= 1e-3
        assert np.linalg.norm(errors[3:]) <= 1e-3
        away.append(np.linalg.norm(posture.error(now)))
    assert (np.diff(away) < 1e-9).all()
    assert np.linalg.norm(now.pose("panda_link4")[:3, 3] - elbow[:3, 3]) > 0.05


def test_self_motion_sweeps_until_a_limit():
    chain = solver_of().chain
    q = np.array([0.3, -0.5, 0.4, -2.0, 0.2, 1.8, 0.5])
    X = pose_of("franka", chain, q)
    there, back = self_motion(chain, q), self_motion(chain, q, step=-0.05)
    for motion in (there, back):
        assert len(motion) > 5
        steps = np.diff(motion, axis=0)
        assert np.abs(steps).max() <= 0.1
        assert (np.einsum("ij,ij->i", steps[1:], steps[:-1]) > 0.0).all()  # never turns round
        for row in motion:
            assert (chain.lower <= row).all()
            assert (row <= chain.upper).all()
            np.testing.assert_allclose(pose_of("franka", chain, row), X, atol=3e-6)
    assert (there[1] - q) @ (back[1] - q) < 0.0
    assert len(self_motion(chain, q, count=3)) == 4


def test_motions_say_what_is_wrong():
    chain, stiff = solver_of().chain, solver_of("ur10e").chain
    with pytest.raises(InvalidCommand):
        self_motion(chain, np.zeros(7))
    with pytest.raises(InvalidCommand, check=about("q")):
        self_motion(chain, np.zeros(3))
    with pytest.raises(InvalidConfig, check=about("step")):
        self_motion(chain, chain.centre, step=0.0)
    with pytest.raises(InvalidConfig):
        self_motion(stiff, np.array([0.3, -1.0, 1.2, -0.5, 1.0, 0.4]))


def test_the_motion_of_more_than_one_free_direction():
    case = RandomChain(9, 12)
    q = np.clip(case.chain.centre, case.chain.lower, case.chain.upper)
    motion = self_motion(case.chain, q, count=20)
    assert len(motion) > 3
    for row in motion:
        np.testing.assert_allclose(case.pose(row), case.pose(q), atol=1e-5)


def test_the_rate_of_the_rotation_vector_is_its_derivative():
    rng = np.random.default_rng(6)
    for angle in (1e-6, 1e-3, 0.1, 1.0, 2.5, 3.1):
        axis = rng.normal(size=3)
        phi = angle * axis / np.linalg.norm(axis)
        R = rotation_about(phi / angle, np.array(angle))
        for omega in np.eye(3):
            turn = rotation_about(omega, np.array([1e-6, -1e-6]))
            ahead, behind = (np.array(rotation_vector(turn[k] @ R)) for k in (0, 1))
            got = rate_of_rotation_vector(phi) @ omega
            np.testing.assert_allclose(got, (ahead - behind) / 2e-6, atol=1e-7, rtol=1e-5)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6))
def test_bounded_least_squares_agrees_with_scipy(seed, n, m):
    rng = np.random.default_rng(seed)
    A, b, x_0 = rng.normal(size=(m, n)), rng.normal(size=m), rng.normal(size=n)
    low = rng.uniform(-1.0, 0.2, n)
    high = low + rng.uniform(0.0, 1.0, n) * (rng.uniform(size=n) > 0.1)
    damping = 10.0 ** rng.uniform(-4, 0)
    x = bounded_least_squares(A, b, damping, x_0, low, high)
    assert (low <= x).all()
    assert (x <= high).all()
    tall = np.vstack([A, np.sqrt(damping) * np.eye(n)])
    aim = np.concatenate([b, np.sqrt(damping) * x_0])
    wide = np.maximum(high, low + 1e-12)  # scipy wants room between bounds
    oracle = lsq_linear(tall, aim, (low, wide), method="bvls", tol=1e-12).x
    cost = [float(np.sum((tall @ y - aim) ** 2)) for y in (x, oracle)]
    assert cost[0] <= cost[1] + 1e-7 * (1.0 + cost[1])
