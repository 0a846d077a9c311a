# SPDX-License-Identifier: Apache-2.0
"""The controller manager as rqt_joint_trajectory_controller, ros2 control and the spawner use it.

Calls, and fields read from responses, are those of the clients' sources (ros2_controllers'
rqt_joint_trajectory_controller, ros2_control's ros2controlcli and controller_manager packages).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from controller_manager_msgs.srv import (
    CleanupController,
    ConfigureController,
    ListControllers,
    ListControllerTypes,
    ListHardwareComponents,
    ListHardwareInterfaces,
    LoadController,
    ReloadControllerLibraries,
    SetHardwareComponentState,
    SwitchController,
    UnloadController,
)
from joint_client import FRANKA, HOME, JointClient, trajectory
from lifecycle_msgs.msg import State
from ros_client import LATCHED, RELIABLE, RosClient, values_of
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.controller_manager import controllers_of, impedance_joints
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER, STATE_BROADCASTER

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
JOINTS = list(FRANKA.joint_names)
ARM, BASE = "/arm", "/base"
JTC = "joint_trajectory_controller"
STRICT, BEST_EFFORT = SwitchController.Request.STRICT, SwitchController.Request.BEST_EFFORT
SIX = {
    "list_controllers": "ListControllers",
    "list_controller_types": "ListControllerTypes",
    "load_controller": "LoadController",
    "unload_controller": "UnloadController",
    "switch_controller": "SwitchController",
    "reload_controller_libraries": "ReloadControllerLibraries",
}
"""What rqt looks for before it takes a namespace for a controller manager's."""


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
def cell(module_suite: Any, module_client: RosClient) -> RosClient:
    """An arm and a base; all but the simulation in one process, served by one executor."""
    module_suite.bring_up("arm:=franka", "base:=jetbot@1,0,0", without=ALONE, backend="mock")
    Manager(module_client).wait_for(JTC, "active")
    return module_client


@pytest.fixture
def manager(cell: RosClient) -> Iterator[Manager]:
    """The arm's manager; afterwards the controller is active again."""
    manager = Manager(cell)
    yield manager
    if manager.list()[JTC].state == "unconfigured":
        assert manager.call(ConfigureController, "configure_controller", name=JTC).ok
    if manager.list()[JTC].state == "inactive":
        assert manager.switch([], [JTC], STRICT).ok


def test_rqt_finds_the_manager_by_its_six_services(cell):
    wanted = {
        f"{namespace}/controller_manager/{service}": [f"controller_manager_msgs/srv/{kind}"]
        for namespace in (ARM, BASE)
        for service, kind in SIX.items()
    }

    def offered() -> bool:
        found = dict(cell.node.get_service_names_and_types())
        return all(found.get(name) == types for name, types in wanted.items())

    cell.wait(offered, "the services of both managers in the graph")


def test_rqt_moves_the_arm(manager):
    """Lists, filters, reads limits, shows the state, and sends a point for all joints."""
    client = manager.client
    entry = manager.wait_for(JTC, "active")
    assert "JointTrajectoryController" in entry.type
    names: list[str] = []
    for interface in entry.required_state_interfaces:
        joint, _, kind = interface.rpartition("/")
        if kind == "position" and joint not in names:
            names.append(joint)
    assert names == JOINTS
    # rqt derives the controller's name from that of the manager.
    beside = f"{manager.name.rsplit('/', 1)[0]}/{entry.name}"
    heard = client.listen(String, f"{ARM}/robot_description", LATCHED)
    arm = JointClient(client, beside)
    client.wait(lambda: len(heard) and len(arm.reports), "description and state")
    for name in names:
        assert f'name="{name}"' in heard.newest.data
    assert dict(zip(arm.reports.newest.joint_names, arm.reports.newest.feedback.positions,
                    strict=True)).keys() == set(names)  # fmt: skip
    publisher = client.publisher(JointTrajectory, f"{beside}/joint_trajectory", RELIABLE)
    wish = {**HOME, names[0]: 0.2}
    message = trajectory(names, [[wish[name] for name in names]], [0.5])
    # rqt publishes at 10 Hz while its button is on.
    client.repeat(
        lambda: publisher.publish(message),
        lambda: abs(arm.reports.newest.feedback.positions[0] - 0.2) < 1e-3, "the move", rate=10.0,
    )  # fmt: skip
    arm.close()


def test_hardware_as_ros2_control_prints_it(manager):
    manager.wait_for(JTC, "active")
    listed = manager.call(ListHardwareInterfaces, "list_hardware_interfaces")
    commands = {interface.name: interface for interface in listed.command_interfaces}
    for name in JOINTS:
        assert commands[f"{name}/position"].is_claimed
        assert commands[f"{name}/position"].is_available
    efforts = [entry for name, entry in commands.items() if name.endswith("/effort")]
    assert efforts
    assert not any(entry.is_claimed for entry in efforts)  # of the inactive impedance controller
    states = {interface.name for interface in listed.state_interfaces}
    assert {f"{name}/{kind}" for name in JOINTS for kind in ("position", "velocity")} <= states
    (component,) = manager.call(ListHardwareComponents, "list_hardware_components").component
    assert (component.type, component.state.label) == ("system", "active")
    assert component.rw_rate == 250
    assert {interface.name for interface in component.command_interfaces} == set(commands)


