# SPDX-License-Identifier: Apache-2.0
"""Joint commands and inputs of the articulation graph: accepted or rejected as a whole."""

import math

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.joint_command import (
    ControlMode,
    GraphInputs,
    JointCommand,
    check_command,
    select_joints,
)
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint

nan, inf = math.nan, math.inf
FRANKA = load_robot("franka")
ARM = [0.1, -1.0, 0.2, -2.2, 0.3, 2.4, 0.8]
BODY = [*ARM, 0.03, 0.02]


def franka(**modes: str) -> ArticulationController:
    named = {joint: ControlMode.named(mode) for joint, mode in modes.items()}
    controller = ArticulationController(FRANKA.limits, named)
    controller.reset(FRANKA.home)
    return controller


def state(controller: ArticulationController) -> bytes:
    limiter = controller.limiter
    arrays = (
        controller._positions, controller._velocities, controller._efforts, controller._age,
        controller._stopping, limiter.position, limiter.velocity, limiter.acceleration,
    )  # fmt: skip
    return (
        b"".join(a.tobytes() for a in arrays) + str((controller.modes, controller.ready)).encode()
    )


def apply(controller: ArticulationController, positions=None, **rest) -> None:
    controller.apply(JointCommand(positions=positions, **rest))


def test_indices_7_and_8_close_the_fingers_and_leave_the_arm():
    controller = franka()
    apply(controller, BODY)
    before = controller.targets.positions
    apply(controller, [0, 0], indices=[7, 8])
    after = controller.targets.positions
    assert after[:7].tobytes() == before[:7].tobytes()
    np.testing.assert_array_equal(after[7:], 0.0)
    for _ in range(500):
        reference = controller.step(0.004)
    np.testing.assert_array_equal(reference.positions, [*ARM, 0.0, 0.0])


@pytest.mark.parametrize("missing", [None, nan])
def test_missing_elements_keep_targets_bit_identical_and_zero_is_a_target(missing):
    controller = franka()
    odd = 0.1 + 0.2  # no short decimal
    apply(controller, [0.0] * 3 + [-odd] + [0.0] * 5)
    apply(controller, [odd, 0.0, 0.0, missing, 0.0, 0.0, 0.0, missing, 0.0])
    targets = controller.targets.positions
    assert targets[3] == -odd
    assert targets[0] == odd
    assert targets[1] == targets[7] == 0.0
    before = state(controller)
    apply(controller, [missing] * 9)
    assert state(controller) == before


def test_an_empty_command_is_legal_and_changes_nothing():
    controller = franka()
    apply(controller, BODY)
    controller.step(0.1)
    controller.stop()
    for command in (JointCommand(), JointCommand(names=["panda_joint1"]), JointCommand(indices=[])):
        before = state(controller)
        controller.apply(command)
        assert state(controller) == before


def test_index_0_alone_moves_joint_0_alone():
    controller = franka()
    apply(controller, [0.5], indices=[0])
    np.testing.assert_array_equal(controller.targets.positions[1:], FRANKA.home[1:])
    assert controller.targets.positions[0] == 0.5


def test_names_beat_indices_and_the_choice_is_free_each_time():
    controller = franka()
    apply(controller, [0.5], names=["panda_joint7"], indices=[0])
    apply(controller, [0.25, -0.5], names=["panda_joint3", "panda_joint1"])
    apply(controller, [-0.75], names=[], indices=[4])
    targets = controller.targets.positions
    assert targets[[6, 2, 0, 4]].tolist() == [0.5, 0.25, -0.5, -0.75]


def test_selection():
    names = ("a", "b", "c")
    assert select_joints(JointCommand(), names).tolist() == [0, 1, 2]
    assert select_joints(JointCommand(indices=np.array([2, 0])), names).tolist() == [2, 0]
    assert select_joints(JointCommand(names=("c", "b")), names).tolist() == [2, 1]


