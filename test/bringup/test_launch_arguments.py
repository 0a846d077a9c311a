# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch files, for the suite and for RViz."""

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from raised_errors import about

from motion_nodes.bringup.bringup_config import ARGUMENTS, CELL_ARGUMENTS, config_from
from motion_nodes.bringup.node_specs import NodeSpec, with_arguments
from motion_nodes.bringup.rviz_view import PANEL_ARGUMENTS, VIEW_ARGUMENTS, panel_tools, view_tools
from motion_nodes.core.robot.files.srdf_file import srdf_of
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidConfig, RobotNotFound, UnknownGroup

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
def test_wrong_arguments_are_told_of_rviz_launch(make, values, words):
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
