# SPDX-License-Identifier: Apache-2.0
"""Reading URDF, names of mesh files, and the URDF of a group."""

import os
from pathlib import Path

import numpy as np
import pytest
from model.robot_samples import INERTIAL, LIMIT, TWO_JOINTS, joint, link, urdf
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.meshes import resolve_mesh, with_absolute_meshes
from motion_nodes.core.robot.robot_xml import group_urdf
from motion_nodes.core.robot.tree import Box, Cylinder, JointKind, Mesh, Sphere
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidDescription

AB = link("a") + link("b", INERTIAL)
Z = '<axis xyz="0 0 1"/>'


def test_a_tree_is_read_with_its_limits_and_poses():
    tree = read_urdf(TWO_JOINTS)
    assert tree.joint_names == ("j1", "j2")
    assert tree.frame_names == ("a", "b", "c", "tool")
    j1 = tree.joint("j1")
    assert (j1.lower, j1.upper, j1.velocity, j1.effort) == (-1.0, 2.0, 3.0, 4.0)
    assert tree.joint("j2").kind is JointKind.PRISMATIC
    np.testing.assert_array_equal(tree.joint("fixed").X_PJ[:3, 3], (0, 0, 1))
    assert not j1.X_PJ.flags.writeable


def test_a_file_is_read_like_its_text(tmp_path):
    file = tmp_path / "tiny.urdf"
    file.write_text('<?xml version="1.0" encoding="utf-8"?>' + TWO_JOINTS)
    assert read_urdf(file).frame_names == read_urdf(str(file)).frame_names


@pytest.mark.parametrize("text", ["0 0 5", "1 2 3", "-1e-3 0 0"])
def test_axes_get_unit_length(text):
    tree = read_urdf(urdf(AB, joint(inside=f'<axis xyz="{text}"/>{LIMIT}')))
    given = np.array([float(word) for word in text.split()])
    axis = tree.joint("j1").axis
    assert np.linalg.norm(axis) == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(np.cross(axis, given), 0.0, atol=1e-12)
    assert axis @ given > 0.0


def test_a_missing_axis_is_x_and_a_missing_origin_the_identity():
    tree = read_urdf(urdf(AB, joint(inside=LIMIT)))
    np.testing.assert_array_equal(tree.joint("j1").axis, (1, 0, 0))
    np.testing.assert_array_equal(tree.joint("j1").X_PJ, np.eye(4))


def test_continuous_joints_have_no_position_limits():
    with_limit = joint(kind="continuous", inside=Z + '<limit velocity="5" effort="6"/>')
    j1 = read_urdf(urdf(AB, with_limit)).joint("j1")
    assert (j1.lower, j1.upper, j1.velocity, j1.effort) == (-np.inf, np.inf, 5.0, 6.0)
    without = read_urdf(urdf(AB, joint(kind="continuous", inside=Z))).joint("j1")
    assert without.velocity == np.inf


def test_mimic_and_dynamics_are_read():
    follower = joint(
        "j2", "revolute", "b", "c", Z + LIMIT + '<mimic joint="j1" multiplier="-2" offset="0.5"/>'
    )
    first = joint(inside=Z + LIMIT + '<dynamics damping="0.3" friction="0.1"/>')
    tree = read_urdf(urdf(AB + link("c", INERTIAL), first + follower))
    assert tree.joint_names == ("j1",)
    mimic = tree.joint("j2").mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("j1", -2.0, 0.5)
    assert (tree.joint("j1").damping, tree.joint("j1").friction) == (0.3, 0.1)


