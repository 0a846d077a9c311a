# SPDX-License-Identifier: Apache-2.0
"""The policy: targets, obstacles, modes, limits, traps, mimic chains."""

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.reactive.integration import SmoothingSettings, substeps
from motion_nodes.core.reactive.mpc_policy import MpcPolicy
from motion_nodes.core.reactive.obstacle_scene import supported_scene
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.configurations import Followers
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.core.robot.rmpflow_settings import BodyController, read_rmpflow
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    AttachedBody,
    Part,
    Scene,
    pair_of,
    world_object,
)
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf import WorldConfig, build_model
from motion_nodes.kernels.rmp.rmp_memory import CARRIED
from motion_nodes.typing import Array

DOWN = (1.0, 0.0, 0.0, 0.0)
POSE = (0.45, 0.15, 0.4)


def policy_of(name="franka", **options):
    return RmpflowPolicy(load_robot(name), **{"ignore_robot_state_updates": True, **options})


def run(policy, seconds, start=None, dt=0.02, watch=None):
    """Integrate the policy's own state; return its last targets."""
    q = policy.default_cspace_target if start is None else start
    if start is not None:
        policy.set_internal_robot_joint_states(q, np.zeros(len(q)))
    targets = None
    for _ in range(round(seconds / dt)):
        targets = policy.compute_joint_targets(q, np.zeros(len(q)), frame_duration=dt)
        if watch is not None:
            watch(*targets)
    return targets


def around(*objects):
    return World(Scene(objects={item.name: item for item in objects})).scene


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_twenty_random_starts_arrive(name):
    policy, rng = policy_of(name), np.random.default_rng(20)
    home = policy.default_cspace_target
    limits = policy.robot.limits.select(policy.active_joints)
    checker = CollisionChecker(policy.robot, policy.active_joints)

    def draw(spread, reasonable):
        while True:
            q = limits.clip(home + rng.uniform(-spread, spread, len(home)))
            if checker.is_free(q) and reasonable(policy.tool_pose(q)[:3, 3]):
                return q

    def in_workspace(p):
        return np.hypot(p[0], p[1]) > 0.35 and p[2] > 0.15

    for _ in range(20):
        policy.reset()
        goal = policy.tool_pose(draw(0.5, in_workspace))
        start = draw(0.8, in_workspace)
        policy.set_end_effector_target(goal[:3, 3], to_quat_xyzw(goal))
        run(policy, 6.0 if name == "franka" else 12.0, start, dt=0.05)
        assert policy.status.position_error < 0.005
        assert policy.status.orientation_error < np.radians(1.0)
        assert not policy.status.stuck


def test_position_alone_orientation_alone_posture_alone():
    policy = policy_of()
    policy.set_end_effector_target(position=POSE)
    run(policy, 5.0)
    assert policy.status.position_error < 0.005
    assert np.isnan(policy.status.orientation_error)
    policy.set_end_effector_target(orientation=from_quarter_turn())
    run(policy, 5.0)
    assert policy.status.orientation_error < np.radians(1.0)
    assert np.isnan(policy.status.position_error)
    posture = policy.default_cspace_target + 0.3 * np.array([1, -1, 1, 1, -1, 1, -1])
    policy.set_cspace_target(posture)
    policy.set_end_effector_target()
    run(policy, 6.0)
    assert policy.status.posture_error < 0.01


def from_quarter_turn():
    return to_quat_xyzw(from_xyz_rpy((0.0, 0.0, 0.0), (np.pi, 0.3, 0.5)))


def test_posture_settles_the_elbow():
    """The same pose with two postures ends in two configurations."""
    ends = []
    for side in (-0.6, 0.6):
        policy = policy_of()
        posture = policy.default_cspace_target.copy()
        posture[2] += side
        policy.set_cspace_target(posture)
        policy.set_end_effector_target(POSE, DOWN)
        q, _ = run(policy, 6.0)
        assert policy.status.position_error < 0.005
        ends.append(q)
    assert ends[1][2] - ends[0][2] > 0.2


