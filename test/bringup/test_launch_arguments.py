# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch file: their effect on the configuration, and wrong ones."""

import importlib.util
import json
from pathlib import Path

import pytest
from raised_errors import about

from motion_nodes.bringup.bringup_config import ARGUMENTS, config_from
from motion_nodes.bringup.node_specs import NodeSpec, with_arguments
from motion_nodes.errors import InvalidConfig

LAUNCH_FILE = Path(__file__).parents[2] / "launch" / "bringup.launch.py"


def test_defaults_bring_up_a_franka():
    config = config_from({})
    assert [place.robot for place in config.placements] == ["franka"]
    assert config.sim_time
    assert config.autostart


def test_every_argument_has_an_effect():
    other = {
        "robot": "a:=jetbot; b:=franka@1,0,0",
        "backend": "hardware",
        "viewer": "none",
        "viewer_port": "9000",
        "viewer_host": "0.0.0.0",
        "namespace": "lab",
        "use_sim_time": "false",
        "params_file": str(LAUNCH_FILE),
        "autostart": "false",
        "log_level": "warn",
        "stamped_cmd_vel": "false",
        "floor": "false",
        "floor_height": "-0.2",
        "scene_bodies": "true",
        "suction": "true",
        "objects": "box:=box:0.1,0.1,0.1:1.5@1,0,0.05; ball:=sphere:0.05:0.1@1,1,0.05",
        "cameras": "camera:=panda_link0@1,0,1",
        "detect": "true",
        "policy": "go2",
        "tasks": "true",
        "empty": "true",
    }
    real = {
        "driver": "feetech",
        "device": "/dev/ttyACM0",
        "calibration": "arm.json",
        "dry_run": "true",
        "speed": "0.1",
    }
    # Processes and restarts are not part of the configuration.
    names = {a.name for a in ARGUMENTS} - {"use_composition", "respawn", "supervised"}
    assert {*other, *real} == names
    for name, value in other.items():
        assert config_from({name: value}) != config_from({}), name
    hardware = {"robot": "so101", "backend": "hardware"}
    for name, value in real.items():
        assert config_from(hardware | {name: value}) != config_from(hardware), name
        with pytest.raises(InvalidConfig):
            config_from({name: value})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("backend", "gazebo", "backend"),
        ("autostart", "yes", "autostart"),
        ("viewer_port", "http", "viewer_port"),
        ("floor_height", "low", "floor_height"),
        ("floor_height", "nan", "floor_height"),
        ("floor", "yes", "floor"),
        ("robot", " ; ", "robot"),
        ("robot", "franka; jetbot", "namespace"),
        ("robott", "franka", "robott"),
    ],
)
def test_wrong_arguments_are_told(name, value, text):
    with pytest.raises(InvalidConfig, check=about(text)):
        config_from({name: value})


def test_remappings_reach_the_topics_of_robots_also_in_nodes_outside_their_namespace():
    simulation, own, _ = with_arguments(
        [
            NodeSpec("mock_sim", "mock_sim"),
            NodeSpec("ik_service", "ik", "lab/a"),
            NodeSpec("x", "y"),
        ],
        ["-r", "joint_states:=js", "-r", "/b:=/c", "-p", "rate:=1"],
    )
    assert simulation.ros_args()[1:9] == [
        "-r", "joint_states:=js", "-r", "/b:=/c", "-p", "rate:=1",
        "-r", "lab/a/joint_states:=lab/a/js",
    ]  # fmt: skip
    assert own.ros_args()[7:9] == ["-r", "__node:=ik"]


# ---- where launch_ros can be imported


def actions_of(values, **outer):
    """Return the actions of the launch file in the context of an including one."""
    pytest.importorskip("launch_ros", reason="launch_ros not installed")
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location("bringup_launch", LAUNCH_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    declared = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    assert [entity.name for entity in declared] == [argument.name for argument in ARGUMENTS]
    context = LaunchContext()
    given = {a.name: a.default for a in ARGUMENTS} | {"backend": "mock", "viewer": "none"} | values
    context.launch_configurations.update(given | outer)
    return description.entities[-1].execute(context), context


def test_each_process_is_an_action_with_name_namespace_parameters_and_remappings():
    actions, context = actions_of(
        {"robot": "a:=jetbot", "use_composition": "false", "respawn": "false"},
        ros_namespace="/lab", ros_remaps=[("odom", "wheel_odom")],
        global_params=[("update_rate", 20.0)],
    )  # fmt: skip
    found = {}
    for action in actions:
        action._perform_substitutions(context)
        found[action.node_name] = action
    assert set(found) >= {"/mock_sim", "/lab/a/diff_drive_controller", "/lab/a/base_navigator"}
    base = found["/lab/a/diff_drive_controller"]
    assert base.node_executable == "differential_base"
    assert base.expanded_remapping_rules == [("odom", "wheel_odom")]
    simulation = found["/mock_sim"].expanded_remapping_rules
    assert simulation == [("odom", "wheel_odom"), ("lab/a/odom", "lab/a/wheel_odom")]
    words = ["".join(part.perform(context) for part in parts) for parts in base.cmd[1:3]]
    assert words == ["--ros-args", "--log-level"]


def test_containers_get_what_the_including_file_sets():
    actions, context = actions_of({}, ros_remaps=[("joint_states", "js")],
                                  global_params=[("update_rate", 20.0)])  # fmt: skip
    container = next(a for a in actions if getattr(a, "node_executable", "") == "container")
    nodes = json.loads("".join(part.perform(context) for part in container.cmd[2]))
    shared = ["--ros-args", "-r", "joint_states:=js", "-p", "update_rate:=20.0"]
    assert all(node["ros_args"][:5] == shared for node in nodes)


@pytest.mark.parametrize("respawn", ["true", "false"])
def test_replaced_processes_end_when_they_hang(respawn):
    actions, context = actions_of({"robot": "a:=jetbot", "respawn": respawn})
    for action in (each for each in actions if hasattr(each, "node_executable")):
        set_here = {
            "".join(part.perform(context) for part in name): "".join(p.text for p in value)
            for name, value in action.additional_env
        }
        assert set_here.get("MOTION_NODES_WATCHDOG") == ("10" if respawn == "true" else None)


@pytest.mark.parametrize(
    "values", [{"supervised": "true"}, {"robot": "so101", "backend": "hardware"}]
)
def test_the_supervisor_is_one_action_and_the_default_of_real_robots(values):
    (supervisor,), _ = actions_of(values, ros_remaps=[("joint_states", "js")])
    words = [part.text for parts in supervisor.cmd for part in parts]
    assert words[2] == "motion_nodes.bringup.suite"
    assert words[-3:] == ["--ros-args", "-r", "joint_states:=js"]
    with pytest.raises(InvalidConfig):
        actions_of({"backend": "gazebo"})
