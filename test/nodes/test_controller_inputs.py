# SPDX-License-Identifier: Apache-2.0
"""Topics, refusals and parameters of the joint trajectory controller over DDS."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from joint_client import (
    ABORTED,
    ARM,
    CANCELED,
    CONTROLLER,
    FRANKA,
    HOME,
    SUCCEEDED,
    Codes,
    JointClient,
    smooth,
    tolerances,
    trajectory,
)
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectoryPoint

from motion_nodes.nodes.articulation.articulation_params import ArticulationParams, robot_defaults

J1, J2, J7 = ARM[0], ARM[1], ARM[6]
JOINTS = list(FRANKA.joint_names)
OWN = {
    field: getattr(FRANKA.limits, field).tolist()
    for field in ("velocity", "acceleration", "jerk", "effort")
}


@pytest.fixture
def arm(controlled_arm):
    """The arm at home with its own limits."""
    controlled_arm.rest_at_home()
    yield controlled_arm
    back = {f"max_{field}": values for field, values in OWN.items()}
    assert controlled_arm.client.set_parameters(
        CONTROLLER, **back, control_modes=["position"]
    ).successful


def capped(velocity: float) -> list[float]:
    """The robot's own velocity limits, at most this."""
    return [min(own, velocity) for own in OWN["velocity"]]


def reference_speeds(arm: JointClient) -> np.ndarray:
    return np.array([m.reference.velocities[0] for m in arm.reports.messages])


@pytest.mark.timeout(900)
def test_a_tighter_velocity_limit_acts_on_what_moves(arm):
    # Long at its speed, so that it lasts longer than a pause of this process.
    assert arm.client.set_parameters(CONTROLLER, max_velocity=capped(1.2)).successful
    publisher = arm.publisher(JointState, "reference")
    message = JointState(name=[J1], position=[2.4])
    arm.reports.clear()
    arm.client.repeat(
        lambda: publisher.publish(message),
        lambda: arm.reports and reference_speeds(arm)[-1] > 1.0, "speed", rate=5.0,
    )  # fmt: skip
    assert arm.client.set_parameters(CONTROLLER, max_velocity=[0.05]).successful
    arm.client.wait(lambda: abs(reference_speeds(arm)[-1] - 0.05) < 1e-6, "the new speed")
    speeds = reference_speeds(arm)
    slowing = speeds[int(np.argmax(speeds)) :]
    assert slowing.min() > 0.0, "it slows down to the new limit, not to rest"
    wide = {"max_velocity": OWN["velocity"]}
    assert arm.client.set_parameters(CONTROLLER, **wide).successful
    arm.client.wait(lambda: reference_speeds(arm)[-1] > 0.5, "speed again")
    # The way home is planned from a joint at rest.
    assert arm.client.call(Trigger, f"{CONTROLLER}/reset").success


REFUSED = {
    "beyond the robot's velocity": (
        {"max_velocity": [9.0]},
        "max_velocity of joint panda_joint1 is 9; the robot's own limit is 2.175",
    ),
    "beyond the robot's jerk": (
        {"max_jerk": [math.inf]}, "max_jerk of joint panda_joint1 is inf; the robot's own"
    ),
    "wrong length": (
        {"max_velocity": [1.0, 1.0]},
        "max_velocity has 2 values for 9 joints",
    ),
    "wrong number of margins": (
        {"contact_effort_margin": [1.0, 1.0]}, "contact_effort_margin has 2 values for 9 joints",
    ),
    "zero": ({"max_acceleration": [0.0]}, "max_acceleration"),
    "negative": ({"kp": [-1.0]}, "kp"),
    "NaN": ({"max_velocity": [math.nan]}, "max_velocity"),
    "unknown mode": (
        {"control_modes": ["torque"]},
        "control mode 'torque' is not known. Available: position, velocity, effort.",
    ),
    "wrong number of modes": ({"control_modes": ["position"] * 3}, "control_modes has 3 values"),
    "tolerance below zero": ({"constraints__goal": -0.1}, "constraints.goal"),
    "read-only": ({"joints": ["panda_joint1"]}, "joints"),
    "wrong type": ({"max_velocity": "fast"}, "expected 'Type.DOUBLE_ARRAY' got 'Type.STRING'"),
}  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_batch_changes_nothing(arm, case):
    values, text = REFUSED[case]
    client = arm.client
    before = client.get_parameter(CONTROLLER, "state_timeout")
    answer = client.set_parameters(CONTROLLER, state_timeout=0.7, **values)
    assert not answer.successful
    assert text in answer.reason
    assert client.get_parameter(CONTROLLER, "state_timeout") == before != 0.7
    assert client.get_parameter(CONTROLLER, "max_velocity") == pytest.approx(OWN["velocity"])


