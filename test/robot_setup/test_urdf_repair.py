# SPDX-License-Identifier: Apache-2.0
"""URDFs and xacro files that are repaired with a note, or rejected."""

from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from robot_setup.urdf_samples import BAR, INERTIAL, LIMIT, arm, joint, link, robot

from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.folder_files import sort_out
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.robot_source import read_source
from motion_nodes.extras.robot_setup.urdf_repair import repair
from motion_nodes.extras.robot_setup.xacro_expansion import (
    declared_arguments,
    parse_arguments,
    split_arguments,
)

FILE = Path("robot.urdf")


def mended(text: str) -> tuple[KinematicTree, list[str]]:
    """Return the tree after a repair, and the notes."""
    root = etree.fromstring(text)
    findings = Notes()
    repair(root, FILE, findings)
    return read_urdf(etree.tostring(root, encoding="unicode")), [f.text for f in findings]


def two_links(**changes: str) -> str:
    """Return a robot of one joint."""
    return robot(link("a"), link("b"), joint("j", "a", "b", **changes))


def test_a_joint_can_move_within_its_effort_limit():
    stuck = '<limit lower="-1" upper="0" velocity="1" effort="1"/><dynamics {}="1" damping="1"/>'
    tree, told = mended(two_links(inside=stuck.format("friction")))
    (moved,) = (tree.joints[name] for name in tree.joint_names)
    assert 0.0 < moved.friction + moved.damping * moved.velocity <= 0.5
    assert len(told) == 1
    assert mended(two_links(inside=stuck.format("none")))[1] == []
    # Damping is limited with a guessed effort limit, too.
    tree, _ = mended(two_links(inside='<limit velocity="9"/><dynamics damping="20"/>'))
    (moved,) = (tree.joints[name] for name in tree.joint_names)
    assert 0.0 < moved.damping * 9.0 <= 0.501 * moved.effort


def test_a_sound_robot_is_left_alone():
    tree, told = mended(arm(6))
    assert told == []
    assert len(tree.joint_names) == 6


@pytest.mark.parametrize(
    ("inside", "kind", "lower", "upper", "velocity"),
    [
        ("", "revolute", -np.pi, np.pi, 1.0),
        ("", "prismatic", 0.0, 0.1, 0.1),
        ('<limit effort="5" velocity="0"/>', "revolute", -np.pi, np.pi, 1.0),
        ('<limit lower="2" upper="-1" effort="5" velocity="3"/>', "revolute", -1.0, 2.0, 3.0),
        ('<limit lower="-inf" upper="inf" effort="5" velocity="3"/>', "prismatic", 0.0, 0.1, 3.0),
        # As files write the position of a base that drives as a joint.
        ('<limit lower="-999999" upper="999999" velocity="4"/>', "prismatic", -10.0, 10.0, 4.0),
        ('<limit lower="0" upper="1e6" effort="5" velocity="4"/>', "prismatic", 0.0, 10.0, 4.0),
        # As SolidWorks' exporter writes limits that were not entered.
        ('<limit lower="0" upper="0" effort="0" velocity="0"/>', "revolute", -np.pi, np.pi, 1.0),
    ],
)
def test_missing_limits_are_guessed_and_told(inside, kind, lower, upper, velocity):
    tree, told = mended(two_links(inside=inside, kind=kind))
    found = tree.joints["j"]
    assert (found.lower, found.upper, found.velocity) == pytest.approx((lower, upper, velocity))
    assert told
    assert all("j" in text for text in told)


def test_limits_in_degrees_and_placeholders_are_kept_and_told():
    limit = '<limit lower="-90" upper="90" effort="5" velocity="{}"/>'
    for speed, doubts in ((2, 1), (180, 2)):
        tree, told = mended(two_links(inside=limit.format(speed)))
        assert (tree.joints["j"].upper, tree.joints["j"].velocity) == (90.0, speed)
        assert len(told) == doubts
        assert "degrees" in told[0]


