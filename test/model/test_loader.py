# SPDX-License-Identifier: Apache-2.0
"""Finding and loading robots, and the error of each invalid field."""

import os
from typing import Any

import numpy as np
import pytest
from model.robot_samples import ARM, BASE, TWO_JOINTS, WHEELS, changed, write_robot
from raised_errors import about

from motion_nodes.core.robot.loader import PATH_VARIABLE, available_robots, load_robot
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError, RobotNotFound


@pytest.fixture(autouse=True)
def _no_search_path(monkeypatch):
    monkeypatch.delenv(PATH_VARIABLE, raising=False)


# ---------------------------------------------------------------------------------------- finding


def test_a_robot_is_found_by_file_folder_and_name(tmp_path, monkeypatch):
    file = write_robot(tmp_path / "robots" / "tiny", ARM)
    assert load_robot(file).name == load_robot(str(file.parent)).name == "tiny"
    with pytest.raises(RobotNotFound):
        load_robot("tiny")
    # An entry may be a folder of robots or a robot's folder; missing ones are skipped.
    for entry in (tmp_path / "robots", file.parent):
        monkeypatch.setenv(PATH_VARIABLE, os.pathsep.join(("/nowhere", str(entry))))
        assert load_robot("tiny").directory == file.parent
        assert available_robots()["tiny"] == file
    assert "franka" in available_robots()


def test_an_unknown_robot_lists_the_known_ones():
    with pytest.raises(RobotNotFound):
        load_robot("frnka")
    with pytest.raises(RobotNotFound):
        load_robot("/gone/robot.yaml")
    with pytest.raises(RobotNotFound):
        load_robot("")
    with pytest.raises(RobotNotFound) as missing:
        load_robot("gone.urdf")
    assert "no file" in str(missing.value)


def test_two_robots_of_one_name_are_refused_and_both_named(tmp_path, monkeypatch):
    first = write_robot(tmp_path / "one" / "tiny", ARM)
    second = write_robot(tmp_path / "two" / "other_folder", ARM)
    monkeypatch.setenv(PATH_VARIABLE, f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    for call in (available_robots, lambda: load_robot("tiny")):
        with pytest.raises(InvalidConfig) as caught:
            call()
        assert str(first) in str(caught.value)
        assert str(second) in str(caught.value)
    # Other robots, and paths, are not affected.
    assert load_robot("franka").name == "franka"
    assert load_robot(first).name == "tiny"


def test_a_shipped_robot_cannot_be_replaced_unseen(tmp_path, monkeypatch):
    write_robot(tmp_path / "mine", changed(ARM, "name", "franka"))
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    with pytest.raises(InvalidConfig):
        load_robot("franka")


def test_one_robot_reached_in_two_ways_is_one_robot(tmp_path, monkeypatch):
    write_robot(tmp_path / "tiny", ARM)
    (tmp_path / "link").symlink_to(tmp_path / "tiny")
    monkeypatch.setenv(PATH_VARIABLE, f"{tmp_path}{os.pathsep}{tmp_path / 'tiny'}")
    assert load_robot("tiny").name == "tiny"


def test_a_broken_robot_does_not_hide_the_others(tmp_path, monkeypatch):
    write_robot(tmp_path / "broken", "name: broken\n  bad: [")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    assert {"broken", "franka"} <= set(available_robots())
    assert load_robot("jetbot").name == "jetbot"
    with pytest.raises(InvalidDescription):
        load_robot("broken")


# ---------------------------------------------------------------------------------------- content


def test_an_arm_is_assembled(tmp_path):
    robot = load_robot(write_robot(tmp_path, ARM))
    assert robot.joint_names == ("j1", "j2")
    np.testing.assert_array_equal(robot.limits.acceleration, (5, 6))
    np.testing.assert_array_equal(robot.limits.jerk, (np.inf, np.inf))
    np.testing.assert_array_equal(robot.home, (0.5, 0.0))
    np.testing.assert_array_equal(robot.named_state("up"), (0.5, 1.0))
    assert [drive.stiffness for drive in robot.drives] == [10.0, 20.0]
    assert [drive.damping for drive in robot.drives] == [0.0, 0.0]
    assert robot.group("manipulator").tip == "tool"
    assert robot.base is None
    assert robot.spheres == {}


def test_a_base_is_assembled(tmp_path):
    robot = load_robot(write_robot(tmp_path, BASE, WHEELS))
    assert robot.base is not None
    assert robot.base.wheel_names == ("j1", "j2")
    assert robot.state_names == ("home",)
    np.testing.assert_array_equal(robot.named_state("home"), (0, 0))


def test_home_without_a_state_is_the_allowed_position_nearest_zero(tmp_path):
    text = TWO_JOINTS.replace('lower="-1"', 'lower="0.25"', 1)
    robot = load_robot(write_robot(tmp_path, changed(ARM, "named_states", {}), text))
    np.testing.assert_array_equal(robot.home, (0.25, 0.0))


def test_a_number_may_be_written_without_a_point(tmp_path):
    file = write_robot(tmp_path, ARM)
    file.write_text(file.read_text().replace("j1: 5.0", "j1: 5e-3"))
    assert load_robot(file).limits.acceleration[0] == 0.005


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "block.*fields"),
        ("- a\n- b\n", r"this is a list"),
        ("name: [franka\nkind: arm\n", r"line.*\b2\b.*column.*\b5\b.*YAML.*','.*']'"),
        ("name: franka\n\tkind: arm\n", r", line 2, column 1: is not YAML"),
        ("name: a\nkind: arm\nname: b\n", r"line.*\b3\b.*field.*'name'.*twice.*line.*\b1\b"),
        ("name: &a [*b]\n", r"undefined alias"),
        ("name: !!python/object:os.system {}\n", "YAML.*determine.*constr"),
        ("name: a\x00b\n", "YAML"),
        ("1: a\n", r"\b1\b.*text"),
    ],
)
def test_corrupt_yaml_is_named_with_its_place(tmp_path, text, message):
    file = write_robot(tmp_path, text)
    with pytest.raises(InvalidDescription, match=message) as caught:
        load_robot(file)
    assert str(caught.value).startswith(str(file))


