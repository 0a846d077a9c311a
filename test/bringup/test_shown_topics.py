# SPDX-License-Identifier: Apache-2.0
"""Topics in the RViz and Foxglove setups exist, with matching types and compatible QoS.

Topics are compared with interfaces.yaml, which test_interfaces.py compares with the running suite.
"""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contracts.declared_interfaces import Quality, expected

from motion_nodes.bringup.rviz_view import panel_config, view_config
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.core.robot.yaml_schema import parse_yaml, read_yaml, yaml_text

CONFIG = Path(__file__).parents[2] / "config"
RVIZ, FOXGLOVE = CONFIG / "rviz", CONFIG / "foxglove"
KINDS = {"franka": "arms", "ur10e": "arms", "jetbot": "differential", "kaya": "holonomic",
         "leatherback": "ackermann"}  # fmt: skip

# Classes, and the types of their topics: plugins_description.xml of rviz_default_plugins (f7112b1a)
# and *_rviz_plugin_description.xml of moveit_ros_visualization (8fcb5d23).
DISPLAYS = {
    "rviz_common/Group": {},
    "rviz_default_plugins/Grid": {},
    "rviz_default_plugins/TF": {},
    "rviz_default_plugins/RobotModel": {"Description Topic": "std_msgs/msg/String"},
    "rviz_default_plugins/MarkerArray": {"Topic": "visualization_msgs/msg/MarkerArray"},
    "rviz_default_plugins/Odometry": {"Topic": "nav_msgs/msg/Odometry"},
    "rviz_default_plugins/Path": {"Topic": "nav_msgs/msg/Path"},
    "moveit_rviz_plugin/MotionPlanning": {
        "Planning Scene Topic": "moveit_msgs/msg/PlanningScene",
        "Trajectory Topic": "moveit_msgs/msg/DisplayTrajectory",
    },
}
TOOLS = {
    **{f"rviz_default_plugins/{name}": {} for name in (
        "Interact", "MoveCamera", "Select", "FocusCamera", "Measure")},
    "rviz_default_plugins/SetGoal": {"Topic": "geometry_msgs/msg/PoseStamped"},
}  # fmt: skip
PANELS = {f"rviz_common/{name}" for name in ("Displays", "Views", "Tool Properties")}
# qos_profile_property.cpp
POLICIES = {
    "History Policy": {"Keep Last"},
    "Reliability Policy": {"Reliable", "Best Effort"},
    "Durability Policy": {"Transient Local", "Volatile"},
}