def test_shapes_and_colours_are_read():
    shapes = (
        '<visual name="v"><origin xyz="1 0 0"/><geometry><box size="1 2 3"/></geometry>'
        '<material name="red"/></visual>'
        '<visual><geometry><sphere radius="0.5"/></geometry>'
        '<material name="own"><color rgba="0 1 0 0.5"/></material></visual>'
        '<visual><geometry><mesh filename="package://p/m.stl" scale="2 2 2"/></geometry></visual>'
        '<collision><geometry><cylinder radius="0.1" length="2"/></geometry></collision>'
    )
    red = '<material name="red"><color rgba="1 0 0 1"/></material>'
    part = read_urdf(urdf(red + link("a", shapes))).link("a")
    assert [shape.geometry for shape in part.visuals] == [
        Box((1.0, 2.0, 3.0)),
        Sphere(0.5),
        Mesh("package://p/m.stl", (2.0, 2.0, 2.0)),
    ]
    assert [shape.rgba for shape in part.visuals] == [(1, 0, 0, 1), (0, 1, 0, 0.5), None]
    assert part.visuals[0].name == "v"
    assert part.visuals[0].X_LG[0, 3] == 1.0
    assert part.collisions[0].geometry == Cylinder(0.1, 2.0)


def test_elements_of_other_tools_are_left_alone(capfd):
    others = (
        '<gazebo reference="a"><mu1>1</mu1></gazebo><transmission name="t"/>'
        '<ros2_control name="r" type="system"/><mujoco/><!-- a remark -->'
    )
    inside = Z + LIMIT + '<!-- why --><?hint x?><unknown_tag/><safety_controller k_velocity="1"/>'
    tree = read_urdf(urdf(others + AB, joint(inside=inside)))
    assert tree.joint_names == ("j1",)
    # The library prints unknown elements; they must not appear in a node's output.
    assert capfd.readouterr() == ("", "")


def _inertial(mass: str = "1", inertia: str = "1 0 0 1 0 1", origin: str = "") -> str:
    words = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia.split(), strict=True)
    values = " ".join(f'{name}="{value}"' for name, value in words)
    return f'<inertial>{origin}<mass value="{mass}"/><inertia {values}/></inertial>'


def _limit(lower: str = "-1", upper: str = "1", velocity: str = "1", effort: str = "1") -> str:
    return f'{Z}<limit lower="{lower}" upper="{upper}" velocity="{velocity}" effort="{effort}"/>'


def _visual(geometry: str) -> str:
    return urdf(link("a", f"<visual><geometry>{geometry}</geometry></visual>"))


CHAIN_OF_MIMICS = urdf(
    AB + link("c") + link("d"),
    joint()
    + joint("j2", "revolute", "b", "c", Z + LIMIT + '<mimic joint="j1"/>')
    + joint("j3", "revolute", "c", "d", Z + LIMIT + '<mimic joint="j2"/>'),
)