Bad, Unknown = InvalidCommand, UnknownJoint
REJECTED = [
    (Bad, "positions", {"positions": ARM}),
    (Bad, "velocities", {"positions": [0.0, 0.0], "velocities": [0.1], "indices": [7, 8]}),
    (Bad, "efforts", {"efforts": [], "indices": [0]}),
    (
        Unknown,
        "panda_joint11",
        {"positions": [0.1, 0.2], "names": ["panda_joint2", "panda_joint11"]},
    ),
    (Unknown, "left_wheel", {"names": ["left_wheel"]}),
    (Bad, "names", {"positions": [0.1], "names": "panda_joint1"}),
    (Bad, "indices", {"positions": [0.1, 0.1], "indices": [0, 9]}),
    (Bad, "indices", {"positions": [0.1], "indices": [-1]}),
    (Bad, "indices", {"positions": [0.1], "indices": [1.5]}),
    (Bad, "indices", {"positions": [0.1], "indices": [nan]}),
    (Bad, "indices", {"positions": [0.1], "indices": [inf]}),
    (Bad, "indices", {"positions": [0.1], "indices": [True]}),
    (Bad, "indices", {"positions": [0.1], "indices": [np.True_]}),
    (Bad, "indices", {"positions": [0.1], "indices": ["one"]}),
    (Bad, "panda_joint1", {"positions": [0.1, 0.1], "indices": [0, 0]}),
    (Bad, "panda_joint2", {"positions": [0.1, 0.1], "names": ["panda_joint2"] * 2}),
    (Bad, "panda_joint2", {"positions": [0.1, inf], "indices": [0, 1]}),
    (Bad, "panda_joint1", {"velocities": [-inf], "indices": [0]}),
    (Bad, "panda_joint1", {"efforts": [inf], "indices": [0]}),
    (Bad, "panda_joint1", {"positions": [0.1, 2.9], "indices": [1, 0]}),
    (Bad, "panda_finger_joint1", {"positions": [-2e-4], "indices": [7]}),
    (Bad, "efforts", {"positions": [0.1], "efforts": [1.0], "indices": [0]}),
    (Bad, "efforts", {"velocities": [0.1], "efforts": [0.0], "indices": [0]}),
    (Bad, "panda_joint1", {"efforts": [1.0], "indices": [0]}),
    (Bad, "positions", {"positions": ["much"], "indices": [0]}),
    (Bad, "positions", {"positions": 3.0, "indices": [0]}),
    (Bad, "positions", {"positions": [[0.1], [0.2]], "indices": [0, 1]}),
]


@pytest.mark.parametrize(
    ("kind", "name", "command"), REJECTED, ids=[f"{r[1]} {sorted(r[2])}" for r in REJECTED]
)
def test_rejected_whole_with_nothing_changed(kind, name, command):
    controller, untouched = franka(), franka()
    for c in (controller, untouched):
        apply(c, BODY)
        c.step(0.05)
    before = state(controller)
    with pytest.raises(kind, check=about(name)):
        controller.apply(JointCommand(**command))
    assert state(controller) == before
    for _ in range(20):
        np.testing.assert_array_equal(
            controller.step(0.01).positions, untouched.step(0.01).positions
        )


def test_a_position_on_its_limit_but_for_rounding_is_taken_as_on_it():
    checked = check_command(JointCommand(positions=[2.8973 + 5e-7], indices=[0]), FRANKA.limits)
    assert checked.positions[0] == 2.8973
    assert np.isnan(checked.positions[1:]).all()


def test_an_absurd_position_is_refused_where_there_are_no_limits():
    endless, one = np.array([inf]), np.ones(1)
    limits = JointLimits(("wheel",), -endless, endless, one, one, one, one)
    with pytest.raises(InvalidCommand):
        check_command(JointCommand(positions=[1e300]), limits)


def test_position_with_velocity_is_allowed_and_effort_beside_other_joints_too():
    controller = franka(panda_joint2="effort")
    apply(controller, [0.1, nan], velocities=[0.2, nan], efforts=[nan, 3.0], indices=[0, 1])
    targets = controller.targets
    assert (targets.positions[0], targets.velocities[0], targets.efforts[1]) == (0.1, 0.2, 3.0)
    assert np.isnan([targets.efforts[0], targets.positions[1], targets.velocities[1]]).all()


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        ("position", {"positions", "velocities"}),
        ("velocity", {"velocities"}),
        ("effort", {"efforts"}),
    ],
)
def test_channels_of_each_mode(mode, allowed):
    for channel in ("positions", "velocities", "efforts"):
        controller = franka(panda_joint1=mode)
        command = JointCommand(**{channel: [0.1]}, indices=[0])
        if channel in allowed:
            controller.apply(command)
            continue
        before = state(controller)
        with pytest.raises(InvalidCommand, check=about("panda_joint1")):
            controller.apply(command)
        assert state(controller) == before


