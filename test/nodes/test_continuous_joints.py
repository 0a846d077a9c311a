# SPDX-License-Identifier: Apache-2.0
"""An arm with two continuous joints, whose driver reports them in [-pi, pi), in all interfaces.

Its state is unwrapped where it comes in, and an equal angle a whole turn away is the same place.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

import pytest
from joint_client import CONTROLLER, SUCCEEDED, JointClient, duration, trajectory
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetPositionFK, GetPositionIK, GetStateValidity
from planner_client import Planner, at, state
from scripted_robot import ScriptedRobot
from sensor_msgs.msg import JointState

Codes = MoveItErrorCodes
pytestmark = pytest.mark.timeout(900)

ARM = ("pan", "tilt", "elbow", "roll")
HOME = {"pan": 3.1, "tilt": 0.3, "elbow": 0.5, "roll": 0.0}


def _link(name: str, length: float) -> str:
    return (
        f'<link name="{name}"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01"'
        f' ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="{length / 2} 0 0"/>'
        f'<geometry><box size="{0.6 * length} 0.04 0.04"/></geometry></collision></link>'
    )


def _joint(name: str, links: str, xyz: str, axis: str, limit: str) -> str:
    parent, child = links.split()
    kind = "revolute" if "lower" in limit else "continuous"
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>'
        f'<limit effort="50" velocity="2" {limit}/></joint>'
    )


URDF = "".join(
    (
        '<robot name="turner"><link name="base_link"/>',
        *(_link(*each) for each in (("a", 0.1), ("b", 0.3), ("c", 0.25), ("tool0", 0.05))),
        _joint("pan", "base_link a", "0 0 0.3", "0 0 1", ""),
        _joint("tilt", "a b", "0 0 0.1", "0 1 0", 'lower="-1.5" upper="1.5"'),
        _joint("elbow", "b c", "0.3 0 0", "0 1 0", 'lower="-2.5" upper="2.5"'),
        _joint("roll", "c tool0", "0.25 0 0", "1 0 0", ""),
        "</robot>",
    )
)


@pytest.fixture(scope="module")
def robot(ros):
    """The driver."""
    robot = ScriptedRobot(HOME)
    robot.wraps = frozenset(("pan", "roll"))
    yield robot
    robot.close()


@pytest.fixture(scope="module")
def planner(robot, module_suite, module_client, tmp_path_factory):
    """Controller, planner, kinematics and policy of that robot."""
    file = tmp_path_factory.mktemp("turner") / "turner.urdf"
    file.write_text(URDF)
    own = {"robot": str(file)}
    module_suite.node("articulation_controller", **own, state_timeout=5.0)
    module_suite.node("rrt_planner", **own, state_timeout=5.0)
    module_suite.node("ik_service", **own)
    module_suite.node("rmpflow_policy", **own, state_timeout=5.0)
    arm = JointClient(module_client)
    arm.wait_for()
    planner = Planner(arm)
    planner.wait()
    yield planner
    arm.close()


@pytest.fixture
def arm(planner, robot):
    """The robot at rest, anywhere."""
    planner.arm.rest()
    settle(planner.arm, robot)
    return planner.arm


def settle(arm: JointClient, robot: ScriptedRobot) -> None:
    """Wait until the robot stands: measured positions follow the references with a delay."""
    seen: list[tuple[float, dict[str, float]]] = []

    def stands() -> bool:
        now, q = time.monotonic(), dict(robot.q)
        if not seen or max(abs(q[name] - seen[0][1][name]) for name in q) > 1e-6:
            seen[:] = [(now, q)]
        return now - seen[0][0] > 0.3

    arm.client.wait(stands, "the robot to stand")


def way(robot: ScriptedRobot, before: float) -> float:
    """Return how far pan has turned."""
    return robot.q["pan"] - before


def carried_out(call: Any) -> None:
    status, result = call.result(within=90.0)
    text = getattr(result, "error_string", "") or getattr(result, "error_code", "")
    assert status == SUCCEEDED, text


def points(*rows: tuple[float, Mapping[str, float]]) -> Any:
    """Return a trajectory through positions at times [s]."""
    names = tuple(rows[0][1])
    return trajectory(names, [[row[n] for n in names] for _, row in rows], [t for t, _ in rows])


@pytest.mark.parametrize("turns", [-1, 2])
def test_trajectories_a_turn_away_are_shifted(arm, planner, robot, turns):
    before, off = robot.q["pan"], turns * math.tau
    carried_out(
        arm.follow(points((0.0, {"pan": before + off}), (1.0, {"pan": before + off + 0.3})))
    )
    settle(arm, robot)
    assert way(robot, before) == pytest.approx(0.3, abs=1e-3)
    carried_out(arm.follow(points((1.0, {"pan": before + 3 * off + 0.8}))))
    settle(arm, robot)
    assert way(robot, before) == pytest.approx(0.8, abs=1e-3)
    arm.rest()
    here = {name: robot.q[name] for name in ARM}
    begin, end = ({**here, "pan": here["pan"] + off + step} for step in (0.0, 0.25))
    carried_out(planner.execute(points((0.0, begin), (1.0, end))))
    settle(arm, robot)
    assert robot.q["pan"] - here["pan"] == pytest.approx(0.25, abs=1e-3)


def test_plans_from_a_state_and_to_a_goal_a_turn_away(arm, planner, robot):
    here = {name: robot.q[name] for name in ARM}
    start = state({**here, "pan": here["pan"] - math.tau})
    call = planner.move({**here, "pan": here["pan"] + 0.2 + 2 * math.tau}, start_state=start)
    carried_out(call)
    settle(arm, robot)
    assert robot.q["pan"] - here["pan"] == pytest.approx(0.2, abs=2e-3)


def test_state_validity_and_inverse_kinematics_compare_modulo_a_turn(arm, planner, robot):
    client = arm.client
    q = {"pan": 12.67, "tilt": 0.3, "elbow": 0.5, "roll": 0.1}
    near = at({"pan": 12.67 - 2 * math.tau, "roll": 0.1 + math.tau}, 0.01)
    far = at({"pan": 12.67 - 2 * math.tau + 0.1}, 0.01)
    for constraints, valid in ((near, True), (far, False)):
        request = GetStateValidity.Request(
            robot_state=state(q), group_name="arm", constraints=constraints
        )
        assert client.call(GetStateValidity, "/check_state_validity", request).valid is valid
    forward = GetPositionFK.Request(fk_link_names=["tool0"], robot_state=state(q))
    forward.header.frame_id = "base_link"
    pose = client.call(GetPositionFK, "/compute_fk", forward).pose_stamped[0]
    inverse = GetPositionIK.Request()
    asked = inverse.ik_request
    asked.group_name, asked.pose_stamped, asked.robot_state = "arm", pose, state(q)
    asked.constraints, asked.timeout = near, duration(2.0)
    answer = client.call(GetPositionIK, "/compute_ik", inverse)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    solved = answer.solution.joint_state
    found = dict(zip(solved.name, solved.position, strict=True))
    assert math.remainder(found["pan"] - q["pan"], math.tau) == pytest.approx(0.0, abs=0.02)


def test_a_posture_and_a_stream_a_turn_away_are_reached_the_short_way(arm, robot):
    for topic, sender in (("/rmpflow_policy/posture", None), ("reference", arm)):
        arm.rest()
        before = {name: robot.q[name] for name in ARM}
        publisher = (
            arm.client.publisher(JointState, topic)
            if sender is None
            else arm.publisher(JointState, topic)
        )
        target = {**before, "pan": before["pan"] + 0.3 - math.tau}
        seen: list[float] = []

        def reached(
            publisher: Any = publisher, target: Any = target, seen: list[float] = seen
        ) -> bool:
            message = JointState(name=list(target), position=list(target.values()))
            message.header.stamp = arm.client.node.get_clock().now().to_msg()
            publisher.publish(message)
            arm.client.spin(0.03)
            seen.append(robot.q["pan"])
            return abs(math.remainder(robot.q["pan"] - target["pan"], math.tau)) < 0.02

        arm.client.wait(reached, f"the goal on {topic}", within=60.0)
        assert min(seen) > before["pan"] - 0.1
        assert max(seen) < before["pan"] + 0.4


@pytest.mark.parametrize("excess", [2.65e-6, 9e-5])
def test_seeds_and_constraints_at_a_limit_by_rounding_are_at_the_limit(arm, planner, robot, excess):
    client, q = arm.client, {"pan": 0.4, "tilt": 1.5, "elbow": -0.5, "roll": 0.1}
    forward = GetPositionFK.Request(fk_link_names=["tool0"], robot_state=state(q))
    forward.header.frame_id = "base_link"
    pose = client.call(GetPositionFK, "/compute_fk", forward).pose_stamped[0]
    inverse = GetPositionIK.Request()
    asked = inverse.ik_request
    asked.group_name, asked.pose_stamped = "arm", pose
    asked.robot_state = state({**q, "tilt": 1.5 + excess})
    asked.constraints, asked.timeout = at({"tilt": 1.5 + excess}, 2e-6), duration(2.0)
    answer = client.call(GetPositionIK, "/compute_ik", inverse)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    solved = answer.solution.joint_state
    tilt = dict(zip(solved.name, solved.position, strict=True))["tilt"]
    assert 1.5 - 1e-5 < tilt <= 1.5
    for far, valid in ((excess, True), (excess + 2e-3, False)):
        request = GetStateValidity.Request(
            robot_state=state({**q, "tilt": 1.5 + far}),
            group_name="arm",
            constraints=at({"tilt": 1.5 + excess}, 1e-6),
        )
        answer = client.call(GetStateValidity, "/check_state_validity", request)
        assert answer.valid is valid, answer


def test_a_wrapped_state_of_a_joint_with_limits_is_a_fault(arm, robot):
    """The last test: the robot reports an impossible jump, which is no turn and moves nothing."""
    there = robot.q["tilt"] + math.tau
    robot.blocked["tilt"] = (there, there)
    pan = robot.q["pan"]
    arm.client.wait_for_diagnosis(CONTROLLER, "tilt")
    settle(arm, robot)
    assert robot.q["pan"] == pytest.approx(pan, abs=1e-3)
