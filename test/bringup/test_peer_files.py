# SPDX-License-Identifier: Apache-2.0
"""Parameter files for ros2_controllers, Nav2 and Servo: what is used, and what is named."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from two_arms import write_two_arms

from motion_nodes.bringup import parameter_copies
from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import suite_of
from motion_nodes.bringup.node_specs import NodeSpec
from motion_nodes.bringup.parameter_copies import copy_of
from motion_nodes.bringup.parameter_files import read_parameter_files
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placement
from motion_nodes.core.robot.robot_yaml import CONTROLLERS
from motion_nodes.nodes import ackermann_base, differential_base, holonomic_base  # noqa: F401
from motion_nodes.ros.names import CONTROLLER_TYPES
from motion_nodes.ros.parameters import declared
from motion_nodes.ros.wheeled.wheeled_base_params import WheeledBaseParams

ARM = [f"panda_joint{i}" for i in range(1, 8)]
FINGERS = ["panda_finger_joint1"]


def suite(tmp_path: Path, robot: str, text: str) -> tuple[dict[str, NodeSpec], list[str]]:
    """Return the nodes by name, and the notes, of a robot with a parameter file."""
    file = tmp_path / "params.yaml"
    file.write_text(text)
    config = BringupConfig(
        placements=(parse_placement(robot),), backend="mock", viewer="none", params_file=str(file)
    )
    specs, notes = suite_of(config)
    return {spec.name: spec for spec in specs}, notes


def forward(name: str, interface: str, joints: list[str]) -> str:
    return (
        f"{name}:\n  ros__parameters:\n"
        "    type: forward_command_controller/ForwardCommandController\n"
        f"    joints: [{', '.join(joints)}]\n    interface_name: {interface}\n"
    )


def test_forward_commands_of_one_interface_set_the_control_mode(tmp_path):
    text = forward("arm_speeds", "velocity", ARM)
    specs, notes = suite(tmp_path, "franka", text)
    given = specs["joint_trajectory_controller"].parameters
    assert given["forward_commands"] == [f"arm_speeds=velocity:{','.join(ARM)}"]
    assert given["control_modes"][:7] == ["velocity"] * 7
    assert set(given["control_modes"][7:]) == {"position"}
    assert any("arm_speeds/commands" in note for note in notes)


@pytest.mark.parametrize("beside", ["position", "trajectories"])
def test_forward_commands_beside_others_keep_the_control_mode(tmp_path, beside):
    text = forward("arm_speeds", "velocity", ARM)
    if beside == "position":
        text += forward("arm_positions", "position", ARM)
    else:
        text += (
            "my_controller:\n  ros__parameters:\n"
            "    type: joint_trajectory_controller/JointTrajectoryController\n"
            f"    joints: [{', '.join(ARM)}]\n    command_interfaces: [position]\n"
        )
    given = suite(tmp_path, "franka", text)[0]["joint_trajectory_controller"].parameters
    assert "control_modes" not in given
    entries: Any = given["forward_commands"]
    assert entries[0].startswith("arm_speeds=velocity:")
    assert len(entries) == (2 if beside == "position" else 1)


def test_forward_commands_that_cannot_be_served_are_named(tmp_path):
    text = forward("bends", "acceleration", ARM) + forward("other", "position", ["joint1"])
    specs, notes = suite(tmp_path, "franka", text)
    assert "forward_commands" not in specs["joint_trajectory_controller"].parameters
    assert any(note.startswith("bends ") and "acceleration" in note for note in notes)
    assert any(note.startswith("other ") and "joint1" in note for note in notes)


@pytest.mark.parametrize(
    ("interfaces", "entry"),
    [("[position, velocity]", "both=position,velocity:panda_joint7"),
     ("[velocity]", "both=velocity:panda_joint7"), ("[position, effort]", "")],
)  # fmt: skip
def test_several_interfaces_of_one_joint(tmp_path, interfaces, entry):
    text = (
        "both:\n  ros__parameters:\n    joint: panda_joint7\n"
        "    type: forward_command_controller/MultiInterfaceForwardCommandController\n"
        f"    interface_names: {interfaces}\n"
    )
    specs, notes = suite(tmp_path, "franka", text)
    given = specs["joint_trajectory_controller"].parameters
    assert given.get("forward_commands", []) == ([entry] if entry else [])
    (note,) = (note for note in notes if note.startswith("both"))
    assert ("both/commands is served" if entry else "position, effort") in note
    modes: Any = given.get("control_modes", ["position"] * 7)
    assert modes[6] == ("velocity" if interfaces == "[velocity]" else "position")


def test_joints_of_chained_controllers_are_those_of_the_robot(tmp_path):
    text = (
        "my_base:\n  ros__parameters:\n    type: diff_drive_controller/DiffDriveController\n"
        "    left_wheel_names: [pid_left/left_wheel_joint]\n"
        "    right_wheel_names: [pid_right/right_wheel_joint]\n"
        "    wheel_separation: 0.1125\n    wheel_radius: 0.03\n"
    ) + forward("arm", "position", ["passthrough/first/panda_joint1"])
    specs, notes = suite(tmp_path, "jetbot", text)
    given = specs["diff_drive_controller"].parameters
    assert given["left_wheel_names"] == ["left_wheel_joint"]
    assert given["right_wheel_names"] == ["right_wheel_joint"]
    assert any(note.startswith("arm ") for note in notes)
    given = suite(tmp_path, "franka", text)[0]["joint_trajectory_controller"].parameters
    assert given["forward_commands"] == ["arm=position:panda_joint1"]


@pytest.mark.parametrize("robot", ["franka", "jetbot", "leatherback"])
def test_controllers_that_a_robot_cannot_have_are_named(tmp_path, robot):
    """A base of another kind, or wheels that it does not have, never end the suite."""
    text = (
        "omni:\n  ros__parameters:\n"
        "    type: omni_wheel_drive_controller/OmniWheelDriveController\n"
        "bicycle_steering_controller:\n  ros__parameters:\n"
        "    type: bicycle_steering_controller/BicycleSteeringController\n"
        "    traction_joints_names: [virtual_rear_wheel]\n"
        "    steering_joints_names: [virtual_front_wheel]\n"
    )
    specs, notes = suite(tmp_path, robot, text)
    assert any(note.startswith("omni has no effect") for note in notes), notes
    car = "bicycle_steering_controller"
    assert any(note.startswith(f"{car} has no effect") for note in notes), notes
    assert car not in specs
    for spec in specs.values():
        assert "traction_joints_names" not in spec.parameters


DRIVER_OF_UR = """
controller_manager:
  ros__parameters:
    update_rate: 500
    joint_trajectory_controller: {type: joint_trajectory_controller/JointTrajectoryController}
    scaled_joint_trajectory_controller: {type: ur_controllers/ScaledJointTrajectoryController}
    force_mode_controller: {type: ur_controllers/ForceModeController}