def test_base_pose_moves_targets_and_obstacles():
    X_WB = from_xyz_rpy((1.0, -2.0, 0.3), (0.0, 0.0, 0.8))
    ball = world_object("ball", Sphere(0.08), from_xyz_rpy((0.45, 0.0, 0.45)))
    ends = []
    for X in (np.eye(4), X_WB):
        policy = policy_of()
        policy.set_robot_base_pose(X)
        policy.set_end_effector_target((X @ (*POSE, 1.0))[:3])
        policy.set_scene(around(dataclasses.replace(ball, X_WO=X @ ball.X_WO)))
        ends.append(run(policy, 1.5)[0])
        assert policy.tool_pose(ends[-1])[:3, 3] == pytest.approx((X @ (*POSE, 1))[:3], abs=0.2)
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


def test_moving_ball_is_avoided_and_disabled_one_is_not():
    for enabled in (True, False):
        policy = policy_of()
        policy.set_end_effector_target(POSE, DOWN)
        run(policy, 3.0)
        least = np.inf
        for k in range(200):
            x = from_xyz_rpy((0.45, 0.75 - 0.006 * k, 0.45))
            ball = dataclasses.replace(world_object("ball", Sphere(0.06), x), enabled=enabled)
            policy.set_scene(around(ball))
            run(policy, 0.02)
            spheres = policy.sphere_positions()
            apart = np.linalg.norm(spheres[:, :3] - x[:3, 3], axis=1) - spheres[:, 3] - 0.06
            least = min(least, apart.min())
        assert (least > 0.0) == enabled


def test_what_all_links_may_touch_is_no_obstacle():
    """An object that only some links may touch is an obstacle."""
    policy = policy_of()
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 0.02)
    wall = world_object("wall", Box((0.02, 1.0, 1.0)), from_xyz_rpy((0.5, 0.0, 0.5)))
    links = policy.robot.tree.frame_names
    for some, counts in ((links[:3], True), (links, False)):
        allowed = AllowedCollisions().with_pairs(pair_of("wall", link) for link in some)
        policy.set_scene(dataclasses.replace(around(wall), allowed=allowed))
        assert np.isfinite(policy.clearance()) == counts


def test_carried_box_is_kept_away_from_the_world():
    policy = policy_of()
    policy.set_end_effector_target((0.5, 0.0, 0.25), DOWN)
    table = world_object("table", Box((1.0, 1.0, 1.0)), from_xyz_rpy((0.7, 0.0, -0.4)))
    policy.set_scene(around(table))
    run(policy, 4.0)
    empty = policy.tool_pose(policy.get_internal_robot_joint_states()[0])[2, 3]
    part = Part(Box((0.05, 0.05, 0.3)), np.eye(4))
    box = AttachedBody("box", "panda_hand", from_xyz_rpy((0.0, 0.0, 0.2)), (part,))
    policy.set_scene(dataclasses.replace(around(table), attached={"box": box}))
    run(policy, 4.0)
    loaded = policy.tool_pose(policy.get_internal_robot_joint_states()[0])[2, 3]
    assert loaded > empty + 0.03
    assert policy.clearance() > 0.0


def test_what_hangs_on_a_finger_is_refused_and_nothing_changes():
    policy = policy_of()
    part = Part(Sphere(0.01), np.eye(4))
    body = AttachedBody("pen", "panda_leftfinger", np.eye(4), (part,))
    before = len(policy.sphere_positions())
    with pytest.raises(InvalidCommand, check=about("pen")):
        policy.set_scene(Scene(attached={"pen": body}))
    assert len(policy.sphere_positions()) == before


