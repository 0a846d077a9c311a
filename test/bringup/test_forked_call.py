# SPDX-License-Identifier: Apache-2.0
"""Functions called in a child process return and raise as in this process."""

import os
import subprocess
import sys
import threading

import pytest

from motion_nodes.bringup.forked_call import fork, forked_call
from motion_nodes.errors import MotionError, RobotNotFound

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
