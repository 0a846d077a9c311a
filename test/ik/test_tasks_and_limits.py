# SPDX-License-Identifier: Apache-2.0
"""Tasks and limits: Jacobians, whole steps, and what no step exceeds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from raised_errors import about

import motion_nodes as mn
from motion_nodes.core.ik import tasks_and_limits
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint

ARM = mn.load_robot("franka")["arm"]
G1 = mn.load_robot("g1")
BODY = G1[["left_leg", "right_leg", "waist", "left_arm", "right_arm"]]
HAND, DT = "panda_hand_tcp", 0.02
X_WB = mn.pose(xyz=(0.3, -0.2, 0.8), rpy=(0.2, -0.1, 1.0))


def near(group: mn.JointGroup, base: str = "fixed", seed: int = 0, **options) -> mn.Configuration:
    spread = 0.3 * np.random.default_rng(seed).normal(size=len(group.joint_names))
    q = group.limits.clip(group.state("home") + spread)
    return group.configuration(q, base=base, X_WB=X_WB, **options)


@pytest.fixture(scope="module")
def lift(tmp_path_factory) -> mn.JointGroup:
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
