# SPDX-License-Identifier: Apache-2.0
"""Processes are started, monitored and stopped, with their parent; none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from own_domain import ENVIRONMENT
from patience import wait_until

from motion_nodes.bringup import processes
from motion_nodes.bringup.processes import ProcessGroup
from motion_nodes.kernels.parent_death import VARIABLE

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
QUIET = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(0)); time.sleep(60)",
]


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_all_are_stopped_when_the_context_ends():
    with ProcessGroup({"a": SLEEP, "b": QUIET}, print) as group:
        pids = [group.pid("a"), group.pid("b")]
        assert not any(gone(pid) for pid in pids)
    assert all(gone(pid) for pid in pids)


def test_drivers_are_stopped_after_the_others_have_ended(tmp_path):
    code = (
        "import pathlib, signal, sys, time\n"
        "def leave(*_):\n"
        "    time.sleep(float(sys.argv[2]))\n"
        "    with open(sys.argv[3], 'a') as file:\n"
        "        file.write(sys.argv[1])\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, leave)\n"
        "pathlib.Path(sys.argv[3] + sys.argv[1]).touch()\n"
        "time.sleep(60)\n"
    )
    ended = tmp_path / "ended"
    commands = {
        name: [sys.executable, "-c", code, name, delay, str(ended)]
        for name, delay in (("d", "0"), ("c", "0.5"))
    }
    with ProcessGroup(commands, print, drivers=["d"]):
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both processes")
    assert ended.read_text() == "cd"


def test_one_that_is_blocked_in_the_kernel_does_not_keep_the_drivers_running(monkeypatch):
    for name in ("STOP_GRACE", "KILL_GRACE"):
        monkeypatch.setattr(processes, name, 0.1)
    news = []
    with ProcessGroup({"a": SLEEP, "d": SLEEP}, news.append, drivers=["d"]) as group:
        driver, process = group.pid("d"), group._running["a"].process

        class Blocked:
            pid = process.pid

            def send_signal(self, number):
                pass

            def wait(self, timeout=None):
                raise subprocess.TimeoutExpired("a", timeout)

        group._running["a"].process = Blocked()
    assert gone(driver)
    assert news[-1] == "a cannot be killed: blocked in the kernel"
    process.kill()
    process.wait()


def test_one_that_ends_is_reported_and_the_others_go_on():
    news = []
    with ProcessGroup({"a": SLEEP, "b": [sys.executable, "-c", "exit(3)"]}, news.append) as group:
        wait_until(lambda: group.watch() and group.failed, "the failure")
        assert group.failed == {"b": 3}
        assert (group.runs("a"), group.runs("b")) == (True, False)
        assert news == ["b ended with code 3"]


def test_a_stubborn_one_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr("motion_nodes.bringup.processes.STOP_GRACE", 0.5)
    deaf = tmp_path / "deaf"
    code = ("import pathlib, signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "pathlib.Path(sys.argv[1]).touch(); time.sleep(60)")  # fmt: skip
    news = []
    group = ProcessGroup({"deaf": [sys.executable, "-c", code, str(deaf)]}, news.append)
    with group:
        pid = group.pid("deaf")
        wait_until(deaf.exists, "the process")
    assert gone(pid)
    assert "was killed" in news[-1]


def test_children_go_when_the_parent_is_killed():
    code = (
        "import sys, time\n"
        "from motion_nodes.bringup.processes import ProcessGroup\n"
        "nap = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "with ProcessGroup({'a': nap}, print) as g:\n"
        "    print(g.pid('a'), flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_until(lambda: gone(child), "the end of the child")


PARENT = """
import subprocess, sys, time
with open("log", "w") as log:
    started = subprocess.Popen([sys.executable, "-m", *sys.argv[1:]], stdout=log, stderr=log)
print(started.pid, flush=True)
time.sleep(600)
"""
COMMANDS = {
    "a node": ["motion_nodes.nodes", "robot_state", "--ros-args", "-p", "robot:=jetbot"],
    "the supervisor": ["motion_nodes.bringup.suite", "robot:=jetbot", "backend:=mock",
                       "viewer:=none"],
}  # fmt: skip


def runs(pid: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("what", COMMANDS)
def test_a_process_ends_when_its_parent_is_killed(what, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *COMMANDS[what]], stdout=subprocess.PIPE, text=True,
        env=ENVIRONMENT | {VARIABLE: "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        up = "configured" if what == "a node" else "motion: READY"
        wait_until(lambda: up in (tmp_path / "log").read_text(), f"{what} is up")
        parent.kill()
        parent.wait()
        wait_until(lambda: not runs(pid), f"{what} has ended")
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