@pytest.mark.timeout(900)
def test_one_at_a_time_as_ros2_param_set_does_it(arm):
    def set_one(name: str, value: Any) -> Any:
        parameter = Parameter(name, value=value).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        return arm.client.call(SetParameters, f"{CONTROLLER}/set_parameters", request).results[0]

    assert set_one("max_velocity", capped(0.1)).successful
    assert set_one("kp", [500.0]).successful
    answer = set_one("max_velocity", [5.0])
    assert not answer.successful
    assert "the robot's own limit is" in answer.reason
    call = arm.follow(trajectory([J1], [[0.3]], [1.0]))
    assert "its velocity limit is 0.1" in call.result()[1].error_string
    assert set_one("kp", list(arm.client.get_parameter(CONTROLLER, "kd"))).successful


@pytest.mark.timeout(900)
def test_start_tolerance_can_be_changed(arm):
    client = arm.client
    message = trajectory([J1], [[0.2], [0.4]], [0.0, 1.0], [[0.0], [0.0]])
    assert "they may differ by 0.1" in arm.follow(message).result()[1].error_string
    assert client.set_parameters(CONTROLLER, start_tolerance=0.0).successful
    try:
        arm.reports.clear()
        assert arm.follow(message).result()[0] == SUCCEEDED
        limit = OWN["velocity"][0]
        assert np.abs(reference_speeds(arm)).max() <= limit * (1 + 1e-6), "approached within limits"
    finally:
        assert client.set_parameters(CONTROLLER, start_tolerance=0.1).successful


@pytest.mark.timeout(900)
def test_default_tolerances_of_a_goal():
    """Per joint where set, else of all joints; 0 disables, as in ros2_controllers."""
    blank = dict.fromkeys(JOINTS, math.nan)
    params = ArticulationParams(
        robot="franka",
        **robot_defaults(FRANKA),
        constraints_trajectory=0.3,
        constraints_joint_trajectory={**blank, J1: 0.1, ARM[1]: 0.0},
        constraints_joint_goal={**blank, ARM[2]: 0.05},
        constraints_stopped_velocity_tolerance=0.02,
        constraints_goal_time=1.5,
    )
    path, goal, goal_time = params.tolerances([ARM[2], J1, ARM[1]])
    np.testing.assert_array_equal(path.position, [0.3, 0.1, math.inf])
    np.testing.assert_array_equal(goal.position, [0.05, 0.01, 0.01])
    assert np.isinf(path.velocity).all()
    np.testing.assert_array_equal(goal.velocity, [0.02] * 3)
    assert goal_time == 1.5
    anything = dataclasses.replace(params, constraints_stopped_velocity_tolerance=0.0)
    assert np.isinf(anything.tolerances([J1])[1].velocity).all()


def send(
    arm: JointClient, kind: Any, topic: str, message: Any, until: Callable[[], Any], what: str
) -> None:
    """Send until a condition holds: the first message may precede discovery."""
    publisher = arm.publisher(kind, topic)
    arm.client.repeat(lambda: publisher.publish(message), until, what, rate=2.0)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_commands_are_one_value_per_joint(arm):
    values = [HOME[name] for name in JOINTS]
    values[0], values[6] = 0.3, math.nan
    send(arm, Float64MultiArray, "commands", Float64MultiArray(data=values),
         lambda: arm.away({J1: 0.3}) < 1e-4, "the command")  # fmt: skip
    assert arm.away({name: q for name, q in HOME.items() if name != J1}) < 1e-6


@pytest.mark.long
@pytest.mark.timeout(900)
def test_commands_go_to_the_channel_of_each_mode(arm):
    client = arm.client
    modes = ["velocity" if n == J7 else "effort" if n == J2 else "position" for n in JOINTS]
    assert client.set_parameters(CONTROLLER, control_modes=modes).successful
    try:
        values = [math.nan] * 9
        values[0], values[1], values[6] = 0.2, 7.5, 0.25
        client.wait(lambda: arm.commands, "commands")
        out = {n: i for i, n in enumerate(arm.commands.newest.name)}
        seen = []

        def done() -> bool:
            # Velocities and efforts end soon after the last command: look for both at once.
            newest = arm.commands.newest
            both = newest.velocity[out[J7]], newest.effort[out[J2]]
            if both == pytest.approx((0.25, 7.5)) and abs(arm.speed([J7]) - 0.25) < 1e-6:
                seen.append(newest)
            return bool(seen) and arm.away({J1: 0.2}) < 1e-4

        send(
            arm, Float64MultiArray, "commands", Float64MultiArray(data=values), done, "the command"
        )
        message = seen[-1]
        for name in (J2, J7):
            assert math.isnan(message.position[out[name]])
        assert math.isnan(message.velocity[out[J2]])
        call = arm.follow(smooth({J7: HOME[J7]}, 1.0))
        status, result = call.result()
        assert status == ABORTED
        assert result.error_string == (
            f"joint {J7} is under velocity control; trajectories need position control"
        )
    finally:
        assert client.set_parameters(CONTROLLER, control_modes=["position"]).successful
    # Back in position mode, joints hold their positions.
    rested = arm.rest(1e-6)
    client.spin(0.2)
    assert arm.away(rested) < 1e-6


