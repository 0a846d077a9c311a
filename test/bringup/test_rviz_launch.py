# SPDX-License-Identifier: Apache-2.0
"""Tools started by the launch files for RViz; these files and that for several robots load."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pytest
from raised_errors import about

from motion_nodes.bringup.bringup_config import CELL_ARGUMENTS
from motion_nodes.bringup.rviz_view import PANEL_ARGUMENTS, VIEW_ARGUMENTS, panel_tools, view_tools
from motion_nodes.core.robot.files.srdf_file import srdf_of
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidConfig, RobotNotFound, UnknownGroup

ROOT = Path(__file__).parents[2]
RVIZ = ROOT / "config" / "rviz"


@pytest.fixture(autouse=True)
def _written_here(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def frame_of(tool: Any) -> str:
    config = read_yaml(Path(tool.arguments[tool.arguments.index("-d") + 1]))
    return config["Visualization Manager"]["Global Options"]["Fixed Frame"]


def test_one_robot_is_one_window():
    (rviz,) = view_tools({"robot": "ur10e", "use_sim_time": "false"}, RVIZ)
    assert (rviz.package, rviz.executable, rviz.namespace) == ("rviz2", "rviz2", "")
    assert rviz.parameters == {"use_sim_time": False}
    assert frame_of(rviz) == "base_link"


def test_several_robots_stand_in_the_world_where_they_were_placed():
    rviz, *frames = view_tools({"robot": "a:=jetbot@0,-1,0.5; b:=franka@1,0,0"}, RVIZ)
    assert frame_of(rviz) == "world"
    told = [dict(zip(f.arguments[::2], f.arguments[1::2], strict=True)) for f in frames]
    assert [(t["--frame-id"], t["--child-frame-id"]) for t in told] == [
        ("world", "a/odom"),
        ("world", "b/panda_link0"),
    ]
    assert (told[0]["--x"], told[0]["--y"], told[0]["--yaw"]) == ("0.0", "-1.0", "0.5")


def test_the_panel_gets_kinematics_for_every_name_of_its_groups():
    (rviz,) = panel_tools({"robot": "franka"}, RVIZ)
    kinematics = rviz.parameters["robot_description_kinematics"]
    chains = {
        group.name
        for group in srdf_of(load_robot("franka"), ()).groups
        if group.chains or "arm" in group.groups
    }
    assert chains <= set(kinematics)
    assert all(entry["kinematics_solver"].count("/") == 1 for entry in kinematics.values())


def test_the_panel_works_within_the_robots_namespace():
    rviz, frame = panel_tools({"robot": "left:=franka", "group": "panda_arm"}, RVIZ)
    assert rviz.namespace == "left", "the namespace of robot_description"
    assert frame_of(rviz) == "panda_link0"
    assert frame.arguments[-4:] == (
        "--frame-id", "left/panda_link0", "--child-frame-id", "panda_link0",
    )  # fmt: skip


def test_your_own_configuration_is_taken_as_it_is(tmp_path):
    own = tmp_path / "own.rviz"
    own.write_text("Panels: []\n")
    (rviz,) = view_tools({"rviz_config": str(own)}, RVIZ)
    assert str(own) in rviz.arguments
    assert own.read_text() == "Panels: []\n"


@pytest.mark.parametrize(
    ("make", "values", "words"),
    [
        (view_tools, {"robt": "franka"}, "robt"),
        (view_tools, {"use_sim_time": "yes"}, "use_sim_time"),
        (view_tools, {"robot": "franka; jetbot"}, "namespace"),
        (view_tools, {"rviz_config": "gone.rviz"}, "rviz_config"),
        (panel_tools, {"robot": "a:=franka; b:=franka"}, "robot"),
        (panel_tools, {"robot": "jetbot"}, "robot"),
        (panel_tools, {"group": "gripper"}, "group"),
        (panel_tools, {"group": "leg"}, "leg"),
    ],
)
def test_wrong_arguments_are_told(make, values, words):
    with pytest.raises((InvalidConfig, UnknownGroup), check=about(words)):
        make(values, RVIZ)


def test_a_robot_that_there_is_not():
    with pytest.raises(RobotNotFound, check=about("frnka")):
        view_tools({"robot": "frnka"}, RVIZ)


# ---- launch files, where launch_ros is installed


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "launch" / f"{name}.launch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "arguments", "values", "count"),
    [
        ("view", VIEW_ARGUMENTS, {}, 1),
        ("view", VIEW_ARGUMENTS, {"robot": "a:=jetbot; b:=franka"}, 3),
        ("moveit_rviz", PANEL_ARGUMENTS, {"robot": "left:=franka"}, 2),
        ("multi_robot", CELL_ARGUMENTS, {}, 1),
        ("multi_robot", CELL_ARGUMENTS, {"rviz": "true", "namespace": "lab"}, 2),
    ],
)
def test_launch_files_describe_their_arguments_and_build(name, arguments, values, count):
    pytest.importorskip("launch_ros", reason="launch_ros not installed")
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription

    module = loaded(name)
    description = module.generate_launch_description()
    declared = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    assert [e.name for e in declared] == [a.name for a in arguments]
    for entity, argument in zip(declared, arguments, strict=True):
        assert argument.description in entity.description
        assert list(argument.choices) == list(entity.choices or ())
    context = LaunchContext()
    given = {a.name: a.default for a in arguments} | values
    context.launch_configurations.update(given)
    actions = description.entities[-1].execute(context)
    assert len(actions) == count
    for action in actions:
        if isinstance(action, IncludeLaunchDescription):
            # The included file declares and checks its arguments.
            assert action.visit(context)
