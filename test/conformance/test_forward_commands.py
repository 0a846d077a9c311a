# SPDX-License-Identifier: Apache-2.0
"""forward_command_controller of ros2_controllers, from a user's file, as a client sees it.

Robots without physics, whose joints take positions, velocities and efforts, and one whose
controllers are switched.
"""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from controller_manager_msgs.srv import ListControllers, SwitchController
from joint_client import ARM, HOME, SUCCEEDED, JointClient, smooth
from std_msgs.msg import Float64MultiArray

from motion_nodes.bringup.node_specs import ALONE

pytestmark = pytest.mark.timeout(900)
J1, J7 = ARM[0], ARM[6]
LISTED = f"[{', '.join(ARM)}]"
FILE = f"""
positions:
  arm:
    ros__parameters:
      type: forward_command_controller/ForwardCommandController
      joints: {LISTED}
      interface_name: position
  both:
    ros__parameters:
      type: forward_command_controller/MultiInterfaceForwardCommandController
      joint: {J7}
      interface_names: [position, velocity]
velocities:
  arm:
    ros__parameters:
      type: velocity_controllers/JointGroupVelocityController
      joints: {LISTED}
efforts:
  arm:
    ros__parameters:
      type: effort_controllers/JointGroupEffortController
      joints: {LISTED}
turns:
  joint_trajectory_controller:
    ros__parameters:
      type: joint_trajectory_controller/JointTrajectoryController
      joints: {LISTED}
  trajectories:
    ros__parameters:
      type: ur_controllers/ScaledJointTrajectoryController
      joints: {LISTED}
  positions:
    ros__parameters:
      type: position_controllers/JointGroupPositionController
      joints: {LISTED}
  velocities:
    ros__parameters:
      type: velocity_controllers/JointGroupVelocityController
      joints: {LISTED}
"""


@pytest.fixture(scope="module")
def cell(module_suite, module_client, tmp_path_factory):
    """The robots, by what their joints take."""
    file = tmp_path_factory.mktemp("file") / "controllers.yaml"
    file.write_text(FILE)
    names = ("positions", "velocities", "efforts", "turns")
    unused = (*ALONE, "robot_state", "ik_service")
    module_suite.bring_up(
        *(f"{name}:=franka" for name in names), without=unused, rate=100.0, backend="mock",
        params_file=str(file),
    )  # fmt: skip
    arms = {name: JointClient(module_client, namespace=f"/{name}") for name in names}
    for name, arm in arms.items():
        module_client.wait_for_diagnosis(arm.controller, "")
        module_client.wait(lambda a=arm: a.reports and a.commands and a.states, f"the robot {name}")
    yield SimpleNamespace(**arms, client=module_client)
    for arm in arms.values():
        arm.close()


def send(arm: JointClient, *values: float, name: str = "arm") -> None:
    """Send one message to a controller of the file."""
    topic = f"{arm.controller.rpartition('/')[0]}/{name}/commands"
    if topic not in arm._publishers:
        arm._publishers[topic] = arm.client.publisher(Float64MultiArray, topic)
    arm._publishers[topic].publish(Float64MultiArray(data=[float(v) for v in values]))


def commanded(arm: JointClient, joint: str, channel: str) -> float:
    """Return what the drive of a joint was told last."""
    message = arm.commands.newest
    return float(getattr(message, channel)[message.name.index(joint)])


def test_positions(cell):
    arm = cell.positions
    before = arm.rest()
    assert before == pytest.approx(HOME, abs=1e-6)
    goal = [HOME[j] + 0.05 * (k + 1) for k, j in enumerate(ARM)]
    for wrong in (
        goal[:-1],
        [*goal, 0.0],
        [math.nan, *goal[1:]],
        [*goal[:-1], math.inf],
        [9.0] * 7,
    ):
        send(arm, *wrong)
        arm.client.spin(0.3)
        assert arm.away(before) < 1e-6
    arm.commands.clear()
    send(arm, *goal)
    arm.arrives(dict(zip(ARM, goal, strict=True)), 1e-4)
    told = [m.position[m.name.index(J1)] for m in arm.commands.messages]
    assert max(abs(b - a) for a, b in itertools.pairwise(told)) < 0.03