def test_bodies_that_are_not_supported_are_left_out_by_name():
    parts = (Part(Sphere(0.01), np.eye(4)),)

    def scene(count, link="panda_hand"):
        names = [f"{link}_{k}" for k in range(count)]
        return Scene(attached={n: AttachedBody(n, link, np.eye(4), parts) for n in names})

    policy = policy_of()
    fine = scene(CARRIED)
    assert supported_scene(policy.robot, policy.tool, fine) == (fine, "")
    pen = scene(1, "panda_leftfinger").attached
    some = dataclasses.replace(fine, attached={**pen, **scene(CARRIED + 2).attached})
    supported, problem = supported_scene(policy.robot, policy.tool, some)
    assert list(supported.attached) == list(fine.attached)
    assert "panda_leftfinger_0" in problem
    assert f"panda_hand_{CARRIED}" in problem
    policy.set_scene(supported)


def test_wrist_stays_out_of_the_base():
    policy = policy_of()
    policy.set_end_effector_target((0.0, 0.0, 0.35))

    kinematics = Kinematics(policy.robot.tree, policy.active_joints)

    def watch(q, qd):
        for item in policy.settings.body_collision_controllers:
            p = kinematics.pose(q, item.name)[:3, 3]
            assert np.linalg.norm(p - (0.0, 0.0, 0.333)) > 0.15 + item.radius - 0.005

    run(policy, 5.0, watch=watch)
    assert policy.status.position_error > 0.1
    assert policy.status.stuck


def test_unknown_controller_frame_is_told():
    robot = load_robot("franka")
    settings = read_rmpflow(robot.directory)
    bad = dataclasses.replace(settings, body_collision_controllers=(BodyController("hans", 0.1),))
    with pytest.raises(UnknownFrame, check=about("hans")):
        RmpflowPolicy(robot, bad)


def test_halving_the_substep_hardly_changes_the_path():
    ends = []
    for size in (0.002, 0.001, 0.0005):
        policy = policy_of()
        policy.maximum_substep_size = size
        policy.set_end_effector_target(POSE, DOWN)
        ends.append(run(policy, 0.8)[0])
    assert np.abs(ends[0] - ends[1]).max() < 5e-3
    assert np.abs(ends[1] - ends[2]).max() < 0.7 * np.abs(ends[0] - ends[1]).max() + 1e-6
    assert substeps(0.02, 0.002)[0] == 10


def test_robot_that_lags_has_no_influence_in_internal_mode_only():
    paths = {}
    for ignore in (True, False):
        for lag in (0.0, 0.3):
            policy = policy_of(ignore_robot_state_updates=ignore)
            policy.set_end_effector_target(POSE)
            q = policy.default_cspace_target
            qd = np.zeros(7)
            for k in range(40):
                seen = q if k == 0 else q + lag
                q, qd = policy.compute_joint_targets(seen, qd, frame_duration=0.02)
            paths[ignore, lag] = q
    assert paths[True, 0.0] == pytest.approx(paths[True, 0.3])
    assert np.abs(paths[False, 0.0] - paths[False, 0.3]).max() > 0.1


def test_arrays_of_the_caller_stay_as_they_were():
    policy = policy_of()
    q, qd = policy.default_cspace_target.copy(), np.zeros(7)
    policy.set_end_effector_target(POSE)
    first, _ = policy.compute_joint_targets(q, qd, frame_duration=0.05)
    assert q == pytest.approx(policy.default_cspace_target)
    first[:] = 99.0
    assert policy.get_internal_robot_joint_states()[0].max() < 9.0


@pytest.mark.parametrize("scale", [50.0, 1e4])
def test_limits_hold_with_absurd_parameters(scale):
    """With excessive gains and without damping and limit RMPs no joint exceeds its limits."""
    policy = policy_of()
    policy.set_parameters(
        {
            "cspace_target_rmp.damping_gain": 0.0,
            "cspace_target_rmp.position_gain": 100.0 * scale,
            "cspace_target_rmp.robust_position_term_thresh": 10.0,
            "joint_limit_rmp.metric_scalar": 0.0,
            "joint_velocity_cap_rmp.metric_weight": 0.0,
            "canonical_resolve.max_acceleration_norm": 1e6,
        }
    )
    limits = policy.robot.limits.select(policy.active_joints)

    def watch(q, qd):
        assert limits.within(q)
        assert (np.abs(qd) <= limits.velocity * (1 + 1e-9)).all()

    for sign in (1.0, -1.0):
        policy.set_cspace_target(sign * np.full(7, 5.0))
        run(policy, 1.5, watch=watch)