def test_equal_repairs_are_told_once():
    limit = '<limit lower="-1" upper="1" effort="5" velocity="1"/><dynamics friction="9"/>'
    more = [link("x"), link("y"), joint("jx", "link_2", "x", inside=limit),
            joint("jy", "x", "y", inside=limit)]  # fmt: skip
    _, told = mended(arm(2, *more))
    (text,) = (text for text in told if "friction" in text)
    assert text.startswith("jx, jy: ")


def test_a_missing_speed_is_that_of_the_other_joints():
    more = [link("x"), joint("jx", "link_2", "x", inside='<limit lower="-1" upper="1"/>')]
    tree, told = mended(arm(2, *more))
    assert tree.joints["jx"].velocity == 2.0
    assert tree.joints["jx"].effort == 80.0
    assert any("gives jx no speed" in text for text in told)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"kind": "floating", "inside": ""}, JointKind.FIXED),
        ({"kind": "planar", "inside": ""}, JointKind.FIXED),
        ({"inside": '<limit lower="1" upper="1" velocity="1" effort="1"/>'}, JointKind.FIXED),
        (
            {"inside": '<limit lower="-9999" upper="9999" velocity="1" effort="1"/>'},
            JointKind.CONTINUOUS,
        ),
    ],
)
def test_a_type_that_cannot_be_used_is_changed_and_told(changes, kind):
    tree, told = mended(two_links(**changes))
    assert tree.joints["j"].kind is kind
    assert len(told) == 1


def test_masses_that_no_body_has():
    zero = INERTIAL.replace('value="2.0"', 'value="0"')
    flat = INERTIAL.replace('izz="0.01"', 'izz="9"')
    tree, told = mended(
        robot(link("a", zero), link("b", flat), joint("j", "a", "b", kind="continuous"))
    )
    assert tree.links["a"].inertial is None
    inertial = tree.links["b"].inertial
    assert inertial is not None
    # A ball with the density of water: 2/5 m r^2.
    radius = (3.0 * 2.0 / (4.0 * np.pi * 1000.0)) ** (1.0 / 3.0)
    np.testing.assert_allclose(inertial.inertia, np.eye(3) * 0.4 * 2.0 * radius**2, rtol=1e-3)
    assert len(told) == 2


def test_a_mimic_without_the_prefix_of_its_hand_is_completed():
    hands = [
        joint(f"{side}_q{k}", end, f"{side}{k}", inside=LIMIT + mimic)
        for side in ("left", "right")
        for k, end, mimic in ((1, "a", ""), (2, f"{side}1", '<mimic joint="q1"/>'))
    ]
    links = [link(name) for name in ("a", "left1", "left2", "right1", "right2")]
    tree, told = mended(robot(*links, *hands))
    for side in ("left", "right"):
        mimic = tree.joints[f"{side}_q2"].mimic
        assert mimic is not None
        assert mimic.joint == f"{side}_q1"
    assert len(told) == 2


def test_a_chain_of_mimics_follows_its_first_joint():
    text = robot(
        *(link(name) for name in "abcd"),
        joint("j1", "a", "b"),
        joint("j2", "b", "c", inside=LIMIT + '<mimic joint="j1" multiplier="2" offset="0.1"/>'),
        joint("j3", "c", "d", inside=LIMIT + '<mimic joint="j2" multiplier="-1" offset="1"/>'),
    )
    mimic = mended(text)[0].joints["j3"].mimic
    assert mimic is not None
    # q3 = -q2 + 1 = -(2 q1 + 0.1) + 1
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("j1", -2.0, pytest.approx(0.9))


def test_shapes_without_a_size_and_colours_out_of_range():
    empty = "<collision><geometry><box size='0 0 0'/></geometry></collision>"
    bright = (
        "<visual><geometry><box size='1 1 1'/></geometry><material name='m'>"
        "<color rgba='255 0 51 1'/></material></visual>"
    )
    tree, told = mended(robot(link("a", empty + BAR + bright), link("b"), joint("j", "a", "b")))
    assert len(tree.links["a"].collisions) == 1
    assert tree.links["a"].visuals[0].rgba == pytest.approx((1.0, 0.0, 0.2, 1.0))
    assert len(told) == 2