def test_several_interfaces(cell):
    arm = cell.positions
    before = arm.rest()
    for wrong in ((before[J7],), (0.1, 0.1, 0.1), (before[J7] + 0.2, math.nan)):
        send(arm, *wrong, name="both")
        arm.client.spin(0.3)
        assert arm.away(before) < 1e-6
    send(arm, before[J7] - 0.2, 0.0, name="both")
    arm.arrives({**before, J7: before[J7] - 0.2}, 1e-4)
    # A position with a velocity is a target that moves; after a pause of this process it jumps.
    start, place, k = arm.now, arm.joints[J7], arm.reports.newest.joint_names.index(J7)

    def target() -> None:
        send(arm, place + 0.2 * (arm.now - start), 0.2, name="both")

    def evenly() -> bool:
        speeds = [m.reference.velocities[k] for m in arm.reports.messages[-30:]]
        return len(speeds) == 30 and sorted(speeds)[15] == pytest.approx(0.2, abs=0.03)

    arm.reports.clear()
    arm.client.repeat(target, evenly, "the speed of the target", rate=50.0, within=8.0)
    arm.rest()


def test_velocities(cell):
    arm = cell.velocities
    arm.client.repeat(  # the first message may precede the discovery
        lambda: send(arm, 0.1, *[0.0] * 6),
        lambda: commanded(arm, J1, "velocity") == pytest.approx(0.1), "the velocity", rate=1.0,
    )  # fmt: skip
    arm.client.spin(0.7)
    assert commanded(arm, J1, "velocity") == pytest.approx(0.1)
    assert arm.client.change_state(arm.controller, "deactivate")
    arm.client.wait(lambda: arm.speed() < 1e-6, "rest")
    send(arm, 0.2, *[0.0] * 6)
    assert arm.client.change_state(arm.controller, "activate")
    arm.client.spin(0.5)
    assert arm.speed() < 1e-6
    send(arm, *[0.0] * 6, -0.1)
    arm.client.wait(lambda: commanded(arm, J7, "velocity") == pytest.approx(-0.1), "the velocity")
    send(arm, *[0.05] * 6)
    arm.client.spin(0.3)
    assert commanded(arm, J7, "velocity") == pytest.approx(-0.1)
    send(arm, *[0.0] * 7)
    arm.rest()


def test_efforts(cell):
    arm = cell.efforts
    efforts = [1.0, -2.0, 0.5, 0.25, -0.5, 0.125, 0.0]
    arm.client.repeat(
        lambda: send(arm, *efforts),
        lambda: [commanded(arm, j, "effort") for j in ARM] == pytest.approx(efforts), "the efforts",
        rate=1.0,
    )  # fmt: skip
    send(arm, *[3.0] * 6)
    arm.client.spin(0.3)
    assert [commanded(arm, j, "effort") for j in ARM] == pytest.approx(efforts)
    assert arm.client.change_state(arm.controller, "deactivate")
    arm.client.wait(
        lambda: not np.nan_to_num([commanded(arm, j, "effort") for j in ARM]).any(), "no efforts"
    )


def test_in_turn(cell):
    arm = cell.positions
    arm.rest()
    assert arm.follow(smooth({j: HOME[j] for j in ARM}, 1.0)).result()[0] == SUCCEEDED
    call = arm.follow(smooth({J1: HOME[J1] + 0.8}, 4.0))
    assert call.accepted()
    arm.moving(joints=[J1])
    send(arm, *(HOME[j] for j in ARM))
    assert call.result()[0] != SUCCEEDED
    arm.arrives({j: HOME[j] for j in ARM}, 1e-4)