def test_yaml_that_is_no_text_is_named(tmp_path):
    file = write_robot(tmp_path, ARM)
    file.write_bytes(b"name: \xff\xfe")
    with pytest.raises(InvalidDescription):
        load_robot(file)


FAULTS: dict[str, tuple[dict[str, Any], str, object, str]] = {
    "misspelt field": (
        BASE,
        "base.wheel_seperation",
        0.4,
        r"base\.wheel_seperation is not a field\. Did you mean 'wheel_separation'\? Fields: .*left",
    ),
    "misspelt block": (ARM, "groops", {}, r": groops is not a field.*'groups'"),
    "misspelt in a list": (ARM, "drives.0.stifness", 1.0, r"drives\[0\]\.stifness is not a field"),
    "misspelt in a group": (ARM, "groups.arm.tipp", "c", r"groups\.arm\.tipp is not .*'tip'"),
    "missing field": (BASE, "base.wheel_radius", ..., r"base: .*missing the field `wheel_radius`"),
    "missing name": (ARM, "name", ..., r"the file: is missing the field `name`"),
    "missing limit": (
        BASE,
        "base.linear.x.max_velocity",
        ...,
        r"base\.linear\.x: is missing the field `max_velocity`",
    ),
    "format of tomorrow": (ARM, "format", 2, r"format is 2\. Available: 1"),
    "kind": (ARM, "kind", "humanoid", r"kind is 'humanoid'\. Available: arm, differential"),
    "misspelt kind": (BASE, "kind", "diferential", r"Did you mean 'differential'"),
    "mode": (ARM, "drives.0.mode", "positon", r"drives\[0\]\.mode is 'positon'.*'position'"),
    "bad name": (ARM, "name", "My Robot", r"name: expected lower-case letters.*given: 'My Robot'"),
    "text for a number": (
        BASE,
        "base.wheel_radius",
        "0.03",
        r"base\.wheel_radius: expected a number.*given: '0\.03'.*without quotes",
    ),
    "number for text": (ARM, "urdf", 3, r"urdf: expected text.*given: 3"),
    "number for a list": (ARM, "groups.arm.joints", 3, r"groups\.arm\.joints: expected a list"),
    "list for a block": (ARM, "frames", [], r"frames: expected a block of fields"),
    "truth for a number": (BASE, "base.wheel_radius", True, r"base\.wheel_radius: expected a num"),
    "empty list": (ARM, "groups.arm.joints", [], r"groups\.arm\.joints: expected a list of length"),
    "negative": (BASE, "base.wheel_radius", -0.1, r"base\.wheel_radius: expected a number > 0"),
    "zero": (BASE, "base.wheel_separation", 0, r"wheel_separation: expected a number > 0"),
    "nan": (BASE, "base.wheel_radius", float("nan"), r"base\.wheel_radius is nan; a finite"),
    "inf": (ARM, "named_states.home.j1", float("inf"), r"named_states\.home\.j1 is inf; a finite"),
    "nan in a list": (
        ARM,
        "drives.0.stiffness",
        [1.0, float("nan")],
        r"drives\[0\]\.stiffness\[1\] is nan",
    ),
    "text in a mapping": (
        ARM,
        "limits.acceleration.j1",
        "fast",
        r"limits\.acceleration\.j1: expected a number.*given: 'fast'",
    ),
    "negative in a mapping": (
        ARM,
        "limits.acceleration.j2",
        -1.0,
        r"limits\.acceleration\.j2: expected a number > 0",
    ),
    "negative gain": (ARM, "drives.0.stiffness", [1.0, -1.0], r"drives\[0\]\.stiffness\[1\]: exp"),
    "timestep": (ARM, "simulation", {"timestep": 0.5}, r"simulation\.timestep: expected a number"),
    "missing urdf": (ARM, "urdf", "gone.urdf", r"urdf: the file 'gone\.urdf' does not exist in /"),
    "base frame": (ARM, "frames.base", "aa", r"frames\.base: 'aa' is not a link of tiny\.urdf"),
    "tool frame": (ARM, "frames.tool", "tol", r"frames\.tool: 'tol'.*Did you mean 'tool'"),
    "odom frame": (ARM, "frames.odom", "a", r"frames\.odom: is a link of the robot"),
    "joint of a group": (
        ARM,
        "groups.arm.joints",
        ["j1", "j22"],
        r"groups\.arm\.joints: 'j22' is not a joint of tiny\.urdf\. Did you mean 'j2'",
    ),
    "fixed joint of a group": (
        ARM,
        "groups.arm.joints",
        ["j1", "fixed"],
        r"'fixed' is not an actuated joint.*Available: j1, j2",
    ),
    "joint twice": (ARM, "groups.arm.joints", ["j1", "j1"], r"joint 'j1' is listed twice"),
    "joints out of order": (
        ARM,
        "groups.arm.joints",
        ["j2", "j1"],
        r"groups\.arm\.joints: not in order from base to tip: use \['j1', 'j2'\]",
    ),
    "joints missing in a chain": (
        ARM,
        "groups.arm.joints",
        ["j2"],
        r"groups\.arm: the joints from a to tool are j1, j2",
    ),
    "tip above base": (ARM, "groups.arm.base", "tool", r"groups\.arm: the joints from tool|tip"),
    "tip not below": (ARM, "groups.arm.tip", "a", r"groups\.arm: the joints from a to a are |tip"),
    "base without tip": (ARM, "groups.arm.tip", ..., r"groups\.arm: needs both base and tip"),
    "tip unknown": (ARM, "groups.arm.tip", "hand", r"groups\.arm\.tip: 'hand' is not a link"),
    "alias taken": (
        ARM,
        "groups.other",
        {"joints": ["j2"], "aliases": ["manipulator"]},
        r"groups\.other: the name 'manipulator' is also one of group 'arm'",
    ),
    "limit of no joint": (
        ARM,
        "limits.acceleration.j3",
        1.0,
        r"limits\.acceleration: 'j3' is not a joint of tiny\.urdf\. Available: j1, j2",
    ),
    "jerk of no joint": (ARM, "limits.jerk", {"x": 1.0}, r"limits\.jerk: 'x' is not a joint"),
    "state of no joint": (
        ARM,
        "named_states.up",
        {"j9": 0.0},
        r"named_states\.up: 'j9' is not a joint",
    ),
    "home of no joint": (ARM, "named_states.home", {"j9": 0.0}, r"named_states\.home: 'j9' is not"),
    "state outside": (
        ARM,
        "named_states.up",
        {"j2": 5.0},
        r"named_states\.up: is outside the limits: j2 is 5, allowed is -1 to 2",
    ),
    "drive of no joint": (ARM, "drives.0.joints", ["j1", "k2"], r"drives\[0\]\.joints: 'k2' is n"),
    "joint without drive": (ARM, "drives", [], r"drives: these joints have no drive: j1, j2"),
    "joint with two drives": (
        ARM,
        "drives",
        [*ARM["drives"], {"joints": ["j1"], "mode": "effort"}],
        r"drives\[1\]\.joints: joint 'j1' has two drives",
    ),
    "too few gains": (
        ARM,
        "drives.0.stiffness",
        [1.0],
        r"drives\[0\]\.stiffness: 1 values for 2 joints",
    ),
    "contact of no link": (
        ARM,
        "simulation",
        {"contact": {"bb": {"friction": 1.0}}},
        r"simulation\.contact: 'bb' is not a link",
    ),
    "ignored pair": (
        ARM,
        "collision",
        {"ignore": [["a", "z"]]},
        r"collision\.ignore: 'z' is not a link",
    ),
    "ignored three": (
        ARM,
        "collision",
        {"ignore": [["a", "b", "c"]]},
        r"collision\.ignore\[0\]: expected a list of length 2",
    ),
    "missing spheres": (
        ARM,
        "collision",
        {"spheres": "gone.yaml"},
        r"collision\.spheres: the file 'gone\.yaml' does not exist",
    ),
    "arm with base": (ARM, "base", BASE["base"], r"base: a robot of kind 'arm' has none"),
    "base without base": (BASE, "base", ..., r"base: is missing; .*needs the fields: .*left_"),
    "wheel of no joint": (
        BASE,
        "base.left_wheel_names",
        ["j11"],
        r"base\.left_wheel_names: 'j11' is not a joint.*Did you mean 'j1'",
    ),
    "one wheel on both sides": (BASE, "base.left_wheel_names", ["j2"], r"'j2' is listed twice"),
    "more wheels left": (
        BASE,
        "base.left_wheel_names",
        ["j1", "j2"],
        r"is listed twice|differ in length",
    ),
    "number without source": (
        BASE,
        "sources",
        {"base.linear": "x", "base.angular": "x", "base.wheel_radius": "x", "drives": "x"},
        r"sources: base\.wheel_separation has no source; add `base\.wheel_separation:",
    ),
    "limit without source": (
        ARM,
        "sources",
        {"drives": "x"},
        r"sources: limits\.acceleration\.j1 has no source",
    ),
    "source of nothing": (
        BASE,
        "sources.base.wheel_size",
        "x",
        r"sources: 'base\.wheel_size' is not a number",
    ),
    "empty source": (ARM, "sources.drives", "", r"sources\.drives: expected text of length"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_is_named(case, tmp_path):
    description, path, value, message = FAULTS[case]
    if path.startswith("sources.base"):
        broken = changed(description, "sources", {**description["sources"], path[8:]: value})
    else:
        broken = changed(description, path, value)
    file = write_robot(tmp_path, broken, WHEELS if description is BASE else TWO_JOINTS)
    with pytest.raises(InvalidDescription, match=message) as caught:
        load_robot(file)
    told = str(caught.value)
    assert told.startswith(f"{file}: ")
    assert "`float`" not in told
    assert "[...]" not in told
    assert ".." not in told
    assert told.endswith((".", ")"))


def test_the_untouched_samples_are_good(tmp_path):
    """The samples of the faults above are valid without the fault."""
    assert load_robot(write_robot(tmp_path / "arm", ARM)).name == "tiny"
    assert load_robot(write_robot(tmp_path / "base", BASE, WHEELS)).name == "cart"


def test_a_wheel_that_cannot_turn_round_is_named(tmp_path):
    limits = '<limit lower="-1" upper="1" velocity="9" effort="1"/>'
    text = WHEELS.replace("continuous", "revolute").replace(
        '<limit velocity="9" effort="1"/>', limits
    )
    with pytest.raises(InvalidDescription):
        load_robot(write_robot(tmp_path, BASE, text))


def test_faults_of_the_urdf_name_the_urdf(tmp_path):
    file = write_robot(tmp_path, ARM, TWO_JOINTS.replace('mass value="1"', 'mass value="0"'))
    with pytest.raises(InvalidDescription):
        load_robot(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b: [[0, 0, 0, 0.1]]\nbb: []\n", "spheres.yaml, bb"),
        ("b: [[0, 0, 0, -0.1]]\n", "spheres.yaml, b"),
        ("b: [[0, 0, 0]]\n", "b[0]"),
        ("b: [[0, 0, 0, .nan]]\n", "b[0][3]"),
        ("b: [[0, 0, 0, x]]\n", "b[0][3]"),
    ],
)
def test_faults_of_the_spheres_are_named(tmp_path, text, message):
    file = write_robot(tmp_path, changed(ARM, "collision", {"spheres": "spheres.yaml"}))
    (tmp_path / "spheres.yaml").write_text(text)
    with pytest.raises(InvalidDescription, check=about(message)):
        load_robot(file)


def test_every_fault_can_be_caught_as_one_kind(tmp_path):
    with pytest.raises(MotionError):
        load_robot(write_robot(tmp_path, "{"))