def test_vectors_and_geometries_that_say_too_much_or_too_little():
    two = BAR.replace("</geometry>", '<box size="1 1 1"/></geometry>')
    tree, told = mended(
        robot(link("a", two), link("b"), joint("j", "a", "b", xyz="1 2", axis="0 1 0 0"))
    )
    assert tree.joints["j"].X_PJ[:3, 3].tolist() == [1.0, 2.0, 0.0]
    assert tree.joints["j"].axis.tolist() == [0.0, 1.0, 0.0]
    assert len(tree.links["a"].collisions) == 1
    assert len(told) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (robot(link("a"), link("a")), r"link.*'a'.*twice.*first.*line.*\b1\b"),
        (robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("j", "b", "c")),
         "'j'.*twice"),
        (robot("<link/>"), "link.*name"),
        (robot(link("a"), link("b"), joint("", "a", "b")), "a joint has no name"),
        (robot(link("a"), joint("j", "a", "x")), "child.*link.*'x'.*exist"),
        (robot(link("a"), link("b"), link("c"), joint("j", "a", "c"), joint("k", "b", "c")),
         "closed loop"),
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
         "form a closed loop"),
        (robot(link("a"), link("b")), r"\b2\b.*links.*hang"),
        (two_links(kind="spherical"), "type 'spherical'"),
        (two_links(inside='<limit lower="low" upper="1"/>'), "'low'"),
        (two_links(inside=LIMIT + '<mimic joint="x"/>'), "mimics.*'x'.*exist"),
        (two_links(inside=LIMIT + '<mimic joint="j"/>'), "mimics itself"),
    ],
)  # fmt: skip
def test_what_has_no_sensible_guess_is_refused_with_its_line(text, words):
    with pytest.raises(InvalidDescription, match=words) as caught:
        mended(text)
    assert str(caught.value).startswith("robot.urdf")


def test_names_need_not_be_ascii():
    text = robot(link("Fuß"), link("Arm_β"), joint("关节", "Fuß", "Arm_β"), name="Größe")
    tree, told = mended(text)
    assert tree.joint_names == ("关节",)
    assert told == []


STL = (
    "solid s\n" + "facet normal 0 0 0\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 1\n"
    "endloop\nendfacet\nendsolid s\n"
)  # fmt: skip


def with_mesh(filename: str, scale: str = "1 1 1") -> str:
    mesh = f'<collision><geometry><mesh filename="{filename}" scale="{scale}"/></geometry>'
    return robot(link("a"), link("b", mesh + "</collision>"), joint("j", "a", "b"))


def test_meshes_are_found_by_package_path_and_beside_the_urdf(tmp_path, monkeypatch):
    for folder in ("here/meshes", "share/my_robot/meshes", "ros/share/other/meshes"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "m.stl").write_text(STL)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros"))
    search = PackageSearch(tmp_path / "here", (tmp_path / "share",))
    assert search.find("meshes/m.stl") == tmp_path / "here/meshes/m.stl"
    assert search.find("package://my_robot/meshes/m.stl").parts[-4] == "share"
    assert search.find("package://other/meshes/m.stl") == tmp_path / "ros/share/other/meshes/m.stl"
    # A checkout of the package under another name: the folders above the URDF are searched.
    assert search.find("package://renamed/meshes/m.stl") == tmp_path / "here/meshes/m.stl"
    with pytest.raises(InvalidDescription):
        search.find("package://gone/x.stl")


@pytest.mark.parametrize(
    ("filename", "scale", "words"),
    [
        ("m.stl", "1e-9 1e-9 1e-9", "1e-09.*large"),
        ("m.stl", "1000 1000 1000", r"1e\+03.*large"),
        ("m.stl", "0 1 1", r"three.*numbers.*\b0\b"),
        ("m.stl", "big", "three numbers"),
        ("gone.stl", "1 1 1", "'gone.stl'.*checked.*collisions"),
        ("m.fbx", "1 1 1", r"\.stl.*\.obj.*\.dae.*files"),
    ],
)
def test_a_mesh_that_cannot_be_used_is_named(tmp_path, filename, scale, words):
    (tmp_path / "m.stl").write_text(STL)
    (tmp_path / "m.fbx").write_text("")
    root = etree.fromstring(with_mesh(filename, scale))
    with pytest.raises(InvalidDescription, match=words):
        sort_out(root, PackageSearch(tmp_path), Notes(), allow_missing=False, file=FILE)


