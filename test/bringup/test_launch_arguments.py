# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch file: their effect on the configuration, and wrong ones."""

import importlib.util
from pathlib import Path

import pytest
from raised_errors import about

from motion_nodes.bringup.bringup_config import ARGUMENTS, config_from
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
    names = {argument.name for argument in ARGUMENTS} - {"use_composition", "respawn"}
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


def test_the_launch_file_describes_every_argument_and_starts_the_supervisor():
    pytest.importorskip("launch_ros", reason="launch_ros not installed")
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location("bringup_launch", LAUNCH_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    declared = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    assert [entity.name for entity in declared] == [argument.name for argument in ARGUMENTS]
    (supervisor,) = module.start({a.name: a.default for a in ARGUMENTS})
    words = [part.text for parts in supervisor.cmd for part in parts]
    assert words[2:] == [
        "motion_nodes.bringup.suite",
        *(f"{a.name}:={a.default}" for a in ARGUMENTS),
    ]
    with pytest.raises(InvalidConfig):
        module.start({"robot": "franka", "viewer": "none", "backend": "gazebo"})