joint_trajectory_controller: {ros__parameters: {joints: [JOINTS], command_interfaces: [position]}}
scaled_joint_trajectory_controller:
  ros__parameters: {joints: [JOINTS], command_interfaces: [position]}
"""


def test_controllers_beside_the_usual_one_are_listed_with_it_and_unknown_types_named(tmp_path):
    """As in the file of the driver of Universal Robots, with two names of one controller."""
    specs, notes = suite(tmp_path, "franka", DRIVER_OF_UR.replace("JOINTS", ", ".join(ARM)))
    aliases: Any = specs["controller_manager"].parameters["aliases"]
    both = ("scaled_joint_trajectory_controller", "joint_trajectory_controller")
    kind = "ur_controllers/ScaledJointTrajectoryController"
    assert f"{both[0]}=joint_trajectory_controller:{kind}" == aliases[0]
    assert f"{both[1]}=joint_trajectory_controller" in aliases
    unknown = [note for note in notes if note.startswith("force_mode_controller ")]
    assert unknown == [
        "force_mode_controller has no effect: the suite has no ur_controllers/ForceModeController"
    ]


def test_parameters_of_nav2_are_used_or_named(tmp_path):
    text = (
        "controller_server:\n  ros__parameters:\n    controller_frequency: 20.0\n"
        "    controller_plugins: [Follow]\n    Follow: {max_vel_x: 0.05, max_vel_theta: 99}\n"
        "    speed_limit_topic: /zone/speed_limit\n"
        "    goal_checker_plugins: [checker]\n    progress_checker_plugins: [progress]\n"
        "    checker: {plugin: 'nav2_controller::SimpleGoalChecker', xy_goal_tolerance: 1,\n"
        "              yaw_goal_tolerance: 0.5}\n"
        "    progress: {required_movement_radius: 0.25, movement_time_allowance: 12.0}\n"
        "waypoint_follower: {ros__parameters: {stop_on_failure: false, loop_rate: 20}}\n"
        "planner_server:\n  ros__parameters:\n    planner_plugins: [Grid]\n"
        "    Grid: {tolerance: 0.5, allow_unknown: false}\n"
        "velocity_smoother: {ros__parameters: {max_velocity: [0.5, 0.0, 2.0]}}\n"
    )
    specs, notes = suite(tmp_path, "jetbot", text)
    given = dict(specs["base_navigator"].parameters)
    expected = {
        "xy_goal_tolerance": 1.0, "yaw_goal_tolerance": 0.5, "required_movement_radius": 0.25,
        "movement_time_allowance": 12.0, "stop_on_failure": False, "planner.tolerance": 0.5,
        "planner.allow_unknown": False, "linear.x.max_velocity": 0.05,
        "angular.z.max_velocity": load_robot("jetbot").base.angular.z.max_velocity,
        "speed_limit_topic": "/zone/speed_limit",
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected
    assert isinstance(given["xy_goal_tolerance"], float)
    for node in ("controller_server", "waypoint_follower", "planner_server", "velocity_smoother"):
        assert any(f"'/{node}'" in note for note in notes)
    # A robot without a base has no navigator.
    notes = suite(tmp_path, "franka", text)[1]
    assert sum("no such node" in note for note in notes) == 4


@pytest.mark.parametrize("form", ["file of MoveIt", "section of servo_node"])
def test_parameters_of_servo_are_used_or_named(tmp_path, form):
    values = {
        "command_in_type": "speed_units", "incoming_command_timeout": "0.25",
        "scale": "{linear: 1, rotational: 0.5, joint: 0.75}", "joint_limit_margins": "[0.1]",
        "publish_period": "0.01", "check_collisions": "true", "something": "3",
    }  # fmt: skip
    if form == "file of MoveIt":
        text = "".join(f"{name}: {value}\n" for name, value in values.items())
    else:
        text = "servo_node:\n  ros__parameters:\n    moveit_servo:\n" + "".join(
            f"      {name}: {value}\n" for name, value in values.items()
        )
    specs, notes = suite(tmp_path, "franka", text)
    given = specs["rmpflow_policy"].parameters
    expected = {
        "servo.command_in_type": "speed_units", "servo.incoming_command_timeout": 0.25,
        "servo.scale.linear": 1.0, "servo.scale.rotational": 0.5, "servo.scale.joint": 0.75,
        "joint_limit_buffers": [0.1],
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected
    for name in ("publish_period", "check_collisions", "something"):
        assert any(name in note and "no effect" in note for note in notes)
    for name in ("command_in_type", "scale.linear"):
        assert not any(name in note for note in notes)


def test_the_max_speed_of_pilz_is_used(tmp_path):
    text = "cartesian_limits: {max_trans_vel: 1, max_trans_acc: 2.0, max_rot_vel: 1.5}\n"
    specs, notes = suite(tmp_path, "franka", text)
    assert specs["move_group"].parameters["cartesian_limits.max_trans_vel"] == 1.0
    (note,) = notes
    assert "cartesian_limits.max_trans_acc, cartesian_limits.max_rot_vel have no effect" in note


LIMITS = """
panda_joint1: {has_velocity_limits: true, max_velocity: 0.5,
               has_acceleration_limits: false, max_acceleration: 0.1}
