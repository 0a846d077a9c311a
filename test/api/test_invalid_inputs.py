# SPDX-License-Identifier: Apache-2.0
"""Invalid arguments of the front door raise MotionErrors; threads with several worlds are apart."""

import math

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.api.group_inputs import GroupInputs
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownState

ROBOT = mn.load_robot("franka")
ARM = ROBOT["arm"]
BASE = mn.load_robot("jetbot").base
READY = ARM.state("ready")
X_BT = ARM.fk(READY)
RAGGED = [1.0, [2.0]]
MESH = mn.triangle_mesh(np.eye(3), [[0, 1, 2]])
MOTION = ARM.time_parameterize([READY, READY + 0.1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: ARM.plan("ready", RAGGED),
        lambda: ARM.plan("ready", [mn.JointGoal(READY[:3])]),
        lambda: ARM.plan("ready", 2.0 * np.eye(4)),
        lambda: ARM.plan_batch("ready", [RAGGED]),
        lambda: ARM.ik({"panda_hand_tcp": X_BT}, [math.nan] * 7),
        lambda: ARM.ik({"panda_hand_tcp": X_BT}, locked={"panda_joint1": math.nan}),
        lambda: ARM.ik({"panda_hand_tcp": X_BT}, locked={"panda_joint1": 9.0}),
        lambda: ARM.rmpflow().step(READY, 0.0 * READY, RAGGED),
        lambda: ARM.rmpflow().step([1e308] * 7, 0.0 * READY, X_BT),
        lambda: ARM.rmpflow().step(READY, [1e308] * 7, X_BT),
        lambda: ARM.random(-1),
        lambda: ARM.random(seed=-1),
        lambda: ARM.random(2.5),
        lambda: ARM.random(np.random.default_rng(1)),
        lambda: ARM.random(seed="one"),
        lambda: BASE.twist_from_wheels(RAGGED),
        lambda: mn.reachability_map(ARM, orientation=np.eye(2)),
        lambda: mn.reachability_map(ARM, orientation=RAGGED),
        lambda: ARM.plan("ready", "home", world={"box": mn.Box(1.0, 1.0, 1.0)}),
        lambda: ARM.collision_free(READY, "world"),
        lambda: ARM.problems([READY, READY]),
        lambda: ARM.plan_batch("ready", ["home"], "world"),
        lambda: ARM.rmpflow("world"),
        lambda: mn.CollisionLimit({"box": None}),
        lambda: ARM.plan("ready", "home", options={"planner": "RRT"}),
        lambda: ARM.plan("ready", "home", constraints="upright"),
        lambda: ARM.ik(X_BT, settings={"timeout": 1.0}),
        lambda: ARM.ik(X_BT, locked=["panda_joint1"]),
        lambda: mn.multiply(X_BT, 2.0),
        lambda: mn.multiply([X_BT], X_BT),
        lambda: mn.inverse(np.eye(3)),
        lambda: mn.inverse("pose"),
        lambda: BASE.wheels_from_twist("fast"),
        lambda: mn.World().add("a", "box"),
        lambda: mn.World().add("a", mn.Sphere),
        lambda: mn.World().add("a", mn.Box(1.0, 1.0)),
        lambda: mn.World().add("a", mn.Box((1.0, 1.0))),
        lambda: mn.World().add("a", mn.Sphere("1")),
        lambda: mn.World().add(3, mn.Sphere(0.1)),
        lambda: mn.World()["a"],
        lambda: mn.World().add("a", mn.TriangleMesh(np.eye(3), np.array([[0, 1, 9]]))),
        lambda: mn.World().add("a", mn.TriangleMesh(np.nan * np.eye(3), np.array([[0, 1, 2]]))),
        lambda: mn.World().add("a", mn.TriangleMesh(MESH.vertices, np.array([[0, 1, 9]]))),
        lambda: mn.TaskSpaceRegion.rotation_within("panda_hand", np.eye(4), (0.1, 0.1, 0.1)),
        lambda: MOTION.stretched(math.nan),
        lambda: MOTION.stretched(-1),
        lambda: MOTION.stretched(0),
        lambda: MOTION.sample(math.nan),
        lambda: MOTION.sample([0.0, math.nan]),
        lambda: MOTION.sample("now"),
        lambda: MOTION.sample([[0.0]]),
        lambda: mn.solve_step(ARM, [mn.DampingTask()], dt=0.02),
        lambda: mn.solve_step(ARM.configuration("ready"), [mn.DampingTask()], dt="0.02"),
    ],
)
def test_what_is_no_configuration_pose_or_orientation_is_an_invalid_command(call):
    with pytest.raises(InvalidCommand):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: mn.IkTolerance("x"),
        lambda: mn.IkTolerance(0.001, RAGGED),
        lambda: mn.IkSettings(timeout="1"),
        lambda: mn.IkSettings(timeout=np.ones(3)),
        lambda: mn.DampingTask(1e308),
        lambda: ARM.plan("ready", "home", seed=math.nan),
        lambda: ARM.plan("ready", "home", seed="one"),
    ],
)
def test_settings_out_of_range_are_an_invalid_config(call):
    with pytest.raises(InvalidConfig):
        call()


@pytest.mark.parametrize("name", [None, 3, 2.5, ["ready"], b"ready"])
def test_what_is_no_name_is_an_unknown_state(name):
    with pytest.raises(UnknownState):
        ROBOT.state(name)


def test_a_velocity_beyond_the_limits_is_no_leap():
    q, qd = ARM.rmpflow().step(READY, [50.0] * 7, X_BT, dt=0.01)
    assert (np.abs(q - READY) <= 0.01 * ARM.limits.velocity + 1e-9).all()
    assert (np.abs(qd) <= ARM.limits.velocity + 1e-9).all()


def test_one_path_constraint_is_as_good_as_a_list_of_one():
    band = mn.JointBand("panda_joint1", -0.2, 0.2)
    assert ARM.plan("ready", "home", constraints=band).success


@pytest.mark.parametrize("timeout", [math.nan, 0.0, -1.0, "5"])
def test_a_plan_without_a_valid_timeout_is_not_begun(timeout):
    with pytest.raises(InvalidConfig, match="timeout"):
        ARM.plan("ready", "home", timeout=timeout)


@pytest.mark.parametrize(
    "fields", [{"step": 1e-9}, {"step": 1e-310}, {"directions": 10**12}, {"step": 1e-4}]
)
def test_maps_with_too_many_poses_are_rejected_before_they_are_created(fields):
    with pytest.raises(InvalidCommand, match="allowed are 1000000"):
        mn.reachability_map(ARM, **fields)


def test_a_checker_is_of_the_world_that_was_given_even_if_another_thread_has_another(monkeypatch):
    inputs, own, other = GroupInputs(ROBOT.description, "arm"), mn.World(), mn.World()
    own.add("own", mn.Box(0.1, 0.1, 0.1))
    other.add("other", mn.Box(0.1, 0.1, 0.1))
    inputs.checker(own)
    kind, interrupted = type(inputs.checker(own)), []
    snapshot = kind.snapshot

    def interrupting(checker):
        """Let another thread have its turn before the first copy."""
        if not interrupted:
            interrupted.append(True)
            inputs.checker(other)
        return snapshot(checker)

    monkeypatch.setattr(kind, "snapshot", interrupting)
    assert list(inputs.checker(own).scene.objects) == ["own"]