BAD: dict[str, tuple[str, str]] = {
    "cut off": ("<robot name='x'><link name='a'>", r"is not XML that can be read: .*line 1"),
    "other root": ("<mujoco/>", r"starts with <robot>, this starts with <mujoco>"),
    "xacro": (
        "<robot name='x' xmlns:xacro='http://www.ros.org/wiki/xacro'><xacro:arg/></robot>",
        r"still contains xacro macros; expand it first",
    ),
    "no links": (urdf(), r"has no <link>"),
    "no name": ("<robot><link name='a'/></robot>", r"robot: .*name.* Add it"),
    "two links": (urdf(link("a") + link("a")), r"two links are called 'a'"),
    "two joints": (
        urdf(AB + link("c"), joint() + joint(child="c")),
        r"two joints are called 'j1'",
    ),
    "two roots": (urdf(link("a") + link("b")), r"needs one root link, found \['a', 'b'\]"),
    "two parents": (urdf(AB + link("c"), joint() + joint("j2", parent="c")), r"two parent joints"),
    "loop": (
        urdf(link("a") + link("b"), joint() + joint("j2", parent="b", child="a")),
        r"none \(a loop\)",
    ),
    "missing child": (
        urdf(AB, joint(child="bb")),
        r"joint 'j1': child link 'bb' does not exist\..*Available: a, b",
    ),
    "missing parent": (urdf(AB, joint(parent="base")), r"parent link 'base' does not exist"),
    "no child": (
        urdf(AB, f'<joint name="j1" type="revolute"><parent link="a"/>{LIMIT}</joint>'),
        r"joint\[@name='j1'\]: .*child.* Add it",
    ),
    "floating": (urdf(AB, joint(kind="floating")), r"'floating' is not supported.*Allowed: fixed"),
    "planar": (urdf(AB, joint(kind="planar")), r"'planar' is not supported"),
    "misspelt type": (
        urdf(AB, joint(kind="revolut")),
        r"'j1'.*revolut\. Allowed: fixed, revolute",
    ),
    "no limit": (urdf(AB, joint(inside=Z)), r"a revolute joint needs <limit"),
    "no limit, prismatic": (
        urdf(AB, joint(kind="prismatic", inside=Z)),
        r"a prismatic joint needs <limit",
    ),
    "no velocity": (urdf(AB, joint(inside='<limit lower="0" upper="1" effort="1"/>')), "velocity"),
    "swapped": (urdf(AB, joint(inside=_limit("1", "-1"))), r"lower 1 is above upper -1; swap"),
    "immovable": (
        urdf(AB, joint(inside='<limit velocity="1" effort="1"/>')),
        r"lower and upper are both 0",
    ),
    "limit nan": (urdf(AB, joint(inside=_limit("nan"))), r"limit lower, upper is \[nan, 1.0\]"),
    "limit inf": (urdf(AB, joint(inside=_limit(upper="inf"))), r"2 finite numbers are needed"),
    "velocity zero": (
        urdf(AB, joint(inside=_limit(velocity="0"))),
        r"limit velocity is 0; a positive number",
    ),
    "effort nan": (urdf(AB, joint(inside=_limit(effort="nan"))), r"limit effort is nan"),
    "limit text": (urdf(AB, joint(inside=_limit("low"))), r"'low'\. A number is needed"),
    "axis too long": (
        urdf(AB, joint(inside='<axis xyz="1e200 0 0"/>' + LIMIT)),
        r"axis xyz is too long",
    ),
    "axis zero": (urdf(AB, joint(inside='<axis xyz="0 0 0"/>' + LIMIT)), r"axis xyz is zero"),
    "axis nan": (urdf(AB, joint(inside='<axis xyz="nan 0 1"/>' + LIMIT)), r"axis xyz is \[nan"),
    "axis of two": (
        urdf(AB, joint(inside='<axis xyz="0 1"/>' + LIMIT)),
        r"line 1: joint 'j1': .*Three numbers separated by blanks",
    ),
    "origin inf": (urdf(AB, joint(inside='<origin xyz="0 0 inf"/>' + LIMIT)), r"origin xyz is"),
    "rpy nan": (urdf(AB, joint(inside='<origin rpy="0 nan 0"/>' + LIMIT)), r"origin rpy is"),
    "negative damping": (
        urdf(AB, joint(inside=Z + LIMIT + '<dynamics damping="-1"/>')),
        r"must not be negative",
    ),
    "circle of mimics": (
        CHAIN_OF_MIMICS.replace(
            '<joint name="j1" type="revolute">',
            '<joint name="j1" type="revolute"><mimic joint="j3"/>',
        ),
        r"'j1' mimics itself, over j1 -> j3 -> j2 -> j1; one of them must be without <mimic>",
    ),
    "mimic that never moves": (
        CHAIN_OF_MIMICS.replace('joint="j2"/>', 'joint="j2" multiplier="0"/>'),
        r"'j3': mimic multiplier is 0.*fixed",
    ),
    "mimic without a number": (
        CHAIN_OF_MIMICS.replace('joint="j2"/>', 'joint="j2" offset="nan"/>'),
        r"'j3': mimic is .*nan.*finite",
    ),
    "mimics whose product is nothing": (
        CHAIN_OF_MIMICS.replace('joint="j2"/>', 'joint="j2" multiplier="1e-300"/>').replace(
            'joint="j1"/>', 'joint="j1" multiplier="1e-300"/>'
        ),
        r"'j3' moves 0 times as far as 'j1' over j3 -> j2 -> j1",
    ),
    "mimic of nothing": (
        urdf(AB, joint(inside=Z + LIMIT + '<mimic joint="k"/>')),
        r"mimics 'k', which does not exist. Available: j1",
    ),
    "mimic of itself": (
        urdf(AB, joint(inside=Z + LIMIT + '<mimic joint="j1"/>')),
        r"mimics itself",
    ),
    "mimic of a fixed one": (
        urdf(
            AB + link("c"),
            joint(kind="fixed") + joint("j2", child="c", inside=LIMIT + '<mimic joint="j1"/>'),
        ),
        r"mimics 'j1', which is fixed",
    ),
    "mass zero": (urdf(link("a", _inertial("0"))), r"link 'a': mass is 0 kg"),
    "mass negative": (urdf(link("a", _inertial("-2"))), r"mass is -2 kg"),
    "mass nan": (urdf(link("a", _inertial("nan"))), r"mass is nan kg"),
    "no inertia": (
        urdf(link("a", '<inertial><mass value="1"/></inertial>')),
        r"has a mass but no <inertia",
    ),
    "inertia nan": (urdf(link("a", _inertial(inertia="nan 0 0 1 0 1"))), r"inertia is"),
    "inertia indefinite": (
        urdf(link("a", _inertial(inertia="1 2 0 1 0 1"))),
        r"not positive definite: principal moments -1, 1, 3",
    ),
    "inertia of nothing real": (
        urdf(link("a", _inertial(inertia="1 0 0 1 0 3"))),
        r"not physical: principal moments 1, 1, 3 .*triangle inequality",
    ),
    "inertia in a bad frame": (
        urdf(link("a", _inertial(origin='<origin xyz="nan 0 0"/>'))),
        r"inertial: origin xyz",
    ),
    "box": (_visual('<box size="1 0 1"/>'), r"link 'a': visual 1: box size is .*positive"),
    "sphere": (_visual('<sphere radius="-1"/>'), r"sphere radius is \[-1.0\]"),
    "cylinder": (_visual('<cylinder radius="1" length="nan"/>'), r"cylinder radius, length"),
    "mesh": (_visual('<mesh filename=""/>'), r"mesh has an empty filename"),
    "mesh scale": (_visual('<mesh filename="m" scale="1 1 inf"/>'), r"mesh scale is"),
    "capsule": (
        _visual('<capsule radius="1" length="1"/>'),
        r"link 'a': .*capsule.*one of box, sphere, cylinder, mesh",
    ),
    "no geometry": (_visual(""), r"link 'a': .*one of box"),
    "colour": (
        urdf(
            link(
                "a",
                '<visual><geometry><sphere radius="1"/></geometry><material name="m">'
                '<color rgba="2 0 0 1"/></material></visual>',
            )
        ),
        r"material 'm' rgba is \[2.0, 0.0, 0.0, 1.0\]; each must lie in 0 to 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_each_fault_is_named(case, tmp_path):
    text, message = BAD[case]
    file = tmp_path / "bad.urdf"
    file.write_text(text)
    with pytest.raises(InvalidDescription, match=message) as caught:
        read_urdf(file)
    told = str(caught.value)
    assert told.startswith(f"{file}: ")
    assert told.rstrip().endswith((".", "x.urdf", "> robot.urdf"))
    # One readable line, without internals of a library.
    assert "\n" not in told
    assert "Traceback" not in told


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidDescription):
        read_urdf(tmp_path / "gone.urdf")


def test_a_file_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "picture.urdf"
    file.write_bytes(b"\xff\xfe\x00<robot/>")
    with pytest.raises(InvalidDescription):
        read_urdf(file)


def test_text_is_called_what_the_caller_calls_it():
    with pytest.raises(InvalidDescription):
        read_urdf("<a/>", "robot_description")


@pytest.fixture
def mesh(tmp_path):
    file = tmp_path / "my_robot" / "meshes" / "arm link.stl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"solid")
    return file


def test_absolute_relative_and_file_names(mesh):
    folder = mesh.parent.parent
    assert resolve_mesh("meshes/arm link.stl", folder) == mesh
    assert resolve_mesh(str(mesh), Path("/")) == mesh
    assert resolve_mesh(mesh.as_uri(), Path("/")) == mesh
    assert "%20" in mesh.as_uri()


def test_a_package_is_a_folder_above_or_stands_on_the_ament_path(mesh, tmp_path, monkeypatch):
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    name = "package://my_robot/meshes/arm link.stl"
    assert resolve_mesh(name, tmp_path / "my_robot" / "urdf") == mesh
    installed = tmp_path / "install" / "share" / "other"
    installed.mkdir(parents=True)
    (installed / "m.dae").touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(("/gone", str(tmp_path / "install"))))
    assert resolve_mesh("package://other/m.dae", tmp_path) == installed / "m.dae"