panda_joint2: {has_velocity_limits: true, max_velocity: 50.0,
               has_acceleration_limits: true, max_acceleration: 1}
panda_joint3: {max_position: 1.0, has_jerk_limits: true, max_jerk: 100.0}
elbow: {has_velocity_limits: true, max_velocity: 1.0}
"""


@pytest.mark.parametrize("above", [
    ["joint_limits"],
    ["move_group", "ros__parameters", "robot_description_planning", "joint_limits"],
    ["/**", "ros__parameters", "robot_description_planning", "joint_limits"],
])  # fmt: skip
def test_limits_of_joints_lower_those_of_planned_motions(tmp_path, above):
    data: Any = yaml.safe_load(LIMITS)
    for name in reversed(above):
        data = {name: data}
    specs, notes = suite(tmp_path, "franka", yaml.safe_dump(data))
    assert specs["move_group"].parameters["joint_limits"] == [
        "panda_joint1.max_velocity=0.5", "panda_joint2.max_acceleration=1.0",
        "panda_joint3.max_jerk=100.0",
    ]  # fmt: skip
    told = "; ".join(notes)
    for words in ("joint2.max_velocity have no effect: limits of the robot are lower",
                  "elbow have no effect", "joint3.max_position have no effect"):  # fmt: skip
        assert words in told


def test_repeated_names_of_a_file_are_read_as_by_ros(tmp_path):
    """The last value counts and blocks are joined; vendors' files rely on it."""
    text = (
        "/**:\n  my_base:\n    ros__parameters:\n"
        "      type: diff_drive_controller/DiffDriveController\n"
        "      left_wheel_names: [left_wheel_joint]\n      wheel_radius: 1.0\n"
        "      linear.x: {max_velocity: 0.1, max_jerk: 3.0}\n      wheel_radius: 0.03\n"
        "/**:\n  my_base:\n    ros__parameters:\n"
        "      right_wheel_names: [right_wheel_joint]\n      linear.x: {max_velocity: 0.2}\n"
    )
    given = suite(tmp_path, "jetbot", text)[0]["diff_drive_controller"].parameters
    assert given["aliases"] == ["my_base"]
    assert given["wheel_radius"] == 0.03
    assert (given["linear.x.max_velocity"], given["linear.x.max_jerk"]) == (0.2, 3.0)
    assert given["left_wheel_names"] == ["left_wheel_joint"]
    assert given["right_wheel_names"] == ["right_wheel_joint"]
    assert not suite(tmp_path, "jetbot", "# nothing\n")[1]