def test_jerk_is_bounded_also_when_targets_jump():
    policy = policy_of()
    policy.maximum_substep_size = 0.002
    limits = policy.robot.limits.select(policy.active_joints)
    speeds = []
    rng = np.random.default_rng(0)
    for _ in range(8):
        policy.set_end_effector_target(rng.uniform((0.3, -0.4, 0.1), (0.6, 0.4, 0.6)), DOWN)
        run(policy, 0.1, dt=0.002, watch=lambda q, qd: speeds.append(qd))
    acceleration = np.diff(speeds, axis=0) / 0.002
    jerk = np.diff(acceleration, axis=0) / 0.002
    assert (np.abs(acceleration) <= limits.acceleration * (1 + 1e-6)).all()
    assert (np.abs(jerk) <= limits.jerk * (1 + 1e-6)).all()


def test_smoothing_halves_jumps_of_acceleration_and_still_arrives():
    most = []
    for smoothing in (None, SmoothingSettings(big_jump=3.0, medium_jump=1.0)):
        policy = policy_of(bounded_jerk=False)
        policy.set_smoothing(smoothing)
        policy.set_end_effector_target(POSE, DOWN)
        speeds = []
        run(policy, 0.6, dt=0.002, watch=lambda q, qd, s=speeds: s.append(qd))
        most.append(np.abs(np.diff(np.diff(speeds, axis=0), axis=0)).max())
        run(policy, 6.0)
        assert policy.status.position_error < 0.005
    assert most[1] < 0.5 * most[0]


def test_u_shaped_trap_is_told_within_two_seconds_of_standing():
    policy = policy_of()
    policy.set_end_effector_target((0.55, 0.0, 0.45))
    run(policy, 3.0)
    walls = [
        world_object("end", Box((0.02, 0.5, 0.5)), from_xyz_rpy((0.42, 0.42, 0.5))),
        world_object("left", Box((0.6, 0.02, 0.9)), from_xyz_rpy((0.6, 0.2, 0.45))),
        world_object("top", Box((0.6, 0.6, 0.02)), from_xyz_rpy((0.6, 0.3, 0.75))),
    ]
    policy.set_scene(around(*walls))
    policy.set_end_effector_target((0.55, 0.45, 0.45))
    positions, told = [], None
    for k in range(500):
        q, _ = run(policy, 0.02)
        positions.append(policy.tool_pose(q)[:3, 3])
        if policy.status.stuck:
            told = k
            break
    assert told is not None
    errors = np.linalg.norm(np.array(positions) - (0.55, 0.45, 0.45), axis=1)
    assert policy.clearance() > 0.0
    earlier = max(0, told - 100)  # two seconds before
    assert errors[earlier] - errors[earlier:].min() < 0.05
    policy.set_end_effector_target((0.55, 0.0, 0.45))
    run(policy, 0.1)
    assert not policy.status.stuck