def test_missing_meshes_may_be_left_out_and_are_told(tmp_path):
    root, findings = etree.fromstring(with_mesh("gone.stl")), Notes()
    sort_out(root, PackageSearch(tmp_path), findings, allow_missing=True, file=FILE)
    assert root.find("link[@name='b']/collision") is None
    assert [f.kind for f in findings] == ["missing"]


def test_a_shape_with_an_empty_mesh_is_left_out_and_told(tmp_path):
    (tmp_path / "m.stl").write_bytes(bytes(84))
    root, findings = etree.fromstring(with_mesh("m.stl")), Notes()
    sort_out(root, PackageSearch(tmp_path), findings, allow_missing=False, file=FILE)
    assert root.find("link[@name='b']/collision") is None
    assert [f.kind for f in findings] == ["changed"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "XML"),
        ("<sdf/>", "robot.*sdf"),
        ("<robot", "XML"),
    ],
)
def test_what_is_no_urdf_is_refused(tmp_path, text, words):
    file = tmp_path / "r.urdf"
    file.write_text(text)
    with pytest.raises(InvalidDescription, match=words):
        read_source(file)


def test_a_shape_of_a_nanometre_is_left_out_and_one_of_a_kilometre_refused():
    box = '<collision><geometry><box size="{0} {0} {0}"/></geometry></collision>'
    tree, told = mended(
        robot(link("a", INERTIAL + box.format(1e-9)), link("b"), joint("j", "a", "b"))
    )
    assert not tree.links["a"].collisions
    assert "negligible" in told[0]
    with pytest.raises(InvalidDescription):
        mended(robot(link("a", INERTIAL + box.format(1e3)), link("b"), joint("j", "a", "b")))


def test_environment_variables_of_xacro_are_put_in(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOL_RPY", "0 0 1.5")
    places = 'xyz="$(optenv TOOL_XYZ 0.1 0 0.2)" rpy="$(optenv TOOL_RPY 0 0 0)"'
    text = arm(2).replace('<origin xyz="0 0 0.3"/>', f"<origin {places}/>")
    tree, told = mended(text)
    X = tree.joints["tool_joint"].X_PJ
    np.testing.assert_allclose(X[:3, 3], (0.1, 0.0, 0.2))
    assert np.arctan2(X[1, 0], X[0, 0]) == pytest.approx(1.5)
    assert len(told) == 2


def test_other_expressions_of_xacro_are_refused_with_line_and_way_out():
    text = arm(2).replace('xyz="0 0 0.3"', 'xyz="0 0 ${height}" rpy="$(env NOT_SET_ANYWHERE) 0 0"')
    with pytest.raises(InvalidDescription) as told:
        mended(text)
    height = "line 1: xyz of <origin> contains ${height}"
    for words in (height, "$(env NOT_SET_ANYWHERE)", "pip inst"):
        assert words in str(told.value)


def test_of_two_twins_the_endless_one_gets_the_limits_that_it_states():
    steering = '<limit lower="-0.6" upper="0.6" velocity="1" effort="5"/>'
    parts = [link("a"), link("b"), link("c"), link("d")]
    parts += [
        joint("left_steering", "a", "b", inside=steering),
        joint("right_steering", "a", "c", kind="continuous", inside=steering),
        joint("wheel", "a", "d", kind="continuous", inside=LIMIT),
    ]
    tree, told = mended(robot(*parts))
    assert tree.joints["right_steering"].kind is JointKind.REVOLUTE
    assert tree.joints["wheel"].kind is JointKind.CONTINUOUS
    assert "right_steering made revolute" in told[0]


TOLERATED = {
    "text before the declaration": 'oops\n<?xml version="1.0"?>{}',
    "another XML version": '<?xml version="0.0" ?>{}',
    "undeclared prefix": "{}",
}


@pytest.mark.parametrize("what", TOLERATED)
def test_faults_that_other_readers_tolerate_are_tolerated(tmp_path, what):
    text = two_links()
    if what == "undeclared prefix":
        text = text.replace("</robot>", '<drake:joint drake:name="x"/></robot>')
    (tmp_path / "r.urdf").write_text(TOLERATED[what].format(text))
    assert read_source(tmp_path / "r.urdf").root.find("joint").get("name") == "j"


def test_nameless_materials_and_empty_textures_are_repaired():
    visual = (
        '<visual><geometry><sphere radius="0.1"/></geometry>'
        "<material><color rgba='1 0 0 1'/><texture/></material></visual>"
    )
    tree, told = mended(robot(link("a", INERTIAL + visual), link("b"), joint("j", "a", "b")))
    assert tree.links["a"].visuals[0].rgba == (1.0, 0.0, 0.0, 1.0)
    assert len(told) == 1


def test_a_scale_of_four_numbers_is_three():
    mesh = '<collision><geometry><mesh filename="m.stl" scale="2 2 2 1"/></geometry></collision>'
    tree, _ = mended(robot(link("a", INERTIAL + mesh), link("b"), joint("j", "a", "b")))
    shape = tree.links["a"].collisions[0].geometry
    assert getattr(shape, "scale", None) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("<!DOCTYPE html><html><body>404</body></html>", "web page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1", "git-lfs"),
        ("<sdf version='1.6'/>", "SDF"),
    ],
)
def test_other_files_are_called_what_they_are(tmp_path, content, words):
    (tmp_path / "r.urdf").write_text(content)
    with pytest.raises(InvalidDescription) as refused:
        read_source(tmp_path / "r.urdf")
    assert words in str(refused.value)