TRAJECTORIES = """
controller_manager:
  ros__parameters:
    scaled_joint_trajectory_controller:
      type: ur_controllers/ScaledJointTrajectoryController
"""


@pytest.mark.parametrize("name", ["joint_trajectory_controller",
                                  "scaled_joint_trajectory_controller"])  # fmt: skip
@pytest.mark.parametrize("space", ["", "/**/"])
def test_variables_of_launch_files_are_empty(tmp_path, name, space):
    robot = load_robot("ur5e")
    joints = ", ".join(f'"$(var prefix){joint}"' for joint in robot.group("arm").joints)
    text = TRAJECTORIES + (
        f"{space}{name}:\n  ros__parameters:\n    joints: [{joints}]\n"
        "    command_interfaces: [position]\n    empty: []\n"
        '    constraints: {"$(var prefix)elbow_joint": {goal: 0.25}}\n'
    )
    specs, notes = suite(tmp_path, "ur5e", text)
    assert any("$(var prefix)" in note and "empty" in note for note in notes)
    assert not any("no joint" in note for note in notes)
    given = dict(specs["joint_trajectory_controller"].parameters)
    if name != "joint_trajectory_controller":
        assert given["aliases"] == [name]
    else:
        (file,) = specs["joint_trajectory_controller"].params_files
        (section,) = (s for s in read_parameter_files([file]).sections if s.node.endswith(name))
        given = dict(section.values)
    assert given["joints"] == list(robot.group("arm").joints)
    assert given["constraints.elbow_joint.goal"] == 0.25


