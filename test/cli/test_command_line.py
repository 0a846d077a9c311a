# SPDX-License-Identifier: Apache-2.0
"""The motion command: process, completion, questions, units, full disks."""

import errno
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from robot_setup.urdf_samples import joint, link, robot

import motion_nodes
from motion_nodes.bringup.suite import print_line
from motion_nodes.cli import ros_setup, tune
from motion_nodes.cli.app import PANELS, app
from motion_nodes.cli.learning_commands import _replayed
from motion_nodes.cli.main import main
from motion_nodes.cli.output import write_output
from motion_nodes.cli.ros_setup import ensure_ros
from motion_nodes.core.reactive.tuning import Summary
from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.trajectory.trajectory_files import read_motion
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.extras.learning.trainer import TrainingProgress
from motion_nodes.extras.learning.training_run import append_csv


def motion(*arguments, timeout=180, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-m", "motion_nodes.cli.main", *arguments],
        capture_output=True, text=True, timeout=timeout, check=False, env=os.environ | environment,
    )  # fmt: skip


def test_the_version_is_printed():
    done = motion("--version")
    assert (done.returncode, done.stdout) == (0, f"motion_nodes {motion_nodes.__version__}\n")


@pytest.mark.long
def test_robots_lists_what_is_shipped():
    done = motion("robots")
    assert done.returncode == 0
    assert "franka" in done.stdout
    assert "jetbot" in done.stdout
    for name in ("open_manipulator_x", "turtlebot3_burger"):  # whole, at a width of 80
        assert name in done.stdout


def test_the_help_begins_with_a_running_suite():
    text = motion("--help").stdout
    assert text.index(" up ") < text.index(" fk ") < text.index(" doctor ")
    panels = {name for names in PANELS.values() for name in names}
    assert panels == {*(info.name for info in app.registered_commands), "hardware", "policy"}


@pytest.mark.long
@pytest.mark.parametrize("word", ["describe", "robots"])
def test_describe_shows_limits_groups_and_states(word):
    done = motion(word, "franka")
    assert done.returncode == 0
    for text in ("panda_joint4", "-3.072", "-0.0698", "arm", "panda_arm", "ready"):
        assert text in done.stdout


def test_describe_of_a_base_shows_its_wheels():
    text = " ".join(motion("describe", "jetbot").stdout.split())
    assert "wheel radius 0.03, wheel separation 0.1125" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["describe", "frank"], "Did you mean 'franka'"),
        (["up", "frank"], "Did you mean 'franka'"),
        (["up", "franka@1,x,0"], "X,Y,YAW in metres and radians"),
        (["up", "franka", "franka"], "give each robot its own"),
        (["up", "franka", "--backend", "mujoko"], "Did you mean 'mujoco'"),
        (["warm-up", "nobody"], "robot 'nobody' is not known"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, text):
    done = motion(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.long
def test_warm_up_compiles_the_named_robots():
    done = motion("warm-up", "jetbot", "franka", timeout=240)
    assert done.returncode == 0
    compiled = [line.split(":")[0] for line in done.stdout.splitlines()]
    if "all planners" in compiled:  # once per installation
        compiled.remove("all planners")
    assert compiled == ["control cycles", "new robots", "jetbot", "franka"]


def test_doctor_finds_a_working_installation():
    done = motion("doctor")
    assert done.returncode == 0, done.stdout
    for word in (
        "rclpy",
        "middleware",
        "two processes",
        "kernel cache",
        ", ".join(available_robots()),
        "checks passed",
    ):
        assert word in done.stdout


@pytest.mark.long
def test_doctor_says_what_is_missing(tmp_path):
    (tmp_path / "tf2_msgs.py").write_text("raise ImportError('not here')\n")
    done = motion("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "missing: tf2_msgs" in done.stdout
    assert "motion setup" in done.stdout
    assert "1 of 7 checks failed: messages" in done.stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("motion fk fr", {"franka", "fr3"}),
        ("motion convert ur1", {"ur10e", "ur16e"}),
        ("motion ik franka --group a", {"arm"}),
        ("motion plan franka --group panda_", {"panda_arm", "panda_hand"}),
        ("motion fk franka --frame panda_hand", {"panda_hand", "panda_hand_tcp"}),
        ("motion fk franka --state re", {"ready"}),
        ("motion convert franka --group ar", {"arm"}),
        ("motion ik nobody --group a", set()),
    ],
)
def test_words_that_the_shell_is_offered(monkeypatch, capsys, line, words):
    monkeypatch.setenv("_MOTION_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit) as ended:
        app(prog_name="motion")
    assert ended.value.code == 0
    assert set(capsys.readouterr().out.split()) == words


@pytest.fixture
def urdf(tmp_path):
    parts = [link("base"), link("one"), link("two"), '<link name="flange"/><link name="mount"/>']
    parts += [joint("a", "base", "one"), joint("b", "one", "two")]
    parts += [joint(f"j_{end}", "two", end, kind="fixed", inside="") for end in ("flange", "mount")]
    file = tmp_path / "arm.urdf"
    file.write_text(robot(*parts))
    return file


def typed(monkeypatch, text, *words):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    try:
        main(["new", *map(str, words), "--no-trial"])
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.long
@pytest.mark.parametrize(("text", "tip"), [("9\nx\n3\n", "mount"), ("\n", "flange")])
def test_an_answer_is_asked_for_until_it_is_a_choice(urdf, tmp_path, monkeypatch, text, tip):
    folder = tmp_path / "made"
    assert typed(monkeypatch, text, urdf, "--ask", "--name", "asked", "--output", folder) == 0
    assert f"tip: {tip}\n" in (folder / "robot.yaml").read_text()


def test_without_an_answer_nothing_is_written(urdf, tmp_path, monkeypatch):
    folder = tmp_path / "made"
    assert typed(monkeypatch, "", urdf, "--ask", "--output", folder) == 2
    assert typed(monkeypatch, "", urdf, "--ask", "--json", "--output", folder) == 2
    assert not folder.exists()


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


FULL = Path("/dev/full")
MOTION = [sys.executable, "-m", "motion_nodes.cli.main"]


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["robots"], ["fk", "ur5e", "--state", "home", "--json"],
                                   ["fk", "ur5e", "--state", "home"]])  # fmt: skip
