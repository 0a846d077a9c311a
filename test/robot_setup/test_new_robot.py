# SPDX-License-Identifier: Apache-2.0
"""Robots from URDFs: they plan and follow targets; failures leave no files behind."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about
from robot_setup.urdf_samples import INERTIAL, LIMIT, arm, joint, link, robot
from typer.testing import CliRunner

from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.robot.rmpflow_settings import read_rmpflow
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError
from motion_nodes.extras.robot_setup.link_shapes import random_configurations
from motion_nodes.extras.robot_setup.new_robot import new_robot


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "sample.urdf").write_text(arm(6, name="My Robot"))
    return new_robot(folder / "sample.urdf", output=folder / "my_robot")


def test_the_folder_is_whole(made):
    names = sorted(path.name for path in made.directory.iterdir())
    texts = ["README.md", "rmpflow.yaml", "robot.urdf", "robot.yaml", "spheres.yaml"]
    assert names == sorted([*texts, "robot.png"])
    assert made.robot.name == "my_robot"
    assert made.robot.group("manipulator").tip == made.robot.tool_frame == "tool0"
    for heading in ("## Guesses", "## Collision spheres", "## Self-collisions"):
        assert heading in (made.directory / "README.md").read_text()
    assert sorted(path.name for path in made.directory.parent.iterdir()) == [
        "my_robot",
        "sample.urdf",
    ]


def test_the_reactive_policy_keeps_off_a_base_above_the_root(tmp_path):
    """The picture is left out, as for robots that are derived on demand."""
    mount = joint("mount", "base_footprint", "base_link", kind="fixed", xyz="0 0 0.5", inside="")
    text = arm(4, '<link name="base_footprint"/>', mount).replace('"link_0"', '"base_link"')
    (tmp_path / "sample.urdf").write_text(text)
    made = new_robot(
        tmp_path / "sample.urdf", output=tmp_path / "above", picture=False, spheres_accuracy=0.03
    )
    assert made.robot.base_frame == "base_link"
    (pillar,) = read_rmpflow(made.directory).body_cylinders
    assert (pillar.pt1, pillar.pt2) == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.25))
    assert "robot.png" not in (made.directory / "README.md").read_text()


def test_states_are_free_and_within_limits(made):
    checker = CollisionChecker(made.robot)
    for name in ("home", "ready"):
        q = made.robot.named_state(name)
        assert made.robot.limits.within(q)
        assert checker.is_free(q)


def bar(size: str, place: str) -> str:
    """Return mass and shape of a link that is a box."""
    shape = f'<origin xyz="{place}"/><geometry><box size="{size}"/></geometry>'
    return f"{INERTIAL}<collision>{shape}</collision>"


def test_links_that_touch_where_all_joints_are_zero_do_not_at_home(tmp_path):
    """Pairs that touch at home would be ignored everywhere."""
    narrow = LIMIT.replace("2.5", "2.0")  # spheres overlap in a third of the configurations
    file = tmp_path / "folded.urdf"
    file.write_text(
        robot(
            link("base", bar("0.3 0.3 0.2", "0 0 0.1")),
            link("upper", bar("0.34 0.05 0.05", "0.17 0 0")),
            link("lower", bar("0.25 0.05 0.05", "-0.125 0 0")),
            joint("turn", "base", "upper", xyz="0 0 0.1", axis="0 0 1"),
            joint("fold", "upper", "lower", xyz="0.34 0 0", axis="0 0 1", inside=narrow),
        )
    )
    folded = new_robot(file, output=tmp_path / "folded", picture=False)
    collision = replace(folded.robot.description.collision, ignore=(), ignore_spheres=())
    every = replace(
        folded.robot, description=replace(folded.robot.description, collision=collision)
    )
    touching = CollisionChecker(every).exact.touching
    assert ("base", "lower") in touching(np.zeros(2))
    for name in folded.robot.state_names:
        assert ("base", "lower") not in touching(folded.robot.named_state(name))
    assert not CollisionChecker(folded.robot).exact.is_free(np.zeros(2))


def test_pairs_that_never_meet_do_not_meet_elsewhere(made):
    """The pairs never touch in configurations other than the samples."""
    never = made.self_collisions.of("never")
    assert never
    rng = np.random.default_rng(99)
    checker = CollisionChecker(made.robot)
    bodies = np.array(checker.sphere_bodies)
    for q in random_configurations(made.robot, 200, rng):
        spheres = checker.sphere_positions(q)
        for a, b in never:
            one, other = spheres[bodies == a], spheres[bodies == b]
            gaps = np.linalg.norm(one[:, None, :3] - other[None, :, :3], axis=2)
            assert (gaps - one[:, None, 3] - other[None, :, 3]).min() > 0.0


def test_the_share_of_free_configurations_is_that_of_the_checker(made):
    Q = random_configurations(made.robot, 3000, np.random.default_rng(5))
    share = CollisionChecker(made.robot).are_free(Q).mean()
    assert made.free_share == pytest.approx(share, abs=0.04)
    assert share > 0.2


def test_it_plans_a_motion(made):
    checker = CollisionChecker(made.robot, "arm")
    start = made.robot.named_state("home", "arm")
    goal = made.robot.named_state("ready", "arm")
    result = plan(PlanRequest(checker, start, (JointGoal(goal),), timeout=60.0))
    assert result.trajectory is not None, result.reason
    np.testing.assert_allclose(result.trajectory.positions[-1], goal, atol=1e-6)


def test_its_policy_goes_to_a_target(made):
    policy = RmpflowPolicy(made.robot)
    q = made.robot.named_state("ready", "arm")
    v = np.zeros(6)
    kinematics = Kinematics(made.robot.tree)
    target = kinematics.pose(made.robot.named_state("ready"), "tool0")[:3, 3] + (0.0, 0.1, -0.05)
    policy.set_end_effector_target(target)
    for _ in range(400):
        q, v = policy.compute_joint_targets(q, v)
    full = made.robot.home.copy()
    full[made.robot.indices(made.robot.group("arm").joints)] = q
    assert np.linalg.norm(kinematics.pose(full, "tool0")[:3, 3] - target) < 0.01


def test_its_policy_leaves_the_stretched_home_for_the_pose_of_its_posture(made):
    policy = RmpflowPolicy(made.robot)
    ready = policy.default_cspace_target
    np.testing.assert_array_equal(ready, made.robot.named_state("ready", "arm"))
    assert ready[0] == ready[5] == 0.0  # joints at the ends do not change the manipulability
    assert policy.settings.self_collision_rmp.metric_scalar > 0.0
    q, v = made.robot.named_state("home", "arm"), np.zeros(6)
    X = policy.tool_pose(ready)
    policy.set_end_effector_target(X[:3, 3], to_quat_xyzw(X))
    for _ in range(300):
        q, v = policy.compute_joint_targets(q, v)
    assert policy.status.position_error < 0.002
    assert policy.status.orientation_error < 0.01


def test_equal_seeds_make_equal_robots(made, tmp_path):
    again = new_robot(made.directory.parent / "sample.urdf", output=tmp_path / "again")
    for name in ("robot.yaml", "spheres.yaml", "rmpflow.yaml"):
        assert (again.directory / name).read_text() == (made.directory / name).read_text()


def test_what_exists_is_refused_and_with_force_moved_aside(tmp_path):
    file = tmp_path / "r.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b")))
    target = tmp_path / "mine"
    target.mkdir()
    (target / "notes.txt").write_text("years of work")
    with pytest.raises(InvalidConfig):
        new_robot(file, output=target)
    found = new_robot(file, output=target, force=True)
    assert found.kept == tmp_path / "mine.old1"
    assert (found.kept / "notes.txt").read_text() == "years of work"
    assert load_robot(target).joint_names == ("j",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "Not A Name"}, "name"),
        ({"name": "franka"}, "franka"),
        ({"output": "no/such/folder"}, "output"),
        ({"spheres_accuracy": 0.0}, "spheres_accuracy"),
    ],
)
def test_bad_options_are_refused(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.urdf").write_text(robot(link("a"), link("b"), joint("j", "a", "b")))
    with pytest.raises(MotionError, check=about(words)):
        new_robot("r.urdf", **options)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["r.urdf"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    file = tmp_path / "r.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b")))

    def full_disk(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("motion_nodes.extras.robot_setup.folder_files.copy_meshes", full_disk)
    with pytest.raises(InvalidConfig):
        new_robot(file, output=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["r.urdf"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "r.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b")))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(InvalidConfig):
        new_robot(file, output=closed / "out")


def test_a_robot_that_does_not_move_is_refused(tmp_path):
    file = tmp_path / "r.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b", kind="fixed", inside="")))
    with pytest.raises(InvalidDescription):
        new_robot(file, output=tmp_path / "out")


@pytest.mark.long
def test_three_hundred_links_and_foreign_names(tmp_path):
    parts = [link("Wurzel-0", INERTIAL)]
    for k in range(1, 300):
        kind = "revolute" if k % 10 == 0 else "fixed"
        inside = link(f"Glied-ä{k}") if k % 25 == 0 else link(f"Glied-ä{k}", INERTIAL)
        above = f"Glied-ä{k - 1}" if k > 1 else "Wurzel-0"
        parts += [inside, joint(f"关节{k}", above, f"Glied-ä{k}", kind=kind, xyz="0.01 0 0.02")]
    (tmp_path / "r.urdf").write_text(robot(*parts, name="Schlange"))
    found = new_robot(tmp_path / "r.urdf", output=tmp_path / "out")
    assert found.robot.name == "schlange"
    assert len(found.robot.tree.frame_names) == 300
    assert len(found.robot.joint_names) == 29
    assert len(found.coverage) == 11


@pytest.mark.long
def test_the_command_tells_what_was_guessed_and_what_is_next(tmp_path, monkeypatch):
    from motion_nodes.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.urdf").write_text(robot(link("a"), link("b"), joint("j", "a", "b"), name="r1"))
    result = CliRunner().invoke(app, ["new", "r.urdf"])
    assert result.exit_code == 0, result.output
    assert "next: motion up ./r1" in result.output
    assert "estimated" in result.output
    told = CliRunner().invoke(app, ["new", "r.urdf", "--name", "r2", "--json"])
    data = json.loads(told.output)
    assert data["groups"]["arm"]["joints"] == ["j"]
    assert {item["kind"] for item in data["findings"]} >= {"guessed"}
    assert load_robot(data["directory"]).name == "r2"