@pytest.fixture
def turns(cell):
    """The robot whose controllers are switched; its trajectories have the joints."""
    yield cell.turns
    for name in ("positions", "velocities"):
        switch(cell.turns, [name], [], strict=False)
    switch(cell.turns, [], ["trajectories"], strict=False)
    cell.turns.rest()


def controllers(arm: JointClient) -> dict[str, Any]:
    """Return the states of a robot's controllers."""
    listed = arm.client.call(ListControllers, "/turns/controller_manager/list_controllers")
    return {entry.name: entry for entry in listed.controller}


def switch(arm: JointClient, stop: list[str], start: list[str], *, strict: bool = True) -> str:
    """Switch controllers; return why they are not, or an empty text."""
    request = SwitchController.Request(
        deactivate_controllers=stop, activate_controllers=start,
        strictness=SwitchController.Request.STRICT if strict
        else SwitchController.Request.BEST_EFFORT,
    )  # fmt: skip
    answer = arm.client.call(
        SwitchController, "/turns/controller_manager/switch_controller", request
    )
    return "" if answer.ok else str(answer.message)


def states(arm: JointClient) -> dict[str, str]:
    listed = controllers(arm)
    return {name: listed[name].state for name in ("trajectories", "positions", "velocities")}


def test_switching(turns):
    arm = turns
    home = arm.rest()
    start = {"trajectories": "active", "positions": "inactive", "velocities": "inactive"}
    assert states(arm) == start
    types = {name: entry.type.rpartition("/")[2] for name, entry in controllers(arm).items()}
    assert types["trajectories"] == "ScaledJointTrajectoryController"
    assert types["velocities"] == "JointGroupVelocityController"
    there = [home[j] + 0.05 for j in ARM]
    for name, values in (("positions", there), ("velocities", [0.1] * 7)):
        send(arm, *values, name=name)
    arm.client.spin(0.3)
    assert arm.away(home) < 1e-6
    for name in ("positions", "velocities"):
        assert "deactivate that too" in switch(arm, [], [name])
    assert states(arm) == start
    assert not switch(arm, ["trajectories"], ["positions"])
    assert states(arm) == {**start, "trajectories": "inactive", "positions": "active"}
    assert len(controllers(arm)["positions"].claimed_interfaces) == len(ARM)
    arm.client.spin(0.3)
    assert arm.away(home) < 1e-6, "commands from before the activation are not executed"
    send(arm, *there, name="positions")
    arm.arrives(dict(zip(ARM, there, strict=True)), 1e-4)
    assert arm.follow(smooth({j: home[j] for j in ARM}, 1.0)).result()[0] != SUCCEEDED
    assert not switch(arm, ["positions"], ["velocities"])
    arm.client.repeat(
        lambda: send(arm, -0.1, *[0.0] * 6, name="velocities"),
        lambda: arm.speed() == pytest.approx(0.1, abs=1e-3), "the velocity", rate=1.0,
    )  # fmt: skip
    assert not switch(arm, ["velocities"], ["trajectories"])
    assert states(arm) == start
    arm.rest()
    assert arm.follow(smooth({j: home[j] for j in ARM}, 1.0)).result()[0] == SUCCEEDED


def test_switching_during_a_trajectory(turns):
    arm = turns
    home = arm.rest()
    call = arm.follow(smooth({**{j: home[j] for j in ARM}, J1: home[J1] + 0.8}, 4.0))
    assert call.accepted()
    arm.moving(joints=[J1])
    assert not switch(arm, ["trajectories"], ["velocities"])
    status, result = call.result()
    assert status != SUCCEEDED
    assert "deactivated" in result.error_string
    arm.client.wait(lambda: arm.speed() < 1e-6, "rest")
    # The usual name of the trajectories' controller is another name of the file's.
    assert not switch(arm, ["velocities"], ["joint_trajectory_controller"])
    assert states(arm)["trajectories"] == "active"
    assert not switch(arm, ["trajectories"], ["joint_trajectory_controller"])
    assert arm.follow(smooth({j: home[j] for j in ARM}, 1.0)).result()[0] == SUCCEEDED