def test_a_folder_is_read_if_it_holds_one_urdf(tmp_path):
    with pytest.raises(InvalidDescription):
        read_source(tmp_path)
    (tmp_path / "only.urdf").write_text(two_links())
    assert read_source(tmp_path).file.name == "only.urdf"


XMLNS = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
MACRO = f"""<robot {XMLNS}>
  <xacro:macro name="arm" params="prefix length">
    <link name="${{prefix}}base"/>
    <link name="${{prefix}}tip"/>
    <joint name="${{prefix}}joint" type="revolute">
      <parent link="${{prefix}}base"/><child link="${{prefix}}tip"/>
      <origin xyz="0 0 ${{length}}"/><axis xyz="0 0 1"/>
      <limit lower="-1" upper="1" effort="1" velocity="1"/>
    </joint>
  </xacro:macro>
</robot>"""
TOP = f"""<?xml version="1.0"?>
<robot name="made" {XMLNS}>
  <!-- length of the arm in metres -->
  <xacro:arg name="length" default="0.5"/>
  <xacro:arg name="prefix" default=""/>
  <xacro:include filename="$(find arm_parts)/urdf/arm.xacro"/>
  <xacro:arm prefix="$(arg prefix)" length="${{2 * $(arg length)}}"/>
</robot>"""


def package(folder: Path, name: str) -> Path:
    """Create the folder of a package, under any folder name."""
    (folder / "urdf").mkdir(parents=True)
    (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    return folder


@pytest.fixture
def workspace(tmp_path):
    """Return a workspace with two packages that are not installed."""
    parts = package(tmp_path / "src" / "vendor" / "arm_parts", "arm_parts")
    (parts / "urdf" / "arm.xacro").write_text(MACRO)
    robot = package(tmp_path / "src" / "robot_description", "robot_description")
    (robot / "urdf" / "made.urdf.xacro").write_text(TOP)
    return tmp_path


def file_of(workspace: Path) -> Path:
    return workspace / "src" / "robot_description" / "urdf" / "made.urdf.xacro"


def test_packages_are_found_in_a_workspace_and_arguments_given(workspace):
    found = read_source(file_of(workspace), [workspace], {"prefix": "left_", "length": "0.25"})
    joint = found.root.find("joint")
    assert joint.get("name") == "left_joint"
    assert joint.find("origin").get("xyz").split()[2] == "0.5"


def test_a_package_next_to_the_robots_is_found_without_being_told(workspace):
    (workspace / "src" / "vendor" / "arm_parts").rename(workspace / "src" / "arm_parts")
    assert read_source(file_of(workspace)).root.find("joint").get("name") == "joint"


def test_a_missing_package_is_named_with_places_and_remedy(tmp_path, workspace):
    (workspace / "src" / "vendor").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidDescription) as refused:
        read_source(file_of(workspace))
    for words in ("arm_parts", str(workspace / "src"), "--package-path"):
        assert words in str(refused.value)