@pytest.mark.parametrize(("robot", "name", "values"), [
    ("fr3", "joint_trajectory_controller", {"joints": ["panda_joint1"]}),
    ("jetbot", "diff_drive_controller", {"left_wheel_names": ["wheel"]}),
    ("kaya", "mecanum_drive_controller", {"front_left_wheel_command_joint_name": "wheel"}),
    ("leatherback", "ackermann_steering_controller", {"traction_joints_names": ["wheel"]}),
])  # fmt: skip
def test_a_section_with_joints_of_another_robot_ends_no_node(tmp_path, robot, name, values):
    """Also that of a node that the suite has by this very name, which reads the file itself."""
    data = {name: {"ros__parameters": values | {"update_rate": 50}},
            "base_navigator": {"ros__parameters": {"xy_goal_tolerance": 0.2}}}  # fmt: skip
    specs, notes = suite(tmp_path, robot, yaml.safe_dump(data))
    told = [note for note in notes if "no joint" in note or "has no effect" in note]
    assert any(f"robot '{robot}'" in note for note in told)
    for spec in specs.values():
        (file,) = spec.params_files
        nodes = [s.node for s in read_parameter_files([file]).sections]
        assert nodes == ["/base_navigator"]


def test_joints_of_chained_controllers_in_a_section_of_a_node(tmp_path):
    values = {"left_wheel_names": ["pid/left_wheel_joint"],
              "right_wheel_names": ["pid/right_wheel_joint"]}  # fmt: skip
    data = {"diff_drive_controller": {"ros__parameters": values}}
    (file,) = suite(tmp_path, "jetbot", yaml.safe_dump(data))[0]["robot_state"].params_files
    (section,) = read_parameter_files([file]).sections
    assert section.values["left_wheel_names"] == ["left_wheel_joint"]


@pytest.mark.parametrize("node", ["/**", "platform", "diff_drive_controller"])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_suite_has_one_clock(tmp_path, node, simulated):
    """Nodes of a simulation that follow the wall clock stamp commands far ahead of it."""
    values = {"use_sim_time": simulated, "odom_frame_id": "odometry"}
    if node == "platform":
        values |= {"type": "diff_drive_controller/DiffDriveController"}
    specs, notes = suite(tmp_path, "jetbot", yaml.safe_dump({node: {"ros__parameters": values}}))
    assert any("use_sim_time" in note for note in notes) != simulated
    base = specs["diff_drive_controller"]
    (file,) = base.params_files
    (section,) = read_parameter_files([file]).sections
    assert section.values.get("use_sim_time", True)
    assert base.parameters["use_sim_time"]
    assert "odometry" in (section.values["odom_frame_id"], base.parameters.get("odom_frame_id"))


@pytest.mark.parametrize("bands", [[0.1, 0.0, 0.2], [0.1, 0.0, 0.0, 0.0, 0.0, 0.2]])
def test_the_dead_band_of_a_velocity_smoother(tmp_path, bands):
    values = {"deadband_velocity": bands, "smoothing_frequency": 20.0}
    data = {"velocity_smoother": {"ros__parameters": values}}
    specs, notes = suite(tmp_path, "jetbot", yaml.safe_dump(data))
    assert specs["diff_drive_controller"].parameters["deadband_velocity"] == [0.1, 0.0, 0.2]
    assert any("is used for deadband_velocity; the rest" in note for note in notes)