def topics_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the topic properties of a display, without those of displays in a group."""
    for name, inner in value.items():
        if name.endswith("Topic"):
            yield name, inner
        elif isinstance(inner, dict):
            yield from topics_of(inner)


def all_displays(displays: list[Any]) -> Iterator[Any]:
    for display in displays:
        yield display
        yield from all_displays(display.get("Displays", []))


def offered(robots: dict[str, str], kind: str) -> dict[tuple[str, str], Quality | None]:
    """Return topics and types that the suite publishes or subscribes to, with their QoS."""
    return {
        (e.name.replace("//", "/"), e.type): quality
        for e, quality in expected(robots).items()
        if e.kind == kind
    }


def check_reader(given: dict[str, Any], quality: Quality, where: str) -> None:
    for policy, words in POLICIES.items():
        assert given[policy] in words, where
    assert given["Depth"] >= 1
    assert given["Reliability Policy"] == "Best Effort" or quality.reliability == "reliable", where
    # Latched topics need transient-local readers, which otherwise wait for the next message.
    kept = quality.durability == "transient_local"
    assert given["Durability Policy"] == ("Transient Local" if kept else "Volatile"), where


def check_rviz(config: dict[str, Any], robots: dict[str, str]) -> list[str]:
    """Check all topics of a configuration, and return them."""
    manager, found = config["Visualization Manager"], []
    assert {panel["Class"] for panel in config["Panels"]} <= PANELS
    published, heard = offered(robots, "publisher"), offered(robots, "subscription")
    for items, classes, there in (
        (list(all_displays(manager["Displays"])), DISPLAYS, published),
        (manager["Tools"], TOOLS, heard),
    ):
        for item in items:
            types = classes[item["Class"]]
            topics = dict(topics_of(item))
            assert set(topics) == set(types), item
            for name, given in topics.items():
                topic = given["Value"] if isinstance(given, dict) else given
                where = f"{item.get('Name', item['Class'])}: {topic}"
                assert (topic, types[name]) in there, where
                if isinstance(given, dict):
                    quality = there[topic, types[name]]
                    assert quality is not None
                    if items is manager["Tools"]:
                        continue  # a reliable writer serves every reader
                    check_reader(given, quality, where)
                found.append(topic)
    return found


@pytest.mark.parametrize(
    ("file", "kind", "least"),
    [("arm", "arms", 3), ("base", "differential", 3), ("motion_planning", "arms", 4)],
)
def test_files_as_they_are_show_a_robot_without_namespace(file, kind, least):
    config = read_yaml(RVIZ / f"{file}.rviz")
    assert len(check_rviz(config, {"": kind})) >= least


@pytest.mark.long
@pytest.mark.parametrize("robot", KINDS)
@pytest.mark.parametrize("namespace", ["", "cell/left"])
def test_a_view_of_every_robot(robot, namespace):
    word = f"{namespace}:={robot}" if namespace else robot
    config = view_config(parse_placements([word]), RVIZ)
    topics = check_rviz(config, {namespace: KINDS[robot]})
    assert all(topic.startswith(f"/{namespace}") for topic in topics)
    base = (
        "odom" if KINDS[robot] != "arms" else {"franka": "panda_link0", "ur10e": "base_link"}[robot]
    )
    frame = config["Visualization Manager"]["Global Options"]["Fixed Frame"]
    assert frame == f"{namespace}/{base}".removeprefix("/")
    prefixes = [d["TF Prefix"] for d in config["Visualization Manager"]["Displays"]
                if "TF Prefix" in d]  # fmt: skip
    assert prefixes == [namespace]


def test_a_view_of_several_robots_has_a_group_for_each():
    places = parse_placements(["a:=jetbot", "b:=franka@1,0,0", "c:=kaya"])
    config = view_config(places, RVIZ)
    robots = {"a": "differential", "b": "arms", "c": "holonomic"}
    topics = check_rviz(config, robots)
    assert {topic.split("/")[1] for topic in topics} == set(robots)
    manager = config["Visualization Manager"]
    groups = [d for d in manager["Displays"] if d["Class"] == "rviz_common/Group"]
    assert [group["Name"] for group in groups] == ["a", "b", "c"]
    assert all(group["Displays"] for group in groups)
    names = [d["Class"] for d in all_displays(manager["Displays"])]
    assert names.count("rviz_default_plugins/Grid") == 1
    assert names.count("rviz_default_plugins/RobotModel") == 3
    assert manager["Global Options"]["Fixed Frame"] == "world"
    goals = [t["Topic"]["Value"] for t in manager["Tools"] if t["Class"].endswith("SetGoal")]
    assert goals == ["/a/goal_pose", "/c/goal_pose"]
    assert parse_yaml(yaml_text(config), "written") == config


def test_the_panel_of_an_arm_in_a_namespace():
    (place,) = parse_placements(["left:=franka"])
    config = panel_config(place, "panda_arm", RVIZ)
    topics = check_rviz(config, {"left": "arms"})
    assert "/left/monitored_planning_scene" in topics
    assert "/left/display_planned_path" in topics
    (panel,) = [d for d in config["Visualization Manager"]["Displays"]
                if d["Class"].endswith("MotionPlanning")]  # fmt: skip
    assert panel["Move Group Namespace"] == "/left"
    assert panel["Planning Request"]["Planning Group"] == "panda_arm"
    assert panel["Robot Description"] == "robot_description", "found in RViz's own namespace"


# ---- Foxglove


def fields_of(type_name: str) -> dict[str, str]:
    package, kind, name = type_name.split("/")
    return dict(
        getattr(
            importlib.import_module(f"{package}.{kind}"), name
        ).get_fields_and_field_types()
    )  # fmt: skip


def check_path(path: str, there: dict[str, set[str]]) -> None:
    """Check a message path such as ``/joint_states.position[:]``."""
    topic, *parts = path.split(".")
    assert topic in there, path
    (kind,) = there[topic]
    for i, part in enumerate(parts):
        name, listed = re.fullmatch(r"(\w+)(\[:\])?", part).groups()
        fields = fields_of(kind)
        assert name in fields, f"{path}: {kind} has {', '.join(fields)}"
        kind = fields[name]
        is_list = kind.startswith("sequence<")
        assert is_list == bool(listed), path
        if i + 1 < len(parts):
            package, kind_name = kind.split("/")
            kind = f"{package}/msg/{kind_name}"
    if parts:
        assert re.sub(r"sequence<(.*)>", r"\1", kind) in ("double", "float"), f"{path}: {kind}"


def panels_in(layout: Any) -> list[str]:
    if isinstance(layout, str):
        return [layout]
    assert layout["direction"] in ("row", "column")
    assert 0 < layout["splitPercentage"] < 100
    return panels_in(layout["first"]) + panels_in(layout["second"])


@pytest.mark.long
@pytest.mark.parametrize(("file", "kind"), [("arm", "arms"), ("base", "differential")])
def test_foxglove_layouts(file, kind):
    layout = json.loads((FOXGLOVE / f"{file}.json").read_text())
    there: dict[str, set[str]] = {}
    published = offered({"": kind}, "publisher")
    for topic, type_name in published:
        there.setdefault(topic, set()).add(type_name)
    heard = offered({"": kind}, "subscription")
    panels = layout["configById"]
    assert sorted(panels_in(layout["layout"])) == sorted(panels)
    for name, panel in panels.items():
        match name.split("!")[0]:
            case "3D":
                assert set(panel["topics"]) <= set(there)
                assert panel["layers"]["robot"]["topic"] in there
                if "publish" in panel:
                    wanted = (panel["publish"]["poseTopic"], "geometry_msgs/msg/PoseStamped")
                    assert wanted in heard
            case "Plot":
                assert panel["paths"]
                for path in panel["paths"]:
                    check_path(path["value"], there)
            case "DiagnosticSummary":
                assert there[panel["topicToRender"]] == {"diagnostic_msgs/msg/DiagnosticArray"}
            case "RawMessages":
                check_path(panel["topicPath"], there)
            case "Teleop":
                # The panel has no stamps.
                assert (panel["topic"], "geometry_msgs/msg/Twist") in heard
                assert panel["publishRate"] >= 5, "commands time out after 0.5 s"
                fields = {panel[f"{way}Button"]["field"] for way in ("up", "down", "left", "right")}
                assert fields == {"linear-x", "angular-z"}
            case other:
                raise AssertionError(f"a panel '{other}'")