def test_macros_of_missing_equipment_that_is_not_used_are_left_out(workspace):
    include = '<xacro:include filename="$(find camera)/c.xacro"/>'
    file_of(workspace).write_text(TOP.replace("<xacro:arg", f"{include}<xacro:arg", 1))
    notes = Notes()
    found = read_source(file_of(workspace), [workspace], findings=notes)
    assert found.root.find("joint") is not None
    assert [(n.kind, n.topic) for n in notes] == [("missing", "xacro")]
    assert "camera" in next(iter(notes)).text


def test_undefined_arguments_are_listed_with_what_the_file_says(workspace):
    file = file_of(workspace)
    file.write_text(TOP.replace('"$(arg prefix)"', '"$(arg prefix)$(arg side)"'))
    with pytest.raises(InvalidDescription) as refused:
        read_source(file, [workspace])
    assert "side" in str(refused.value)
    assert "length (default '0.5'; length of the arm in metres)" in str(refused.value)
    found = read_source(file, [workspace], {"side": "left_"})
    assert found.root.find("joint").get("name") == "left_joint"
    with pytest.raises(InvalidDescription, match="lenght"):
        read_source(file, [workspace], {"side": "", "lenght": "2"})
    first = declared_arguments(file)[0]
    assert (first.name, first.default, first.comment) == (
        "length",
        "0.5",
        "length of the arm in metres",
    )


def test_arguments_are_refused_where_there_is_no_xacro(tmp_path):
    file = tmp_path / "r.urdf"
    file.write_text('<robot name="r"><link name="a"/></robot>')
    with pytest.raises(InvalidDescription):
        read_source(file, arguments={"name": "x"})


@pytest.mark.parametrize("word", ["name=ur", ":=ur", "a-b:=1", "name"])
def test_words_that_are_no_arguments_are_refused(word):
    with pytest.raises(InvalidDescription):
        parse_arguments([word])


def test_a_robot_named_with_its_arguments_is_split():
    assert split_arguments("my robot.urdf") == ("my robot.urdf", {})
    assert split_arguments("'my ur.xacro' name:=ur limit:='a b'") == (
        "my ur.xacro",
        {"name": "ur", "limit": "a b"},
    )
    with pytest.raises(InvalidDescription):
        split_arguments("r.xacro a:=1 a:=2")


def test_an_endless_file_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("motion_nodes.extras.robot_setup.xacro_expansion._TIMEOUT", 2.0)
    file = tmp_path / "r.urdf.xacro"
    file.write_text(
        f'<robot name="r" {XMLNS}><xacro:property name="n" value="${{10**10**10}}"/>'
        '<link name="a${n}"/></robot>'
    )
    with pytest.raises(InvalidDescription):
        read_source(file)


def test_files_are_found_whatever_case_and_slashes_they_are_named_with(tmp_path):
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "Arm.STL").touch()
    search = PackageSearch(tmp_path)
    assert search.find("meshes\\arm.stl").name == "Arm.STL"
    with pytest.raises(InvalidDescription):
        search.find("meshes/leg.stl")


def test_a_file_of_macros_only_names_them(tmp_path):
    file = tmp_path / "base.urdf.xacro"
    file.write_text(
        f'<robot {XMLNS}><xacro:macro name="my_base" params="x"><link name="a"/>'
        "</xacro:macro></robot>"
    )
    with pytest.raises(InvalidDescription, match="my_base"):
        read_source(file)