def test_a_simulation_starts_at_initial_positions(tmp_path):
    data = {"initial_positions": {"panda_joint1": 0.5, "panda_joint4": -2, "panda_joint2": 9.0,
                                  "elbow": 0.1}}  # fmt: skip
    specs, notes = suite(tmp_path, "a:=franka", yaml.safe_dump(data))
    given = specs["mock_sim"].parameters["initial_positions"]
    assert given == ["a/panda_joint1=0.5", "a/panda_joint4=-2.0"]
    (note,) = notes
    assert "panda_joint2, elbow have no effect" in note or "elbow, panda_joint2" in note


@pytest.mark.parametrize("named", [False, True])
def test_sensors_of_the_octomap_are_mapped(tmp_path, named):
    cloud = {
        "sensor_plugin": "occupancy_map_monitor/PointCloudOctomapUpdater",
        "point_cloud_topic": "/camera/points",
        "max_range": 3.0,
        "padding_offset": 0.1,
    }
    image = {"sensor_plugin": "occupancy_map_monitor/DepthImageOctomapUpdater",
             "image_topic": "/depth/image", "far_clipping_plane_distance": 2}  # fmt: skip
    data: dict[str, Any] = {"sensors": ["one", "two"], "one": cloud, "two": image}
    specs, notes = suite(tmp_path, "franka", yaml.safe_dump(
        data if named else {"sensors": [cloud, image]}
    ))  # fmt: skip
    given = specs["occupancy_mapper"].parameters
    assert given["point_clouds"] == ["/camera/points"]
    assert given["depth_images"] == ["/depth/image"]
    assert given["max_range"] == 3.0
    assert any("reads /camera/points; padding_offset have no effect" in note for note in notes)
    assert not any("no such setting" in note for note in notes)
    assert "occupancy_mapper" not in suite(tmp_path, "franka", "sensors: []\n")[0]


@pytest.mark.parametrize(
    ("cache", "temporary"), [("cache", "tmp"), ("/proc/nothing", "tmp"), ("/proc/nothing", "")]
)
def test_copies_are_written_once_into_a_private_folder(tmp_path, monkeypatch, cache, temporary):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / cache))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not temporary:
        monkeypatch.setattr(parameter_copies, "writable_folder", lambda: None)
    sections = [("/a/b", {"x.y": 1e-7, "none": None, "empty": [], "text": "1.0", "on": True})]
    file = copy_of("some/params.yaml", sections)
    (section,) = read_parameter_files([file]).sections
    assert (section.node, dict(section.values)) == (
        "/a/b", {"x.y": 1e-7, "text": "1.0", "on": True},
    )  # fmt: skip
    again = copy_of("some/params.yaml", sections)
    assert (again == file) == bool(temporary)
    assert Path(file).is_relative_to(tmp_path)
    assert Path(file).parent.stat().st_mode & 0o077 == 0


def test_a_file_without_need_is_read_itself(tmp_path):
    data = {"diff_drive_controller": {"ros__parameters": {"wheel_radius": 0.04}}}
    specs, _ = suite(tmp_path, "jetbot", yaml.safe_dump(data))
    assert {spec.params_files for spec in specs.values()} == {(str(tmp_path / "params.yaml"),)}


def test_a_parameter_named_type_of_another_node_is_no_controller(tmp_path):
    _, notes = suite(tmp_path, "jetbot", "filter:\n  ros__parameters: {type: 1}\n")
    (note,) = notes
    assert "no such node" in note


@pytest.mark.parametrize("kind", WheeledBaseParams.__subclasses__(), ids=lambda kind: kind.__name__)
def test_names_of_peers_without_effect_are_no_parameters_of_bases(kind):
    assert not set(kind.WITHOUT_EFFECT) & {entry.name for entry in declared(kind)}


@pytest.mark.parametrize("kind", CONTROLLERS["ackermann"][1:])
def test_the_type_of_a_base_selects_its_names_of_parameters(tmp_path, kind):
    """A timeout of tricycle_controller is in milliseconds, whatever the section is called."""
    text = (
        f"controller_manager:\n  ros__parameters:\n    car: {{type: {CONTROLLER_TYPES[kind]}}}\n"
        "car:\n  ros__parameters:\n    cmd_vel_timeout: 500\n"
    )
    specs, _ = suite(tmp_path, "leatherback", text)
    assert specs[kind].parameters["aliases"] == ["car"]
    assert specs["base_navigator"].parameters["base_controller"] == kind
    aliases: Any = specs["controller_manager"].parameters["aliases"]
    assert f"car={kind}" in aliases


