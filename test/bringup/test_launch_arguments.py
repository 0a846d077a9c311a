# SPDX-License-Identifier: Apache-2.0
"""The launch file's arguments make the same configuration as the command line's."""

import importlib.util
from pathlib import Path

import pytest

from motion_nodes.bringup.arguments import ARGUMENTS, config_from
from motion_nodes.bringup.compose import nodes_for
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
        "namespace": "lab",
        "use_sim_time": "false",
        "params_file": str(LAUNCH_FILE),
        "autostart": "false",
        "log_level": "warn",
        "stamped_cmd_vel": "false",
        "floor": "false",
        "floor_height": "-0.2",
        "scene_bodies": "true",
    }
    # How processes are cut is the launch file's own matter.
    assert set(other) == {argument.name for argument in ARGUMENTS} - {"use_composition"}
    for name, value in other.items():
        assert config_from({name: value}) != config_from({}), name


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("backend", "gazebo", "backend 'gazebo' is not known"),
        ("autostart", "yes", "autostart 'yes' is not known"),
        ("viewer_port", "http", "viewer_port 'http' must be a number"),
        ("floor_height", "low", "floor_height 'low' must be a number"),
        ("floor_height", "nan", "floor_height nan m"),
        ("floor", "yes", "floor 'yes' is not known"),
        ("robot", " ; ", "no robot is named"),
        ("robot", "franka; jetbot", "give each robot its own"),
        ("robott", "franka", "Did you mean 'robot'"),
    ],
)
def test_wrong_arguments_are_told(name, value, text):
    with pytest.raises(InvalidConfig, match=text):
        config_from({name: value})


def test_the_launch_file_describes_every_argument_and_starts_all_nodes():
    pytest.importorskip("launch_ros", reason="launch_ros not installed")
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location("bringup_launch", LAUNCH_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    declared = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    assert [entity.name for entity in declared] == [argument.name for argument in ARGUMENTS]
    values = {a.name: a.default for a in ARGUMENTS}
    specs = nodes_for(config_from({}))
    alone = [spec for spec in specs if spec.stands_alone]
    # One process more says when they are ready.
    assert len(module.start(values)) == len(alone) + 2
    assert len(module.start(values | {"use_composition": "false"})) == len(specs) + 1
    assert len(module.start(values | {"autostart": "false"})) == len(alone) + 1