@pytest.mark.long
@pytest.mark.timeout(900)
def test_reset_forgets_everything(arm):
    call = arm.follow(smooth({J1: 0.8}, 2.0))
    assert call.accepted()
    arm.moving(0.1)
    arm.commands.clear()
    answer = arm.client.call(Trigger, f"{CONTROLLER}/reset")
    assert (answer.success, answer.message) == (True, "holding the measured positions")
    status, result = call.result()
    assert (status, result.error_string) == (ABORTED, "the controller was reset")
    # The simulation follows the stream with a delay of a few milliseconds.
    arm.client.spin(0.2)
    steps = np.diff([message.position for message in arm.commands.messages], axis=0)
    assert np.abs(steps).max() < 0.05, "it comes to rest within the limits"
    rested = arm.rest()
    arm.client.spin(0.2)
    assert arm.away(rested) < 1e-6
    assert rested[J1] < 0.7


NAN = math.nan
START = [HOME[J1], HOME[J2]]
BAD = {
    "equal times": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 1.0]),
        "time of point 1 (1 s) is not after that of point 0 (1 s)",
    ),
    "accelerations without velocities": (
        trajectory([J1], [[0.1]], [1.0], None, [[0.0]]), "needs velocities too"
    ),
    "a joint twice": (
        trajectory([J1, J1], [[0.1, 0.1]], [1.0]), f"names joint {J1} more than once"
    ),
    "NaN": (
        trajectory([J1, J2], [[0.1, -0.7], [0.1, NAN]], [1.0, 2.0]),
        f"positions of joint {J2} at point 1 are nan",
    ),
    "NaN velocity": (
        trajectory([J1], [[0.1]], [1.0], [[NAN]]), f"velocities of joint {J1} at point 0 are nan"
    ),
    "starts elsewhere": (
        trajectory([J1, J2], [[START[0], START[1] + 0.2], [0.1, -0.7]], [0.0, 1.0]),
        f"the trajectory starts with joint {J2} at -0.5850, but it is at -0.7850; they may differ "
        "by 0.1",
    ),
    "outside position limits": (
        trajectory([J1, J2], [[0.1, -0.7], [3.5, -0.7]], [4.0, 8.0]),
        f"position 3.5 of joint {J1} at point 1 is outside its limits",
    ),
    "too fast": (
        trajectory([J1], [[1.0]], [0.1]),
        f"joint {J1} would have to move at",
    ),
    "velocity beyond limits": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 2.0], [[9.0], [0.0]]),
        f"velocity 9 of joint {J1} at point 0 exceeds its limit",
    ),
    "acceleration beyond limits": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 2.0], [[0.1], [0.0]], [[99.0], [0.0]]),
        f"acceleration 99 of joint {J1} at point 0 exceeds its limit",
    ),
}  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", BAD)
def test_bad_goals_say_what_is_wrong(arm, case):
    message, text = BAD[case]
    status, result = arm.follow(message).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert text in result.error_string
    assert arm.reference() == pytest.approx(HOME, abs=1e-9)


@pytest.mark.timeout(900)
def test_an_unknown_joint_has_a_code_of_its_own(arm):
    status, result = arm.follow(trajectory(["panda_jiont1"], [[0.1]], [1.0])).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_JOINTS)
    assert "Did you mean 'panda_joint1'?" in result.error_string
    message = smooth({J1: 0.1}, 1.0)
    status, result = arm.follow(message, goal_tolerance=tolerances([J2], 0.1)).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_JOINTS)
    assert f"joint '{J2}' is not known in the goal's tolerances" in result.error_string


@pytest.mark.timeout(900)
def test_other_wishes_that_make_no_sense(arm):
    message = smooth({J1: 0.1}, 1.0)
    status, result = arm.follow(message, path_tolerance=tolerances([J1], math.inf)).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert f"a tolerance of joint {J1} is inf" in result.error_string
    goal = FollowJointTrajectory.Goal(trajectory=message)
    goal.multi_dof_trajectory.points = [MultiDOFJointTrajectoryPoint()]
    status, result = arm.send(goal).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "multi_dof_trajectory" in result.error_string


@pytest.mark.timeout(900)
@pytest.mark.long
def test_huge_trajectories_are_refused(arm):
    """Refused by their length alone, while the motion under way continues."""
    count = 200_000
    message = trajectory([J1], [[0.0]], [1.0])
    message.points = message.points * count
    goal = arm.follow(smooth({J1: 2.0, J2: HOME[J2] + 0.8}, 30.0))
    assert goal.accepted()
    arm.moving()
    huge = arm.follow(message)
    status, result = huge.result(within=30.0)
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "points has 200000 entries; allowed are 100000" in result.error_string
    assert not goal.done
    assert goal.cancel()
    assert goal.result()[0] == CANCELED