def test_a_base_is_also_served_under_the_name_of_the_file(tmp_path):
    text = (
        "platform_velocity_controller:\n  ros__parameters:\n"
        "    type: diff_drive_controller/DiffDriveController\n"
        "    left_wheel_names: [left_wheel_joint]\n    right_wheel_names: [right_wheel_joint]\n"
        "    wheel_separation: 0.1125\n    wheel_radius: 0.03\n"
    )
    for name in ("platform_velocity_controller", "diff_drive_controller"):
        specs, notes = suite(tmp_path, "jetbot", text.replace("platform_velocity_controller", name))
        own = name == "diff_drive_controller"
        given = specs["diff_drive_controller"].parameters
        assert given.get("aliases", []) == ([] if own else [name])
        assert any(note.startswith(name) and "odometry" in note for note in notes) != own


GRIPPERS = """
left_hand:
  ros__parameters: {type: position_controllers/GripperActionController, joint: left_FINGER}
right_hand:
  ros__parameters:
    type: parallel_gripper_action_controller/GripperActionController
    joint: right_FINGER
""".replace("FINGER", FINGERS[0])


def test_each_hand_of_two_arms_has_the_controller_of_its_joint(tmp_path):
    folder = write_two_arms(tmp_path)
    joints = [f"{side}_{joint}" for side in ("left", "right") for joint in ARM]
    arms = (
        "arms:\n  ros__parameters:\n    type: joint_trajectory_controller/"
        f"JointTrajectoryController\n    joints: [{', '.join(joints)}]\n"
    )
    specs, notes = suite(tmp_path, str(folder), arms + GRIPPERS)
    hands = {name: load_robot(folder).group(f"{name}_gripper").joints for name in ("left", "right")}
    for side, key in (("left", "gripper.aliases"), ("right", "gripper.parallel_aliases")):
        given = dict(specs[f"{side}_hand"].parameters)
        assert (tuple(given["joints"]), given[key]) == (hands[side], [f"{side}_hand"])
    assert list(specs["joint_trajectory_controller"].parameters["joints"]) == joints
    assert specs["move_group"].parameters["other_controllers"] == [
        f"{side}_hand={','.join(joints)}" for side, joints in hands.items()
    ]
    listed: Any = specs["controller_manager"].parameters["aliases"]
    for side, kind in (
        ("left", "position_controllers"),
        ("right", "parallel_gripper_action_contr"),
    ):
        assert any(entry.startswith(f"{side}_hand={side}_hand:{kind}") for entry in listed)
    # Without a list of joints for trajectories, these have the fingers, and a grip names no joint.
    specs, notes = suite(tmp_path, str(folder), GRIPPERS)
    assert "left_hand" not in specs
    assert all(any(f"{side}_hand has no effect" in n for n in notes) for side in hands)


@pytest.mark.parametrize(
    ("kind", "key"),
    [("position_controllers", "gripper.aliases"), ("effort_controllers", "gripper.aliases"),
     ("parallel_gripper_action_controller", "gripper.parallel_aliases")],
)  # fmt: skip
def test_the_action_of_a_hand_has_the_type_of_its_controller(tmp_path, kind, key):
    text = (
        f"hand: {{ros__parameters: {{type: {kind}/GripperActionController, joint: {FINGERS[0]}}}}}"
    )
    given = suite(tmp_path, "franka", text)[0]["joint_trajectory_controller"].parameters
    assert given[key] == ["hand"]
    assert len([name for name in given if name.endswith("aliases")]) == 1
    notes = suite(tmp_path, "ur5e", text.replace(FINGERS[0], "elbow_joint"))[1]
    assert any(note.startswith("hand has no effect") for note in notes)
