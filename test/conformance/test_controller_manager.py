# SPDX-License-Identifier: Apache-2.0
"""controller_manager of ros2_control, as its clients see it, with a user's controllers.yaml."""

from typing import Any

import pytest
from control_msgs.action import GripperCommand
from controller_manager_msgs.srv import (
    CleanupController,
    ConfigureController,
    ListControllers,
    ListControllerTypes,
    ListHardwareComponents,
    ListHardwareInterfaces,
    LoadController,
    ReloadControllerLibraries,
    SwitchController,
    UnloadController,
)
from joint_client import ARM, FINGERS, HOME, SUCCEEDED, JointClient, smooth
from ros_client import RosClient

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import suite_of
from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.core.robot.placement import parse_placements

pytestmark = pytest.mark.timeout(900)
BROADCASTER = "joint_state_broadcaster"
STRICT, BEST_EFFORT = SwitchController.Request.STRICT, SwitchController.Request.BEST_EFFORT
ARM_CONTROLLER, HAND = "panda_arm_controller", "panda_hand_controller"

CONTROLLERS = f"""
controller_manager:
  ros__parameters:
    update_rate: 100
    {ARM_CONTROLLER}:
      type: joint_trajectory_controller/JointTrajectoryController
    {HAND}:
      type: position_controllers/GripperActionController
    joint_state_broadcaster:
      type: joint_state_broadcaster/JointStateBroadcaster
{ARM_CONTROLLER}:
  ros__parameters:
    command_interfaces: [position]
    state_interfaces: [position, velocity]
    joints: [{", ".join(ARM)}]
    constraints:
      goal_time: 0.0
      {ARM[0]}: {{trajectory: 0.2, goal: 0.1}}
{HAND}:
  ros__parameters:
    joint: {FINGERS[0]}
unknown_node:
  ros__parameters:
    rate: 1.0
"""

MOVEIT = """
panda_arm:
  kinematics_solver: kdl_kinematics_plugin/KDLKinematicsPlugin
  kinematics_solver_timeout: 0.07
joint_limits:
  panda_joint1: {has_velocity_limits: true, max_velocity: 1.175}
  elbow: {has_velocity_limits: true, max_velocity: 1.0}
moveit_simple_controller_manager:
  controller_names: [panda_arm_controller, missing_controller]
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Parameter files as other systems have them."""
    folder = tmp_path_factory.mktemp("files")
    texts = {"controllers": CONTROLLERS, "moveit": MOVEIT}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return {name: folder / f"{name}.yaml" for name in texts}


@pytest.fixture(scope="module")
def arm(module_suite, module_client, files):
    """The controllers of a user's file."""
    module_suite.bring_up(
        "franka", without=ALONE, backend="mock", params_file=str(files["controllers"])
    )
    arm = JointClient(module_client, f"/{ARM_CONTROLLER}")
    module_client.wait_for_diagnosis("/joint_trajectory_controller", "holding")
    module_client.wait_for_diagnosis(f"/{HAND}", "holding")
    module_client.wait(lambda: len(arm.reports), "the state under the user's name")
    yield arm
    arm.close()


def ask(arm: JointClient, kind: Any, service: str, **fields: Any) -> Any:
    return arm.client.call(kind, f"/controller_manager/{service}", kind.Request(**fields))


def listed(arm: JointClient) -> dict[str, Any]:
    found = ask(arm, ListControllers, "list_controllers").controller
    return {entry.name: entry for entry in found}


def switch(arm: JointClient, stop: list[str], start: list[str], strictness: int = STRICT) -> bool:
    fields = {"deactivate_controllers": stop, "activate_controllers": start}
    return bool(ask(arm, SwitchController, "switch_controller", strictness=strictness, **fields).ok)