def test_the_list_as_ros2_control_prints_it(manager):
    entry = manager.wait_for(JTC, "active")
    assert (entry.name, entry.type) == (JTC, f"{JTC}/JointTrajectoryController")
    assert entry.claimed_interfaces == [f"{name}/position" for name in JOINTS]
    assert entry.required_command_interfaces == entry.claimed_interfaces
    assert {f"{name}/velocity" for name in JOINTS} < set(entry.required_state_interfaces)
    assert entry.update_rate == 250
    base = Manager(manager.client, BASE).wait_for("diff_drive_controller", "active")
    assert base.type == "diff_drive_controller/DiffDriveController"
    assert base.claimed_interfaces == ["left_wheel_joint/velocity", "right_wheel_joint/velocity"]
    types = manager.call(ListControllerTypes, "list_controller_types")
    impedance = manager.list()[IMPEDANCE_CONTROLLER]
    assert impedance.state == "unconfigured", "the mock simulation accepts no efforts"
    assert impedance.required_command_interfaces == [f"{name}/effort" for name in JOINTS[:7]]
    assert impedance.claimed_interfaces == []
    states = manager.list()[STATE_BROADCASTER]
    assert (states.state, states.required_command_interfaces) == ("active", [])
    assert {f"{name}/velocity" for name in JOINTS} <= set(states.required_state_interfaces)
    assert (types.types, types.base_classes) == (
        [entry.type, impedance.type, states.type], ["controller_interface::ControllerInterface"] * 3
    )  # fmt: skip


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


def test_switching_off_and_on(manager):
    answer = manager.switch([JTC], [], STRICT)
    assert (answer.ok, answer.message) == (True, f"deactivated {JTC}")
    entry = manager.list()[JTC]
    assert (entry.state, list(entry.claimed_interfaces)) == ("inactive", [])
    assert len(entry.required_command_interfaces) == 9
    assert manager.client.state(f"{ARM}/{JTC}") == "inactive"
    # ros2 control set_controller_state sends strictness True, which is BEST_EFFORT.
    assert manager.switch([], [JTC], int(True)).ok
    assert manager.client.state(f"{ARM}/{JTC}") == "active"
    assert manager.switch([JTC], [JTC], STRICT).ok
    assert manager.list()[JTC].state == "active"


def test_strict_requests_are_all_or_nothing(manager):
    for stop, start, text in (
        ([JTC, "nobody"], [], "controller 'nobody' does not exist"),
        ([JTC], ["joint_trajectory_controler"], f"Did you mean '{JTC}'"),
        ([], [JTC], "is active already"),
    ):
        answer = manager.switch(stop, start, STRICT)
        assert not answer.ok
        assert text in answer.message
        assert manager.list()[JTC].state == "active"


def test_best_effort(manager):
    assert manager.switch([], [JTC], BEST_EFFORT).ok, "already so"
    assert not manager.switch(["nobody"], [], BEST_EFFORT).ok
    answer = manager.switch([JTC, "nobody"], [], 0)
    assert answer.ok
    assert "'nobody' does not exist" in answer.message
    assert manager.list()[JTC].state == "inactive"
    assert not manager.call(CleanupController, "cleanup_controller", name="nobody").ok
    assert manager.call(CleanupController, "cleanup_controller", name=JTC).ok
    entry = manager.list()[JTC]
    assert (entry.state, list(entry.required_state_interfaces)) == ("unconfigured", [])
    answer = manager.switch([], [JTC], BEST_EFFORT)
    assert answer.ok
    assert "it can be activated when it is inactive" in answer.message
    assert manager.call(ConfigureController, "configure_controller", name=JTC).ok


def test_the_spawner_activates_an_inactive_controller(manager):
    """It configures controllers that are loaded, and then activates them."""
    assert not manager.call(ConfigureController, "configure_controller", name=JTC).ok, "active"
    assert manager.switch([JTC], [], STRICT).ok
    assert manager.call(ConfigureController, "configure_controller", name=JTC).ok
    assert manager.switch([], [JTC], STRICT).ok
    assert manager.list()[JTC].state == "active"


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


def test_what_cannot_be_done_is_refused_with_a_reason(manager):
    assert not manager.call(LoadController, "load_controller", name=JTC).ok
    manager.warning("its node is running already")
    assert not manager.call(LoadController, "load_controller", name="joint_trajectory").ok
    manager.warning("Did you mean")
    assert not manager.call(UnloadController, "unload_controller", name=JTC).ok
    manager.warning("is not unloaded")
    assert not manager.call(ReloadControllerLibraries, "reload_controller_libraries").ok
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
