# SPDX-License-Identifier: Apache-2.0
"""Processes forked from a template, and functions called in a child."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from patience import wait_until

from motion_nodes.bringup.forked_call import fork, forked_call
from motion_nodes.bringup.process_template import ProcessTemplate, reap_orphans
from motion_nodes.bringup.processes import ProcessEvents, ProcessGroup
from motion_nodes.bringup.template_main import modules_of
from motion_nodes.errors import MotionError, RobotNotFound
from motion_nodes.ros.process_reports import FAILED, NEWS_VARIABLE, read_news

PYTHON = [sys.executable, "-m"]
NODES = [*PYTHON, "motion_nodes.nodes"]
UNKNOWN = [*NODES, "no_such_node"]
SIMULATION = [*NODES, "mock_sim", "--ros-args", "-p", 'robots:=["jetbot"]']


@pytest.fixture(scope="module")
def template():
    with ProcessTemplate() as made:
        yield made


def test_modules_of_a_node_and_of_a_container():
    listed = json.dumps([{"executable": "robot_state"}, {"executable": "ik_service"}])
    assert modules_of([*NODES, "mock_sim", "--ros-args"]) == ["motion_nodes.nodes.mock_sim"]
    assert modules_of([*NODES, "container", "--nodes", listed]) == [
        f"motion_nodes.nodes.{name}" for name in ("container", "robot_state", "ik_service")
    ]
    assert modules_of([*NODES, "container", "--nodes", "{"]) == ["motion_nodes.nodes.container"]
    assert modules_of([*PYTHON, "motion_nodes.nodes.clients.dds_probe"]) == []


def test_the_exit_code_and_the_report_of_a_fork_arrive(template):
    reader, writer = os.pipe()
    process = template.fork(UNKNOWN, {**os.environ}, {NEWS_VARIABLE: writer})
    assert process.wait(60.0) == 2
    os.close(writer)
    news = read_news(os.read(reader, 1 << 12))
    os.close(reader)
    assert (news.state, news.pid) == (FAILED, process.pid)


def test_a_fork_is_a_child_of_this_process_with_its_own_command_line(template):
    quiet = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF", "NAME_OF_THE_TEST": "é"}
    process = template.fork(SIMULATION, quiet, {})
    try:
        proc = Path(f"/proc/{process.pid}")
        wait_until(lambda: b"robots:=" in (proc / "cmdline").read_bytes(), "its own command line")
        words = (proc / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        assert [word.decode() for word in words] == SIMULATION
        assert f"PPid:\t{os.getpid()}\n" in (proc / "status").read_text()
        assert os.getsid(process.pid) == process.pid
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait(10.0) == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)


def test_a_stop_that_meets_a_new_fork_ends_it(template, monkeypatch):
    def stopped(timeout, reply=template._reply):
        pid = reply(timeout)
        os.kill(pid, signal.SIGINT)  # before the fork has set its handlers
        return pid

    monkeypatch.setattr(template, "_reply", stopped)
    quiet = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}
    process = template.fork(SIMULATION, quiet, {})
    try:
        assert process.wait(20.0) == 0
    finally:
        process.send_signal(signal.SIGKILL)


def test_other_commands_are_not_forked(template):
    assert template.fork([sys.executable, "-c", "pass"], {}, {}) is None
    assert template.fork(["true"], {}, {}) is None
    assert template.fork(UNKNOWN, {**os.environ}, {}).wait(60.0) == 2


@pytest.mark.long
def test_a_lost_or_stopped_template_is_replaced_by_new_processes():
    for number in (signal.SIGKILL, signal.SIGSTOP):
        with ProcessTemplate() as template:
            assert template.fork(UNKNOWN, {**os.environ}, {}).wait(60.0) == 2
            os.kill(template.pid, number)
            ended = {}
            with ProcessGroup(
                {},
                print,
                events=ProcessEvents(end=lambda name, code, to=ended: to.update({name: code})),
                template=template,
            ) as group:
                group.add("a", UNKNOWN)
                wait_until(lambda group=group: not group.watch(), "it has ended")
            assert ended == {"a": 2}
            assert template.pid == 0


@pytest.mark.long
def test_forks_end_with_the_process_that_asked_for_them():
    code = (
        "import os, sys, time\n"
        "from motion_nodes.bringup.process_template import ProcessTemplate\n"
        "with ProcessTemplate() as template:\n"
        f"    print(template.fork({SIMULATION!r}, dict(os.environ), {{}}).pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    quiet = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                          env=quiet) as parent:  # fmt: skip
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child), "its end")


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and was not reaped by its parent, maybe the init process."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_only_unknown_children_are_reaped():
    mine = subprocess.Popen(["true"])
    wait_until(lambda: _is_zombie(mine.pid), "it has ended")
    reap_orphans([mine.pid])
    assert _is_zombie(mine.pid)

    def reaped() -> bool:
        reap_orphans([])  # one at a time; other tests leave children, too
        return not Path(f"/proc/{mine.pid}").exists()

    wait_until(reaped, "it is reaped")
    mine.wait()


ALONE = """
import os, sys
from motion_nodes.bringup.forked_call import forked_call
from motion_nodes.errors import MotionError, RobotNotFound

def work():
    import fractions
    return os.getpid(), fractions.Fraction(1, 3)

def refuse():
    raise RobotNotFound("frank", ["franka"])

pid, third = forked_call(work)
print(pid != os.getpid(), third * 3 == 1)
try:
    forked_call(refuse)
except MotionError as error:
    print(error)
try:
    forked_call(lambda: 1 // 0)
except RuntimeError as error:
    print(error)
try:
    forked_call(lambda: sys.exit(3))
except SystemExit as end:
    print(end.code)
"""


def test_results_and_refusals_of_the_child_arrive():
    ran = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    results, refusal, failure, code = ran.stdout.splitlines()
    assert results == "True True"
    assert refusal == str(RobotNotFound("frank", ["franka"]))
    assert "without a result" in failure
    assert "ZeroDivisionError" in ran.stderr
    assert code == "3"


def test_with_other_threads_it_is_called_in_this_process():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert forked_call(os.getpid) == os.getpid()
        with pytest.raises(MotionError):
            forked_call(_refuse)
    finally:
        end.set()
        thread.join()


def _refuse() -> None:
    raise MotionError("no")


def test_threads_of_libraries_are_no_reason_for_a_warning(recwarn):
    released = threading.Event()
    other = threading.Thread(target=released.wait)
    other.start()
    try:
        child = fork()
        if not child:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert not recwarn.list
    finally:
        released.set()
        other.join()


def test_ctrl_c_while_a_module_is_imported_ends_the_process_without_a_traceback(tmp_path):
    (tmp_path / "slow_module.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(10)\n"
    )
    code = (
        "import os; from motion_nodes.bringup.template_main import become; "
        "become(['python', '-m', 'slow_module'], os.environ.copy(), {})"
    )
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