def test_list(arm):
    entries = arm.client.wait(
        lambda: (found := listed(arm)) and {ARM_CONTROLLER, HAND} <= found.keys() and found,
        "the controllers",
    )
    entry, hand = entries[ARM_CONTROLLER], entries[HAND]
    assert entry.type == "joint_trajectory_controller/JointTrajectoryController"
    assert hand.type == "position_controllers/GripperActionController"
    assert entry.state == hand.state == "active"
    assert sorted(entry.required_command_interfaces) == [f"{j}/position" for j in ARM]
    assert sorted(entry.claimed_interfaces) == sorted(entry.required_command_interfaces)
    assert {f"{j}/velocity" for j in ARM} <= set(entry.required_state_interfaces)
    assert set(hand.claimed_interfaces) == {f"{j}/position" for j in FINGERS}
    assert "joint_trajectory_controller" not in entries


def test_the_controllers_move(arm):
    goal = {j: HOME[j] + 0.1 for j in ARM}
    assert arm.follow(smooth(goal, 0.5)).result()[0] == SUCCEEDED
    arm.arrives(goal)
    command = GripperCommand.Goal()
    command.command.position = 0.02
    call = arm.send(command, GripperCommand, f"/{HAND}/gripper_cmd")
    assert call.result()[0] == SUCCEEDED
    arm.arrives(dict.fromkeys(FINGERS, 0.02))
    message = arm.states.newest
    assert set(message.name) == {*ARM, *FINGERS}
    assert len(message.position) == len(message.velocity) == len(message.name)


def test_switch(arm):
    assert not switch(arm, [ARM_CONTROLLER], ["no_controller"])
    assert listed(arm)[ARM_CONTROLLER].state == "active"
    assert switch(arm, [ARM_CONTROLLER, "no_controller"], [], BEST_EFFORT)
    entry = listed(arm)[ARM_CONTROLLER]
    assert (entry.state, list(entry.claimed_interfaces)) == ("inactive", [])
    assert listed(arm)[HAND].state == "active"
    assert switch(arm, [HAND], [ARM_CONTROLLER])
    assert listed(arm)[HAND].state == "inactive"
    assert switch(arm, [], [HAND])
    arm.client.wait_for_diagnosis("/joint_trajectory_controller", "holding")


def test_configure_and_cleanup(arm):
    for name in (HAND, "no_controller"):
        assert not ask(arm, ConfigureController, "configure_controller", name=name).ok
        assert not ask(arm, CleanupController, "cleanup_controller", name=name).ok
    assert switch(arm, [HAND], [])
    assert ask(arm, CleanupController, "cleanup_controller", name=HAND).ok
    assert listed(arm)[HAND].state == "unconfigured"
    assert not switch(arm, [], [HAND])
    assert ask(arm, ConfigureController, "configure_controller", name=HAND).ok
    assert switch(arm, [], [HAND])


def test_other_lists(arm):
    answer = ask(arm, ListControllerTypes, "list_controller_types")
    assert "joint_trajectory_controller/JointTrajectoryController" in answer.types
    assert len(answer.types) == len(answer.base_classes)
    hardware = ask(arm, ListHardwareInterfaces, "list_hardware_interfaces")
    claimed = {i.name for i in hardware.command_interfaces if i.is_claimed}
    assert {f"{j}/position" for j in (*ARM, *FINGERS)} <= claimed
    assert switch(arm, [HAND], [])
    hardware = ask(arm, ListHardwareInterfaces, "list_hardware_interfaces")
    claimed = {i.name for i in hardware.command_interfaces if i.is_claimed}
    assert {f"{j}/position" for j in ARM} <= claimed
    assert not {f"{j}/position" for j in FINGERS} & claimed
    assert switch(arm, [], [HAND])
    (component,) = ask(arm, ListHardwareComponents, "list_hardware_components").component
    assert (component.type, component.state.label) == ("system", "active")
    own = {i.name for i in component.command_interfaces}
    assert {f"{j}/position" for j in (*ARM, *FINGERS)} <= own
    measured = {i.name for i in component.state_interfaces}
    assert {f"{j}/{part}" for j in ARM for part in ("position", "velocity")} <= measured


def test_loading(arm):
    assert not ask(arm, LoadController, "load_controller", name=ARM_CONTROLLER).ok
    assert not ask(arm, UnloadController, "unload_controller", name=ARM_CONTROLLER).ok
    assert not ask(arm, ReloadControllerLibraries, "reload_controller_libraries").ok


