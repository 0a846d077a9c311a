# SPDX-License-Identifier: Apache-2.0
"""Units and frames of values, files that are read and written, and names with brackets."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from motion_nodes.cli import tune
from motion_nodes.cli.learning_commands import _replayed
from motion_nodes.cli.output import write_output
from motion_nodes.core.reactive.tuning import Summary
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.trajectory_files import read_motion
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription


def test_degrees_are_not_applied_to_prismatic_joints_by_name(motion):
    fk = "fk franka --group gripper --degrees --json --joints "
    named = motion(fk + "panda_finger_joint1=0.02,panda_finger_joint2=0.02")
    listed = motion(fk + "0.02,0.02")
    assert named.data == listed.data
    assert named.data["joints"]["panda_finger_joint1"] == 0.02
    turned = motion("fk franka --degrees --json --joints panda_joint1=90")
    assert turned.data["joints"]["panda_joint1"] == pytest.approx(0.5 * np.pi)


@pytest.mark.long
def test_poses_of_a_batch_are_in_the_base_frame_of_the_robot(motion, tmp_path):
    # The left arm of the G1 has another base, its torso.
    file, there = tmp_path / "poses.csv", "--group left_arm --frame left_wrist_yaw_link --json"
    (pose,) = motion(f"fk g1 --state home {there}").data["frames"].values()
    file.write_text(",".join(map(str, [*pose["position"], *pose["quat_xyzw"]])))
    (row,) = motion(f"batch g1 {file} --group left_arm --json").data["poses"]
    assert row["solved"]
    joints = ",".join(f"{x:.9f}" for x in row["positions"])
    (reached,) = motion(f"fk g1 --joints={joints} {there}").data["frames"].values()
    np.testing.assert_allclose(reached["position"], pose["position"], atol=2e-3)


@pytest.mark.parametrize("rows", ["0,0,1,0.5\n", "0\n1\n", "0,0\n1\n"])
def test_a_table_whose_rows_do_not_fit_its_header_is_no_trajectory(tmp_path, rows):
    file = tmp_path / "motion.csv"
    file.write_text(f"time,a\n{rows}")
    with pytest.raises(InvalidDescription, match="each row must have 2 numbers"):
        read_motion(str(file))


def _runner(action: float) -> SimpleNamespace:
    class Network:
        def __call__(self, row):
            return np.array([action])

        def reset(self):
            """Without a state."""

    spec = SimpleNamespace(observation_width=2, action_width=1)
    return SimpleNamespace(spec=spec, network=Network(), period=0.02)


def test_a_policy_with_actions_that_are_not_finite_diverges(tmp_path):
    file = tmp_path / "recording.npz"
    np.savez(file, observations=np.zeros((3, 2)), actions=np.zeros((3, 1)))
    assert _replayed(_runner(0.0), file, None)["diverges"] is False
    assert _replayed(_runner(np.nan), file, None)["diverges"] is True


def test_what_is_no_recording_is_an_invalid_command(tmp_path):
    array, damaged = tmp_path / "array.npy", tmp_path / "damaged.npz"
    np.save(array, np.zeros(3))
    damaged.write_bytes(b"PK\x03\x04 damaged")
    for file in (array, damaged, tmp_path / "none.npz"):
        with pytest.raises(InvalidCommand, match="not a recording"):
            _replayed(_runner(0.0), file, None)


def test_a_file_that_cannot_be_replaced_keeps_its_content(tmp_path, monkeypatch):
    file = tmp_path / "robot.xrdf"
    write_output(file, "first")

    def full(self: Path, content: bytes) -> None:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InvalidConfig, match="No space left"):
        write_output(file, "second")
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]


def test_the_target_of_a_link_is_replaced_and_not_the_link(tmp_path):
    file, link = tmp_path / "real.csv", tmp_path / "link.csv"
    link.symlink_to(file)
    write_output(link, "first")
    assert link.is_symlink()
    assert file.read_text() == "first"


def test_a_result_of_tuning_that_could_not_be_written_is_not_computed(motion, tmp_path):
    missing = tmp_path / "none" / "rmpflow.yaml"
    done = motion(f"tune franka --apply --output {missing}")
    assert done.code == 2
    assert "does not exist" in done.text


def test_the_units_of_the_tuning_table_are_printed():
    summary = Summary(
        **{field: 0.5 for field in Summary.__dataclass_fields__ if field != "weights"}, weights={}
    )
    console = Console(width=160)
    with console.capture() as captured:
        console.print(tune._table(summary, summary))
    for head in ("[s]", "[mm]", "[deg]", "overshoot [mm]", "links [mm]"):
        assert head in captured.get()


def test_brackets_in_a_path_are_no_markup(motion, tmp_path, monkeypatch):
    folder = tmp_path / "a[" / "b]"
    folder.mkdir(parents=True)
    (folder / "robot.yaml").write_text("name: odd\n")
    monkeypatch.setenv("MOTION_NODES_ROBOT_PATH", str(folder))
    done = motion("robots")
    assert done.code == 0
    assert "odd invalid" in done.text
    assert "a[/b]" in done.text.replace(" ", "")


def test_a_urdf_is_enough_to_recover(motion, tmp_path, monkeypatch):
    file, called = tmp_path / "arm.urdf", []
    file.write_text("<robot/>")
    monkeypatch.setattr(
        "motion_nodes.extras.robot_setup.derived_robot.derived_folder",
        lambda *_: load_robot("franka").directory,
    )

    def recover(*call: object) -> tuple[bool, str]:
        called.append(call)
        return True, "done"

    client = pytest.importorskip("motion_nodes.nodes.clients.commands", reason="no ROS")
    monkeypatch.setattr(client, "recover", recover)
    monkeypatch.setattr("motion_nodes.cli.ros_setup.ensure_ros", lambda: None)
    assert motion(f"recover {file}").code == 0
    assert called