def test_a_robot_resolves_names_from_its_own_folder():
    robot = load_robot("jetbot")
    assert robot.mesh_path("jetbot.urdf") == robot.directory / "jetbot.urdf"
    own = robot.mesh_path("package://motion_nodes/robots/jetbot/jetbot.urdf")
    assert own.samefile(robot.directory / "jetbot.urdf")


def test_a_mesh_that_is_nowhere_lists_the_places(tmp_path, monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/opt/one:/opt/two")
    with pytest.raises(InvalidDescription, check=about("m.stl")) as caught:
        resolve_mesh("m.stl", tmp_path)
    assert str(tmp_path / "m.stl") in str(caught.value)
    with pytest.raises(InvalidDescription):
        resolve_mesh("package://p/m", tmp_path)
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    with pytest.raises(InvalidDescription):
        resolve_mesh("package://p/m", tmp_path)
    with pytest.raises(InvalidDescription):
        resolve_mesh("https://example.org/m.stl", tmp_path)


def test_relative_names_become_addresses_for_programs_that_get_the_text_alone(mesh):
    folder = mesh.parent.parent
    urdf = (
        '<mesh scale="1 1 1" filename="meshes/arm link.stl"/><mesh filename=\'/abs/b.stl\'/>'
        '<mesh filename="package://p/c.stl"/><link name="meshes/arm link.stl"/>'
    )
    found = with_absolute_meshes(urdf, folder)
    assert found == urdf.replace('filename="meshes/arm link.stl"', f'filename="{mesh.as_uri()}"')
    assert resolve_mesh(mesh.as_uri(), Path("/")) == mesh


def part(robot, name):
    group = robot.group(name)
    ends = [link for link in (group.base, group.tip) if link]
    text = group_urdf(robot.urdf, robot.tree, group.name, group.joints, ends)
    return group, read_urdf(text, "part")


@pytest.mark.parametrize("name", ["franka", "ur10e", "xarm7"])
def test_the_part_of_an_arm_has_its_kinematics(name):
    robot = load_robot(name)
    group, tree = part(robot, "arm")
    assert tree.name == group.name
    rng, whole = np.random.default_rng(1), Kinematics(robot.tree, group.joints, base=group.base)
    own = Kinematics(tree, group.joints, base=group.base)
    q = rng.uniform(group.limits.lower, group.limits.upper)
    assert np.allclose(own.pose(q, group.tip), whole.pose(q, group.tip))


def test_a_group_without_a_chain_has_the_links_of_its_joints():
    robot = load_robot("franka")
    _, tree = part(robot, "hand")
    assert {"panda_hand", "panda_leftfinger", "panda_rightfinger"} == set(tree.links)
