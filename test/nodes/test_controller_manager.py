# SPDX-License-Identifier: Apache-2.0
"""The controller manager as rqt_joint_trajectory_controller, ros2 control and the spawner use it.

Calls, and fields read from responses, are those of the clients' sources (ros2_controllers'
rqt_joint_trajectory_controller, ros2_control's ros2controlcli and controller_manager packages).
"""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import pytest
from controller_manager_msgs.srv import (
    CleanupController,
    ConfigureController,
    ListControllers,
    LoadController,
    SetHardwareComponentState,
    SwitchController,
)
from joint_client import FRANKA
from lifecycle_msgs.msg import State
from ros_client import RosClient, values_of

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.controller_manager import controllers_of, impedance_joints
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER, STATE_BROADCASTER

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
JOINTS = list(FRANKA.joint_names)
ARM, BASE = "/arm", "/base"
JTC = "joint_trajectory_controller"
STRICT, BEST_EFFORT = SwitchController.Request.STRICT, SwitchController.Request.BEST_EFFORT


class Manager:
    """A client of one controller manager."""

    def __init__(self, client: RosClient, namespace: str = ARM) -> None:
        self.client = client
        self.name = f"{namespace}/controller_manager"

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        return self.client.call(kind, f"{self.name}/{service}", kind.Request(**fields))

    def list(self) -> dict[str, Any]:
        found = self.call(ListControllers, "list_controllers").controller
        return {entry.name: entry for entry in found}

    def wait_for(self, name: str, state: str) -> Any:
        def found() -> Any:
            entry = self.list().get(name)
            return entry if entry is not None and entry.state == state else None

        return self.client.wait(found, f"{name} {state}")

    def switch(self, stop: list[str], start: list[str], strictness: int, **more: Any) -> Any:
        return self.call(SwitchController, "switch_controller", deactivate_controllers=stop,
                         activate_controllers=start, strictness=strictness, **more)  # fmt: skip

    def warning(self, text: str) -> None:
        def said() -> bool:
            status = self.client.diagnostics(self.name)
            return status is not None and text in values_of(status).get("last warning", "")

        self.client.wait(said, f"the warning '{text}'")


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """An arm and a base; all but the simulation in one process, served by one executor."""
    module_suite.bring_up("arm:=franka", "base:=jetbot@1,0,0", without=ALONE, backend="mock")
    Manager(module_client).wait_for(JTC, "active")
    return module_client


@pytest.fixture
def manager(cell):
    """The arm's manager; afterwards the controller is active again."""
    manager = Manager(cell)
    yield manager
    if manager.list()[JTC].state == "unconfigured":
        assert manager.call(ConfigureController, "configure_controller", name=JTC).ok
    if manager.list()[JTC].state == "inactive":
        assert manager.switch([], [JTC], STRICT).ok


def test_arms_whose_group_has_another_name_have_impedance_control_too():
    ur = load_robot("ur10e")
    assert controllers_of(ur) == (JTC, IMPEDANCE_CONTROLLER)
    assert len(impedance_joints(ur)) == 6
    assert impedance_joints(load_robot("jetbot")) == ()


def test_claims_follow_the_control_modes(manager):
    set_modes = manager.client.set_parameters
    modes = ["velocity", *["position"] * 8]
    assert set_modes(f"{ARM}/{JTC}", control_modes=modes).successful
    try:
        assert manager.list()[JTC].claimed_interfaces[:2] == [
            f"{JOINTS[0]}/velocity", f"{JOINTS[1]}/position"
        ]  # fmt: skip
    finally:
        assert set_modes(f"{ARM}/{JTC}", control_modes=["position"]).successful


def test_the_broadcaster_of_states_is_switched_without_a_node(manager):
    """As launch files do that spawn it first; joint_states are published all the same."""
    name = STATE_BROADCASTER
    assert not manager.call(ConfigureController, "configure_controller", name=name).ok, "active"
    assert not manager.switch([], [name], STRICT).ok
    assert manager.switch([name], [], STRICT).ok
    assert manager.list()[name].state == "inactive"
    assert manager.call(ConfigureController, "configure_controller", name=name).ok
    assert manager.call(CleanupController, "cleanup_controller", name=name).ok
    assert not manager.switch([], [name], STRICT).ok, "unconfigured"
    assert manager.call(ConfigureController, "configure_controller", name=name).ok
    assert manager.switch([], [name], STRICT).ok
    assert manager.list()[name].state == "active"
    assert not manager.call(LoadController, "load_controller", name=name).ok, "loaded already"


def test_hardware_stays_active(manager):
    def wanted(name: str, label: str, number: int) -> Any:
        state = State(id=number, label=label)
        return manager.call(SetHardwareComponentState, "set_hardware_component_state",
                            name=name, target_state=state)  # fmt: skip

    assert wanted("franka", "active", State.PRIMARY_STATE_ACTIVE).ok
    answer = wanted("franka", "inactive", State.PRIMARY_STATE_INACTIVE)
    assert (answer.ok, answer.state.label) == (False, "active")
    manager.warning("stays active")
    assert not wanted("frank", "active", State.PRIMARY_STATE_ACTIVE).ok
    manager.warning("Did you mean 'franka'")


def test_impedance_control_is_a_mode_of_the_joint_controller(manager):
    answer = manager.switch([JTC], [IMPEDANCE_CONTROLLER], BEST_EFFORT)
    assert not answer.ok
    assert "is a mode of" in answer.message
    assert manager.list()[JTC].state == "active"


@pytest.mark.long
def test_a_controller_that_hangs_or_is_gone(suite, client):
    """In processes of their own."""
    suite.node("mock_sim", robots=["franka"])
    controller = suite.node("articulation_controller", robot="franka", use_sim_time=True)
    suite.node("controller_manager", robot="franka", controller_timeout=0.5)
    manager = Manager(client, "")
    manager.wait_for(JTC, "active")
    controller.send(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        stack.callback(controller.send, signal.SIGCONT)
        assert set(manager.list()) == {STATE_BROADCASTER}
        manager.warning("did not respond within 0.5 s")
        answer = manager.switch([JTC], [], STRICT)
        assert (answer.ok, "does not exist" in answer.message) == (False, True)
    assert manager.wait_for(JTC, "active").update_rate == 250
    assert controller.stop(signal.SIGINT) == 0
    client.wait_for_diagnosis(manager.name, f"no node {JTC}")
    assert set(manager.list()) == {STATE_BROADCASTER}