def test_stop_comes_to_rest_damped_and_stays():
    policy = policy_of()
    policy.set_end_effector_target(POSE, DOWN)
    _, qd = run(policy, 0.7)
    speed = np.linalg.norm(qd)
    assert speed > 0.1
    policy.stop()
    speeds = []
    q1, _ = run(policy, 1.0, watch=lambda q, qd: speeds.append(np.linalg.norm(qd)))
    assert max(speeds) <= speed * 1.05
    assert speeds[-1] < 0.02
    q2, _ = run(policy, 2.0)
    assert np.abs(q2 - q1).max() < 0.02
    assert policy.status.stopping
    policy.set_end_effector_target(POSE)
    assert not policy.status.stopping


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.set_end_effector_target((np.nan, 0, 0)), "position"),
        (lambda p: p.set_end_effector_target((0, 0)), "position"),
        (lambda p: p.set_end_effector_target(POSE, (0, 0, 0, 0)), "orientation"),
        (lambda p: p.set_cspace_target([0.0] * 6), "posture"),
        (lambda p: p.set_cspace_target([np.inf] * 7), "posture"),
        (lambda p: p.compute_joint_targets([np.nan] * 7, [0] * 7), "active_q"),
        (lambda p: p.compute_joint_targets([0] * 7, [0] * 7, [0.0]), "watched_q"),
        (lambda p: p.compute_joint_targets([0] * 7, [0] * 7, frame_duration=np.nan), "duration"),
        (lambda p: p.set_parameters({"target_rmp.accel_p_gain": -1.0}), "target_rmp.accel_p_gain"),
        (lambda p: p.set_parameters({"target_rmp.acel_p_gain": 1.0}), "target_rmp.acel_p_gain"),
        (lambda p: p.set_robot_base_pose(np.zeros((4, 4))), "base of the robot"),
        (lambda p: p.set_obstacle_twists({"ball": [0, 0, np.nan, 0, 0, 0]}), "twist of 'ball'"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call, words):
    policies = [policy_of(ignore_robot_state_updates=False) for _ in range(2)]
    for policy in policies:
        policy.set_end_effector_target(POSE, DOWN)
        run(policy, 0.1)
    with pytest.raises((InvalidCommand, InvalidConfig), check=about(words)):
        call(policies[0])
    a, b = (run(policy, 0.1) for policy in policies)
    assert (a[0] == b[0]).all()
    assert (a[1] == b[1]).all()


def test_target_inside_an_obstacle_and_out_of_reach_stay_safe():
    policy = policy_of()
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy(POSE))
    policy.set_scene(around(ball))
    least = []
    for target in (POSE, (9.0, 0.0, 0.0), (0.0, 0.0, -5.0)):
        policy.set_end_effector_target(target)
        run(policy, 3.0, watch=lambda q, qd: least.append(policy.clearance()))
    assert min(least) > 0.0


def test_numpy_leads_the_same_way_as_generated_code(monkeypatch):
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.5, 0.1, 0.6)))
    ends = []
    for in_numpy in (False, True):
        policy = policy_of()
        made = policy._evaluator
        if in_numpy:
            monkeypatch.setattr(made, "acceleration", lambda q, qd, m=made: m.report(q, qd).qdd)
        policy.set_scene(around(ball))
        policy.set_end_effector_target(POSE, DOWN)
        ends.append(run(policy, 0.2)[0])
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


def test_report_tells_what_each_leaf_asks_for():
    policy = policy_of()
    assert policy.report() is None
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 0.1)
    report = policy.report()
    by_name = {leaf.name: leaf for leaf in report.leaves}
    assert by_name["target_rmp"].weight > by_name["damping_inertia"].weight > 0.0
    assert np.sum([leaf.M for leaf in report.leaves], axis=0) == pytest.approx(report.M)
    assert np.isfinite(by_name["target_rmp"].acceleration).all()


@pytest.mark.parametrize(
    "goal", [(2.1, -2.2, -0.1, -2.1, 1.2, -1.2), (0.8, -0.6, -0.9, 0.9, 0.5, 1.2)]
)
def test_an_almost_straight_elbow_comes_to_rest_at_its_target(goal):
    policy = RmpflowPolicy(load_robot("ur3e"))
    X = policy.tool_pose(goal)
    policy.set_end_effector_target(X[:3, 3], to_quat_xyzw(X))
    q, qd = policy.robot.home, np.zeros(6)
    for _ in range(400):
        q, qd = policy.compute_joint_targets(q, qd, frame_duration=0.02)
    assert np.abs(qd).max() < 1e-3  # it swung through straight by 1.3 rad/s, endlessly
    assert policy.status.position_error < 1e-3


VARIETY = Path(__file__).parent.parent / "variety"
DT = 0.02


@pytest.fixture(scope="module", params=["lift_column", "palletizer"])
def robot(request, tmp_path_factory):
    """A lift of two stages, and an arm that a four-bar linkage levels."""
    folder = tmp_path_factory.mktemp("robots") / request.param
    file = VARIETY / f"{request.param}.urdf"
    return new_robot(file, output=folder, spheres_accuracy=0.05, picture=False).robot


