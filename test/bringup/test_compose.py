# SPDX-License-Identifier: Apache-2.0
"""Nodes and processes of a suite by robots and settings, and their command lines."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from raised_errors import about

import motion_nodes
from motion_nodes.bringup.bringup_config import LOG_LEVELS, BringupConfig, HardwareOptions
from motion_nodes.bringup.compose import BASES_RATE, nodes_for, omissions, suite_of
from motion_nodes.bringup.node_specs import (
    ROBOTS_PER_CONTAINER,
    NodeSpec,
    commands_for,
    processes_for,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placement, parse_placements
from motion_nodes.errors import InvalidConfig, RobotNotFound
from motion_nodes.nodes.registry import NODES


def config(*robots, **settings):
    return BringupConfig(placements=parse_placements(robots), **settings)


def names(*robots, **settings):
    return [spec.full_name for spec in nodes_for(config(*robots, **settings))]


def test_an_arm_gets_joint_control_and_no_base():
    assert names("franka") == [
        "/mujoco_sim",
        "/robot_state",
        "/joint_trajectory_controller",
        "/ik_service",
        "/rmpflow_policy",
        "/trajectory_generator",
        "/controller_manager",
        "/move_group",
        "/browser_viewer",
    ]


def test_a_base_without_other_joints_gets_no_joint_control():
    assert names("jetbot", viewer="none") == [
        "/mujoco_sim",
        "/robot_state",
        "/diff_drive_controller",
        "/base_navigator",
        "/controller_manager",
    ]


def test_several_robots_share_one_simulation_and_one_viewer():
    listed = names("a:=jetbot@1,0,0", "b:=jetbot", "arm:=franka")
    assert listed.count("/mujoco_sim") == 1
    assert listed.count("/browser_viewer") == 1
    assert {"/a/diff_drive_controller", "/b/diff_drive_controller"} <= set(listed)
    assert "/arm/joint_trajectory_controller" in listed


def test_a_namespace_goes_before_those_of_the_robots():
    specs = nodes_for(config("a:=jetbot", "franka", namespace="/lab/"))
    robot_nodes = [s for s in specs if s.executable not in ("mujoco_sim", "browser_viewer")]
    assert {spec.namespace for spec in robot_nodes} == {"lab/a", "lab"}
    cell = next(spec for spec in specs if spec.executable == "mujoco_sim")
    assert cell.parameters["robots"] == ["lab/a:=jetbot@0,0,0", "lab:=franka@0,0,0"]


@pytest.mark.parametrize(
    ("backend", "sim", "sim_time"),
    [("mujoco", True, True), ("mock", True, True), ("isaac", False, False),
     ("hardware", False, False)],
)  # fmt: skip
def test_backends_decide_on_simulation_and_time(backend, sim, sim_time):
    specs = nodes_for(config("franka", backend=backend))
    assert any(spec.is_simulation for spec in specs) is sim
    assert {s.parameters["use_sim_time"] for s in specs if not s.is_simulation} == {sim_time}
    assert not any(s.parameters["use_sim_time"] for s in specs if s.is_simulation)


def test_use_sim_time_can_be_forced():
    specs = nodes_for(config("franka", backend="isaac", use_sim_time=True))
    assert all(spec.parameters["use_sim_time"] for spec in specs)


def test_every_spec_names_an_executable_that_exists():
    for spec in nodes_for(config("a:=jetbot", "b:=franka")):
        assert spec.executable in NODES


def test_wrong_words_are_answered_with_the_right_ones(tmp_path):
    with pytest.raises(InvalidConfig, match="'mujoco'"):
        config("franka", backend="mujoko")
    with pytest.raises(InvalidConfig, match="'browser'"):
        config("franka", viewer="browsr")
    with pytest.raises(InvalidConfig, match=", ".join(LOG_LEVELS)):
        config("franka", log_level="loud")
    with pytest.raises(InvalidConfig, match="nothing.yaml"):
        config("franka", params_file=str(tmp_path / "nothing.yaml"))
    with pytest.raises(RobotNotFound, match="'franka'", check=about("frankka")) as caught:
        nodes_for(config("frankka"))
    assert "franka" in caught.value.allowed


def test_ros_args_carry_names_parameters_and_files():
    spec = NodeSpec("robot_state", "state", "a/b", {"x": 1.5, "words": ["p", "q"], "on": True},
                    ("/etc/my.yaml",), "warn")  # fmt: skip
    args = spec.ros_args()
    assert args[:5] == ["--ros-args", "-r", "__node:=state", "-r", "__ns:=/a/b"]
    assert "x:=1.5" in args
    assert 'words:=["p", "q"]' in args
    assert "on:=true" in args
    assert args[args.index("--params-file") + 1] == "/etc/my.yaml"
    assert args[-1] == "a.b.state:=warn"


def test_tasks_share_the_process_of_the_planner_not_that_of_the_joint_controller():
    specs = nodes_for(config("franka", tasks=True))
    processes = processes_for(specs, composed=True)
    assert "task_server" in [spec.name for spec in processes["move_group"]]
    assert "task_server" not in [spec.name for spec in processes["container"]]


def test_composed_means_one_process_beside_the_simulation_and_those_that_plan():
    specs = nodes_for(config("a:=jetbot", "b:=franka"))
    composed = commands_for(specs, composed=True)
    alone = {"mujoco_sim", "b/move_group"}
    planners = ["move_group", "rmpflow_policy", "trajectory_generator"]
    assert set(composed) == {*alone, "container"}
    listed = json.loads(composed["container"][-1])
    assert len(listed) == len(specs) - len(planners) - 1
    planning = json.loads(composed["b/move_group"][-1])
    assert [each["executable"] for each in planning] == ["rrt_planner", *planners[1:]]
    assert [spec.name for spec in processes_for(specs, composed=True)["b/move_group"]] == planners
    unplanned = [spec for spec in specs if spec.executable != "rrt_planner"]
    commands = commands_for(unplanned, composed=True)
    for name in planners[1:]:
        assert name in commands[f"b/{name}"]
        assert "container" not in commands[f"b/{name}"]
    alone = commands_for(specs, composed=False)
    assert len(alone) == len(specs)
    assert "b/joint_trajectory_controller" in alone


def planner_of(*robots, **settings):
    specs = nodes_for(config(*robots, **settings))
    return next(spec for spec in specs if spec.executable == "rrt_planner").parameters


def test_many_robots_share_few_containers_each_with_all_its_nodes():
    specs = nodes_for(config(*(f"r{k}:=jetbot" for k in range(50)), backend="mock"))
    processes = processes_for(specs, composed=True)
    containers = {name: nodes for name, nodes in processes.items() if name != "mock_sim"}
    assert list(containers) == ["container", *(f"container_{k}" for k in range(2, 6))]
    assert sorted(s.full_name for nodes in processes.values() for s in nodes) == sorted(
        spec.full_name for spec in specs
    )
    spaces = [{spec.namespace for spec in nodes} - {""} for nodes in containers.values()]
    assert [len(each) for each in spaces] == [ROBOTS_PER_CONTAINER] * 5
    assert len(set().union(*spaces)) == 50


def test_a_simulation_of_bases_alone_is_slower():
    def rate(*robots, **settings):
        return nodes_for(config(*robots, **settings))[0].parameters.get("update_rate")

    assert rate("a:=jetbot", "b:=jetbot") == BASES_RATE
    assert rate("a:=jetbot", "b:=franka") is None
    assert rate("jetbot", control_rate=500.0) == 500.0


@pytest.mark.parametrize(
    ("backend", "floor", "told"),
    [
        ("mujoco", None, True),
        ("mock", None, True),
        ("hardware", None, False),
        ("hardware", True, True),
        ("mujoco", False, False),
    ],
)
def test_the_planner_is_told_of_the_floor(backend, floor, told):
    parameters = planner_of("franka", backend=backend, floor=floor, floor_height=-0.1)
    assert parameters["floor"] is told
    assert parameters["floor_height"] == -0.1


def test_the_planner_knows_the_robots_of_its_cell():
    parameters = planner_of("a:=franka@1,0,0", "b:=ur10e@0,1,0", namespace="lab")
    assert parameters["cell"] == ["lab/a:=franka@1,0,0", "lab/b:=ur10e@0,1,0"]


def test_cameras_are_simulated_and_mapped_for_their_robots():
    words = ("a/left:=panda_link0@1,0,1", "a/right:=panda_link0@1,1,1", "c/top:=base@0,0,1")
    robots = ("a:=franka", "b:=ur10e@1,0", "c:=jetbot@2,0")
    specs = nodes_for(config(*robots, namespace="lab", cameras=words))
    simulation = next(spec for spec in specs if spec.is_simulation)
    assert simulation.parameters["cameras"] == [f"lab/{word}" for word in words]
    mappers = [spec for spec in specs if spec.executable == "occupancy_mapper"]
    assert [spec.full_name for spec in mappers] == ["/lab/a/occupancy_mapper"]
    assert mappers[0].stands_alone
    assert mappers[0].parameters["depth_images"] == [
        "left/depth/image_rect_raw", "right/depth/image_rect_raw",
    ]  # fmt: skip
    real = nodes_for(config("franka", backend="hardware", cameras=("camera",)))
    assert any(spec.executable == "occupancy_mapper" for spec in real)
    with pytest.raises(InvalidConfig, check=about("objects")):
        config("franka", backend="mock", objects=("box",))


def test_a_single_arm_with_tasks_has_objects_before_it():
    def objects(*robots, **options):
        return nodes_for(config(*robots, tasks=True, **options))[0].parameters.get("objects", ())

    names = [word.partition(":=")[0] for word in objects("franka")]
    assert names == ["red_cube", "blue_cube", "can", "shelf"]
    assert objects("franka", objects=("cube:=box:0.1,0.1,0.1:1@1,0,0.1",)) == (
        "cube:=box:0.1,0.1,0.1:1@1,0,0.1",
    )
    assert objects("franka", empty=True) == ()
    assert objects("a:=franka", "b:=jetbot@2,0,0") == ()
    assert objects("franka", scene_bodies=True) == ()
    assert not nodes_for(config("franka"))[0].parameters.get("objects")
    assert "objects" not in nodes_for(config("franka", tasks=True, backend="mock"))[0].parameters


def test_cameras_detect_the_objects_of_tasks():
    word = ("a/camera:=panda_link0@1,0,1",)
    specs = nodes_for(
        config("a:=franka@1,2,0.5", "b:=franka@3,0,0", tasks=True, cameras=word, detect=True)
    )
    found = {spec.full_name: spec for spec in specs}
    detector = found["/a/object_detector"]
    assert detector.stands_alone
    assert detector.parameters["depth_images"] == ["camera/depth/image_rect_raw"]
    assert "/a/occupancy_mapper" not in found
    # Its objects are in the base frame; those of the simulation are in the world.
    assert found["/a/task_server"].parameters["detector"] == "object_detector/objects"
    assert "placement" not in found["/a/task_server"].parameters
    assert found["/b/task_server"].parameters["detector"] == "/mujoco_sim/objects"
    assert found["/b/task_server"].parameters["placement"] == (3.0, 0.0, 0.0)
    with pytest.raises(InvalidConfig, check=about("detect")):
        nodes_for(config("a:=franka", detect=True))


def test_scene_bodies_are_for_mujoco():
    specs = nodes_for(config("franka", scene_bodies=True, floor_height=0.2))
    simulation = next(spec for spec in specs if spec.is_simulation)
    assert simulation.parameters["scene_bodies"] is True
    assert simulation.parameters["floor_height"] == 0.2
    with pytest.raises(InvalidConfig, check=about("scene_bodies")):
        config("franka", backend="mock", scene_bodies=True)
    with pytest.raises(InvalidConfig, check=about("floor_height")):
        config("franka", floor_height=float("nan"))


def test_the_policy_escapes_by_the_planner_that_is_started_with_it():
    specs = {spec.name: spec for spec in nodes_for(config("franka"))}
    assert "move_group" in specs
    assert specs["rmpflow_policy"].parameters["escape"] == "plan"


def test_a_control_rate_is_that_of_the_simulation_and_of_the_joint_controllers():
    def settings(rate):
        config = BringupConfig(placements=parse_placements(["franka"]), control_rate=rate)
        return {spec.executable: spec.parameters for spec in nodes_for(config)}

    slow, default = settings(125.0), settings(None)
    changed = {name for name, values in slow.items() if values != default[name]}
    assert changed == {"mujoco_sim", "articulation_controller"}
    assert all(slow[name]["update_rate"] == 125.0 for name in changed)
    for rate in (0.0, 3.0, 1001.0, float("nan")):
        with pytest.raises(InvalidConfig, check=about("control_rate")):
            settings(rate)


def test_a_section_of_the_parameter_file_names_the_controller_of_a_base(tmp_path):
    """A file written for omni_wheel_drive_controller configures a node of that name."""
    file = tmp_path / "omni.yaml"
    file.write_text("a:\n  omni_wheel_drive_controller:\n    ros__parameters: {x: 1.0}\n")
    config = BringupConfig(
        placements=(parse_placement("a:=kaya"), parse_placement("b:=kaya")),
        backend="mock", params_file=str(file),
    )  # fmt: skip
    specs = {(spec.namespace, spec.executable): spec for spec in nodes_for(config)}
    assert specs["a", "holonomic_base"].name == "omni_wheel_drive_controller"
    assert specs["b", "holonomic_base"].name == "mecanum_drive_controller"
    for executable in ("base_navigator", "controller_manager"):
        told = specs["a", executable].parameters["base_controller"]
        assert told == "omni_wheel_drive_controller"
        assert "base_controller" not in specs["b", executable].parameters
    assert specs["", "browser_viewer"].parameters["base_controllers"] == [
        "a=omni_wheel_drive_controller"
    ]
    both = "/**/mecanum_drive_controller: {ros__parameters: {x: 1.0}}\n" + file.read_text()
    file.write_text(both)
    specs = {(spec.namespace, spec.executable): spec for spec in nodes_for(config)}
    assert specs["a", "holonomic_base"].name == "mecanum_drive_controller"


def test_what_is_not_started_is_told_with_the_reason(tmp_path):
    assert omissions(config("a:=franka", "b:=jetbot")) == []
    folder = tmp_path / "tipless"
    shutil.copytree(load_robot("franka").directory, folder)
    (folder / "rmpflow.yaml").unlink()
    file = folder / "robot.yaml"
    data = yaml.safe_load(file.read_text())
    data["name"] = "tipless"
    for group in data["groups"].values():
        group.pop("tip", None)
        group.pop("base", None)
    data.pop("analytic_ik", None)
    file.write_text(yaml.safe_dump(data))
    (text,) = omissions(config(f"a:={folder}", "b:=jetbot"))
    assert text.startswith("a ")
    for node in ("ik_service", "move_group", "rmpflow_policy"):
        assert node in text
        assert f"/a/{node}" not in names(f"a:={folder}", "b:=jetbot")


def test_why_a_robot_gets_no_task_server_is_told():
    """Of every shipped robot: it has one, or the reason is in the summary."""
    for name in motion_nodes.available_robots():
        wanted = config(name, tasks=True)
        has = any(spec.executable == "task_server" for spec in nodes_for(wanted))
        told = [text for text in omissions(wanted) if "task_server" in text]
        assert has != bool(told), name
    (text,) = omissions(config("jetbot", tasks=True))
    assert text == "jetbot has no task_server: robot.yaml has no group arm and no group gripper"


@pytest.mark.parametrize("namespace", ["1 2", "a//b", "a-b", "9"])
def test_namespaces_of_a_suite_are_checked_before_it_starts(namespace):
    with pytest.raises(InvalidConfig, match="must be made of letters"):
        config("franka", namespace=namespace)
    assert config("franka", namespace="/lab/").within_namespace[0].namespace == "lab"


def test_options_of_a_driver_need_one():
    options = HardwareOptions(device="/dev/ttyACM0")
    with pytest.raises(InvalidConfig, match="robot 'franka' has none"):
        nodes_for(config("franka", backend="hardware", hardware=options))


def test_the_example_robot_to_copy_plans_and_its_parameters_have_an_effect():
    folder = Path(__file__).parents[2] / "config" / "example_arm"
    robot = motion_nodes.load_robot(folder)
    arm = robot["arm"]
    assert arm.plan("home", "ready").success
    given = folder / "params.yaml"
    specs, notes = suite_of(config(str(folder), params_file=str(given)))
    assert notes == []
    known = (folder.parents[1] / "docs" / "parameters.md").read_text("utf-8")
    for pattern, section in yaml.safe_load(given.read_text("utf-8")).items():
        named = pattern.rpartition("/")[2]
        assert named == "**" or named in {spec.name for spec in specs}
        assert all(f"`{n}`" in known or n.startswith("qos_") for n in section["ros__parameters"])