def test_a_command_tells_that_its_output_cannot_be_written(words):
    with FULL.open("w") as full:
        done = subprocess.run([*MOTION, *words], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "motion: the output cannot be written: No space left on device.\n"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_lines_of_a_suite_that_cannot_be_written_are_omitted(monkeypatch):
    full = FULL.open("w", buffering=1)
    monkeypatch.setattr(sys, "stdout", full)
    print_line("ready")
    monkeypatch.undo()
    with pytest.raises(OSError):  # what was not written
        full.close()


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_a_learning_curve_that_cannot_be_written_is_told():
    with pytest.raises(InvalidConfig, match="No space left"):
        append_csv(FULL, TrainingProgress(*range(11)))


@pytest.mark.parametrize("module", ["main", "ros2"])
def test_a_reader_of_a_pipe_that_has_ended(module):
    """The exit code is the shell's of SIGPIPE, without a traceback."""
    of_ros = "sys.exit(run(['interface', 'list'], 'ros2'))"
    begin = "main(['robots'])" if module == "main" else of_ros
    if module == "ros2":
        pytest.importorskip("rclpy", reason="no ROS")
    code = f"import sys; from motion_nodes.cli.{module} import *; sys.stdin.read(1); {begin}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert process.communicate("x")[1] == ""
    assert process.returncode == 141


def test_a_middleware_that_is_there_needs_no_process(monkeypatch, tmp_path):
    pytest.importorskip("rclpy", reason="no ROS")
    (tmp_path / "librmw_other.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_other")
    monkeypatch.setattr(subprocess, "run", None)
    ros_setup._check_middleware()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ROS_DOMAIN_ID", "abc", "ROS_DOMAIN_ID is 'abc'; allowed is 0 to 232"),
        ("ROS_DOMAIN_ID", "-1", "allowed is 0 to 232"),
        ("ROS_DOMAIN_ID", "233", "allowed is 0 to 232"),
        ("RMW_IMPLEMENTATION", "rmw_missing", "RMW_IMPLEMENTATION is 'rmw_missing', which does"),
    ],
)
def test_wrong_variables_of_ros_are_told_before_anything_starts(
    monkeypatch, variable, value, words
):
    pytest.importorskip("rclpy", reason="no ROS")
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidConfig, match=re.escape(words)):
        ensure_ros()