def test_before_the_state_is_known_every_command_is_refused():
    controller = ArticulationController(FRANKA.limits)
    for command in (JointCommand(), JointCommand(positions=BODY)):
        with pytest.raises(MotionError, match="state.*known"):
            controller.apply(command)
    with pytest.raises(MotionError, match="state.*known"):
        controller.step(0.01)
    assert not controller.ready
    for bad in (np.zeros(8), np.full(9, nan), [0.0] * 8 + [inf], ["a"] * 9):
        with pytest.raises(InvalidCommand):
            controller.reset(bad)
        assert not controller.ready
    controller.reset(FRANKA.home)
    controller.apply(JointCommand(positions=BODY))


def test_unknown_modes_and_joints_are_refused():
    with pytest.raises(InvalidCommand, check=about("torque")):
        ControlMode.named("torque")
    with pytest.raises(UnknownJoint, check=about("panda_joint")):
        ArticulationController(FRANKA.limits, {"panda_joint": ControlMode.EFFORT})
    controller = franka()
    before = state(controller)
    with pytest.raises(UnknownJoint):
        controller.switch_mode(ControlMode.EFFORT, ["panda_joint1", "nobody"])
    assert state(controller) == before


ONES = np.ones(3)
LIMITS = JointLimits(
    ("a", "b", "c"), -3 * ONES, 3 * ONES, 2 * ONES, 50 * ONES, 8 * ONES, 1000 * ONES
)
NAN = float("nan")


def positions(**inputs):
    command = GraphInputs(**inputs).command(LIMITS)
    return None if command is None else command.positions.tolist()


def test_the_path_wins_over_the_prim():
    robots = {"left": 1, "right": 2}
    assert GraphInputs(robot_path="/left", target_prim="/right").target(robots) == 1
    assert GraphInputs(target_prim="right").target(robots) == 2
    assert GraphInputs(robot_path="/left/").target(robots) == 1
    with pytest.raises(InvalidCommand):
        GraphInputs(robot_path="/lift", target_prim="/right").target(robots)
    with pytest.raises(InvalidCommand):
        GraphInputs().target(robots)


def test_one_robot_needs_no_name_but_a_wrong_one_is_told():
    assert GraphInputs().target({"": 7}) == 7
    assert GraphInputs(robot_path="/").target({"": 7}) == 7
    with pytest.raises(InvalidCommand):
        GraphInputs(target_prim="arm").target({"": 7})


def test_names_win_over_indices_and_neither_means_all():
    given = {"position_command": (0.5,)}
    both = positions(joint_names=("b",), joint_indices=(2,), **given)
    np.testing.assert_array_equal(both, [NAN, 0.5, NAN])
    np.testing.assert_array_equal(positions(joint_indices=(2,), **given), [NAN, NAN, 0.5])
    assert positions(position_command=(0.1, 0.2, 0.3)) == [0.1, 0.2, 0.3]


def test_index_zero_alone_is_joint_zero():
    found = positions(joint_indices=(0,), position_command=(0.5,))
    np.testing.assert_array_equal(found, [0.5, NAN, NAN])


def test_nan_is_skipped_and_nothing_is_nothing():
    np.testing.assert_array_equal(positions(position_command=(0.1, NAN, 0.3)), [0.1, NAN, 0.3])
    assert positions(position_command=(NAN, NAN, NAN)) is None
    assert positions() is None
    assert positions(joint_names=("a",)) is None


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ({"position_command": (0.1, 0.2)}, InvalidCommand, "positions"),
        ({"position_command": (0.1, 0.2, 0.3), "velocity_command": (0.0,)}, InvalidCommand,
         "velocities"),
        ({"joint_names": ("d",), "position_command": (0.1,)}, UnknownJoint, "d"),
        ({"joint_indices": (3,), "position_command": (0.1,)}, InvalidCommand, "indices"),
        ({"joint_indices": (0, 0), "position_command": (0.1, 0.1)}, InvalidCommand, "a"),
        ({"joint_indices": (0,), "position_command": (0.1,), "effort_command": (1.0,)},
         InvalidCommand, "efforts"),
        ({"position_command": (9.0, 0.0, 0.0)}, InvalidCommand, "a"),
        ({"velocity_command": (float("inf"), 0.0, 0.0)}, InvalidCommand, "a"),
    ],
)  # fmt: skip
def test_one_wrong_input_and_there_is_no_command(inputs, error, text):
    with pytest.raises(error, check=about(text)):
        GraphInputs(**inputs).command(LIMITS)


def test_position_and_velocity_go_together():
    command = GraphInputs(joint_names=("c",), position_command=(0.1,), velocity_command=(0.2,))
    checked = command.command(LIMITS)
    assert (checked.positions[2], checked.velocities[2]) == (0.1, 0.2)
