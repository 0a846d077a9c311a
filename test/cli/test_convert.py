# SPDX-License-Identifier: Apache-2.0
"""motion convert and describe: conversions between formats preserve robots."""

import shutil

import pytest
from model import xrdf_samples

from motion_nodes.core.robot.files.xrdf_file import read_xrdf
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker

FRANKA = load_robot("franka")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FRANKA.directory / "franka.urdf", tmp_path)
    shutil.copytree(FRANKA.directory / "meshes", tmp_path / "meshes")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("franka.xrdf", ("format_version: 2.0", "world_collision:")),
        ("franka.srdf", ('<group name="arm">', 'name="extended"', "end_effector")),
        ("franka.yaml", ("api_version: 1.0", "rule: fixed")),
        ("franka.yml", ("robot_cfg:", "lock_joints:")),
    ],
)
def test_a_robot_goes_out_and_comes_back(motion, folder, file, words):
    out = motion(f"convert franka {file}")
    assert out.code == 0, out.text
    text = (folder / file).read_text()
    assert all(word in text for word in words)
    back = motion(f"convert {file} back")
    assert back.code == 0, back.text
    robot = load_robot(folder / "back")
    assert robot.name == "back"
    assert robot.group("arm").joints == FRANKA.group("arm").joints
    assert robot.group("gripper").joints == FRANKA.group("gripper").joints
    if file == "franka.srdf":
        assert dict(robot.states["extended"]) == dict(FRANKA.states["extended"])
        assert robot.group("panda_arm").name == "arm"
    else:
        assert robot.spheres == FRANKA.spheres
        assert robot.limits.acceleration[:7].tolist() == FRANKA.limits.acceleration[:7].tolist()
        assert robot.home.tolist() == FRANKA.home.tolist()
    if file != "franka.yaml":
        # Lula's files contain no tools and no self-collision settings.
        assert robot.group("arm").tip == "panda_hand_tcp"
        checks = [CollisionChecker(r, "arm") for r in (robot, FRANKA)]
        folded = [0.0, 1.5, 0.0, -2.9, 0.0, 0.5, 0.0]
        # An SRDF has no spheres: those fitted to the meshes extend some centimetres beyond them.
        if file == "franka.srdf":
            checks = [check.exact for check in checks]
        free = [check.is_free(q) for check in checks for q in (FRANKA.home[:7], folded)]
        assert free == [True, False, True, False]


def test_xrdf_to_xrdf_needs_no_urdf_and_loses_nothing(motion, tmp_path):
    (tmp_path / "crane.xrdf").write_text(xrdf_samples.XRDF)
    done = motion(f"convert {tmp_path}/crane.xrdf {tmp_path}/old.xrdf --format xrdf-1.0")
    assert done.code == 0, done.text
    assert "format_version: 1.0" in (tmp_path / "old.xrdf").read_text()
    assert read_xrdf(tmp_path / "old.xrdf") == read_xrdf(tmp_path / "crane.xrdf")


def test_a_folder_keeps_what_the_modifiers_changed_and_finds_its_meshes(motion, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "boom.stl").write_text("solid nothing\nendsolid nothing\n")
    mesh = '<visual><geometry><mesh filename="shared/boom.stl"/></geometry></visual>'
    urdf = xrdf_samples.URDF.replace('<link name="boom"/>', f'<link name="boom">{mesh}</link>')
    (tmp_path / "crane.urdf").write_text(urdf)
    (tmp_path / "crane.xrdf").write_text(xrdf_samples.XRDF)
    done = motion(f"convert {tmp_path}/crane.xrdf {tmp_path}/robots/My-Crane")
    assert done.code == 0, done.text
    robot = load_robot(tmp_path / "robots" / "My-Crane")
    assert robot.name == "my_crane"
    assert robot.tree.root == "foot"
    assert "tcp" in robot.tree.links
    (shape,) = robot.tree.links["boom"].visuals
    assert robot.mesh_path(shape.geometry.filename).samefile(tmp_path / "shared" / "boom.stl")
    assert not list((tmp_path / "robots").glob(".*")), "no partial output remains"


def test_a_urdf_that_cannot_be_used_is_mended_and_that_is_told(motion, tmp_path):
    broken = 'effort="40"/>'
    assert broken in xrdf_samples.URDF
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", xrdf_samples.XRDF)
    (tmp_path / "crane.urdf").write_text(xrdf_samples.URDF.replace(broken, 'effort="0"/>'))
    refused = motion(f"describe {file}")
    assert refused.code == 2
    assert "joint 'lift': limit effort is 0" in refused.err
    done = motion(f"convert {file} {tmp_path}/crane")
    assert done.code == 0, done.text
    assert "limits.effort guessed" in done.err
    assert load_robot(tmp_path / "crane").limits.select(["lift"]).effort[0] > 0.0


def test_robots_of_other_systems_work_in_all_commands(motion, tmp_path):
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", xrdf_samples.XRDF)
    assert motion(f"fk {file} --json").data["frames"].keys() == {"tcp"}
    assert "group arm: 2 joints, foot to tcp" in motion(f"describe {file}").out
    assert motion(f"ik {file} --position 0.4,0.3,0.4 --tolerance 0.5").code == 0


@pytest.mark.parametrize("robot", ["franka", "kaya", "leatherback"])
def test_describe_for_machines(motion, robot):
    data = motion(f"describe {robot} --json").data
    model = load_robot(robot)
    assert list(data["joints"]) == list(model.joint_names)
    assert data["groups"].keys() == model.groups.keys()
    assert data["frames"] == list(model.tree.frame_names)
    for k, joint in enumerate(data["joints"].values()):
        assert joint["velocity"] == model.limits.velocity[k]


WRONG = [
    ("convert frank a.xrdf", "Did you mean 'franka'"),
    ("convert franka a.txt", "'a.txt' is not a known format"),
    ("convert franka a.xrdf --format xrfd", "Did you mean 'xrdf'"),
    ("convert franka there.xrdf", "already exists; use --force to overwrite it"),
    ("convert franka robots", "is already a robot folder"),
    ("convert jetbot a.xrdf", "jetbot has no group with base and tip"),
    ("convert franka a.xrdf --group arn", "Did you mean 'arm'"),
    ("convert franka no/where/a.xrdf", "cannot be written: No such file or directory"),
    ("convert nothing.xrdf robots", "robot 'nothing.xrdf' is not known"),
    ("convert lonely.xrdf robots", "lonely.urdf or a single URDF must lie beside it"),
    ("convert lonely.xrdf there.xrdf/a --urdf crane.urdf", "cannot be written"),
    ("convert lonely.xrdf full --urdf crane.urdf", "full exists already; nothing was written"),
    ("convert lonely.xrdf robots --urdf gone.urdf", "gone.urdf: there is no such file"),
]


@pytest.mark.parametrize(("command", "words"), WRONG, ids=[c for c, _ in WRONG])
def test_wrong_use_writes_nothing(motion, tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.xrdf").write_text("mine")
    (tmp_path / "lonely.xrdf").write_text(xrdf_samples.XRDF)
    (tmp_path / "full").mkdir()
    if "--urdf crane.urdf" in command:
        (tmp_path / "crane.urdf").write_text(xrdf_samples.URDF)
    before = sorted(tmp_path.rglob("*"))
    done = motion(command)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.xrdf").read_text() == "mine"