class Judge:
    """MuJoCo's kinematics of the robot, with its mimic joints moved as their leaders say."""

    def __init__(self, robot: Robot, tool: str) -> None:
        self._robot, self._followers = robot, Followers(robot.tree)
        _, self._model = build_model([RobotPlacement(robot, "arm")], WorldConfig())
        self._data = mujoco.MjData(self._model)
        # Frames without a mass are parts of the links that they are fixed to.
        self._X_LT, link = np.eye(4), tool
        while mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, f"arm/{link}") < 0:
            joint = robot.tree.parent_joint[link]
            assert not joint.movable
            self._X_LT, link = joint.X_PJ @ self._X_LT, joint.parent
        self._body = f"arm/{link}"

    def tool(self, q: Array) -> Array:
        """Return the position of the tool [m], shape (3,), in the world."""
        names = (*self._robot.joint_names, *self._followers.names)
        values = (*q, *self._followers.positions(q))
        for name, value in zip(names, values, strict=True):
            self._data.joint(f"arm/{name}").qpos[0] = value
        mujoco.mj_kinematics(self._model, self._data)
        body = self._data.body(self._body)
        return np.asarray(body.xpos + body.xmat.reshape(3, 3) @ self._X_LT[:3, 3])


@pytest.mark.long
@pytest.mark.parametrize("kind", [RmpflowPolicy, MpcPolicy])
def test_a_target_is_reached_by_all_members(robot, kind):
    policy = kind(robot, ignore_robot_state_updates=True)
    judge, active = Judge(robot, policy.tool), list(policy.active_joints)
    columns = [robot.joint_names.index(name) for name in active]
    limits, whole = robot.limits, robot.home.copy()
    rng = np.random.default_rng(4)
    start = policy.default_cspace_target
    q = start + 0.25 * np.clip(rng.uniform(-1.0, 1.0, len(start)), -1.0, 1.0)
    q = limits.select(active).clip(q)
    whole[columns] = q
    target = judge.tool(whole)
    np.testing.assert_allclose(policy.tool_pose(q)[:3, 3], target, atol=1e-6)
    policy.set_end_effector_target(target)
    far = world_object("ball", Sphere(0.05), from_xyz_rpy((0.0, 0.0, -2.0)))
    policy.set_scene(Scene(objects={"ball": far}))
    sent, followers = [start], Followers(robot.tree)
    for _ in range(round(8.0 / DT)):
        sent.append(policy.compute_joint_targets(start, np.zeros(len(q)), frame_duration=DT)[0])
    path = np.tile(robot.home, (len(sent), 1))
    path[:, columns] = sent
    assert np.linalg.norm(judge.tool(path[-1]) - target) < 0.01
    # Members keep their own limits, not only those of their leaders.
    rates = np.abs(np.diff(followers.positions(path), axis=0)) / DT
    most = [robot.tree.joints[name].velocity for name in followers.names]
    assert (rates <= np.array(most) * (1.0 + 1e-6)).all()
    for name, moved in zip(followers.names, followers.positions(path).T, strict=True):
        joint = robot.tree.joints[name]
        assert (moved >= joint.lower - 1e-9).all()
        assert (moved <= joint.upper + 1e-9).all()


@pytest.mark.long
def test_the_rate_of_the_target_is_that_of_all_members(robot):
    """The tool of the policy moves as MuJoCo's, so its Jacobian contains all members."""
    policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
    judge, rng = Judge(robot, policy.tool), np.random.default_rng(0)
    columns = [robot.joint_names.index(name) for name in policy.active_joints]
    limits = robot.limits.select(policy.active_joints)
    low, high = np.maximum(limits.lower, -2.0), np.minimum(limits.upper, 2.0)
    for q in rng.uniform(low, high, (20, len(low))):
        whole = robot.home.copy()
        whole[columns] = q
        np.testing.assert_allclose(policy.tool_pose(q)[:3, 3], judge.tool(whole), atol=1e-6)