def test_what_has_no_effect_is_named(files, tmp_path):
    config = BringupConfig(
        placements=parse_placements(["franka"]), backend="mock", viewer="none",
        params_file=";".join(str(file) for file in files.values()),
    )  # fmt: skip
    specs, notes = suite_of(config)
    by_name = {spec.name: spec.parameters for spec in specs}
    assert list(by_name["joint_trajectory_controller"]["joints"]) == ARM
    assert by_name["joint_trajectory_controller"]["constraints.goal_time"] == 0.0
    assert by_name["ik_service"]["kinematics_solver_timeout"] == 0.07
    for name in ("move_group", "trajectory_generator"):
        assert by_name[name]["other_controllers"] == [f"{HAND}={','.join(FINGERS)}"]
    assert by_name["move_group"]["joint_limits"] == ["panda_joint1.max_velocity=1.175"]
    text = "\n".join(notes)
    for name in (
        "unknown_node", "joint_limits of elbow", "kinematics_solver", "missing_controller",
        "joint_state_broadcaster",
    ):  # fmt: skip
        assert name in text
    # Only nodes read files that the parser of ROS accepts.
    assert all(spec.params_files == (str(files["controllers"]),) for spec in specs)
    spaced = tmp_path / "spaced.yaml"
    kind = "type: joint_trajectory_controller/JointTrajectoryController"
    spaced.write_text(
        f"a:\n  one: {{ros__parameters: {{{kind}, joints: [{ARM[0]}]}}}}\n"
        f"/**:\n  both: {{ros__parameters: {{{kind}, joints: [{ARM[1]}]}}}}\n"
    )
    config = BringupConfig(
        placements=parse_placements(["a:=franka", "b:=franka"]), backend="mock", viewer="none",
        params_file=str(spaced),
    )  # fmt: skip
    aliases = {
        spec.namespace: set(spec.parameters["aliases"])
        for spec in suite_of(config)[0]
        if spec.name == "joint_trajectory_controller"
    }
    assert aliases == {"a": {"one", "both"}, "b": {"both"}}


@pytest.fixture(scope="module")
def spawned(arm, module_suite, module_client):
    """A robot whose nodes wait to be configured, as controllers wait for a spawner."""
    unused = (*ALONE, "ik_service", "robot_state", "mock_sim")
    module_suite.bring_up("b:=franka", without=unused, backend="mock", autostart=False)
    assert module_client.change_state("/b/controller_manager", "configure")
    assert module_client.change_state("/b/controller_manager", "activate")
    return module_client


def spawn(
    client: RosClient, name: str = "joint_trajectory_controller", *, inactive: bool = False
) -> bool:
    """Call the services that the peer's spawner calls; return whether it succeeds."""
    root = "/b/controller_manager"
    found = client.call(ListControllers, f"{root}/list_controllers").controller
    assert name in [entry.name for entry in found], "loaded: the spawner does not load it"
    request = ConfigureController.Request(name=name)
    if not client.call(ConfigureController, f"{root}/configure_controller", request).ok:
        return False
    return inactive or switched(client, [], [name])


def switched(client: RosClient, stop: list[str], start: list[str]) -> bool:
    request = SwitchController.Request(
        deactivate_controllers=stop, activate_controllers=start, strictness=STRICT
    )
    service = "/b/controller_manager/switch_controller"
    return bool(client.call(SwitchController, service, request).ok)


def test_spawned_controllers(spawned):
    assert not switched(spawned, [], [BROADCASTER])
    assert spawn(spawned, BROADCASTER)
    assert not spawn(spawned, BROADCASTER)
    node, name = "/b/joint_trajectory_controller", "joint_trajectory_controller"
    assert spawned.state(node) == "unconfigured"
    assert not switched(spawned, [], [name])
    assert spawn(spawned, inactive=True)
    assert spawned.state(node) == "inactive"
    assert spawn(spawned)
    assert spawned.state(node) == "active"
    assert not spawn(spawned)
    assert spawned.state(node) == "active"
    assert switched(spawned, [name], [])
    assert spawn(spawned)
    assert spawned.state(node) == "active"
