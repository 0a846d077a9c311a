# SPDX-License-Identifier: Apache-2.0
"""A ROS domain of this test run's own, clients and processes that always end, checks for leaks."""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, settings

# A machine at work is slow now and then; that says nothing about a test.
settings.register_profile(
    "any load", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any load")


def _own_domain() -> tuple[int, IO[str]]:
    """Return a ROS domain that no other test run on this machine uses, and the lock that says so.

    Only 0 to 101 are safe beside Linux's ephemeral ports; 0 is where people's robots are.
    """
    folder = Path(tempfile.gettempdir()) / f"motion_nodes-test-domains-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    domains = list(range(1, 102))
    random.SystemRandom().shuffle(domains)
    for domain in domains:
        file = (folder / str(domain)).open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        return domain, file
    raise RuntimeError("all ROS domains from 1 to 101 are in use by test runs")


_DOMAIN, _DOMAIN_LOCK = _own_domain()
os.environ["ROS_DOMAIN_ID"] = str(_DOMAIN)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="motion_nodes-test-log-")
atexit.register(shutil.rmtree, os.environ["ROS_LOG_DIR"], ignore_errors=True)
os.environ["RCUTILS_COLORIZED_OUTPUT"] = "0"
# Python keeps what it has parsed: hundreds of processes are started here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background deaf to Ctrl-C, and children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("MOTION_NODES_ROBOT_PATH", None)

ENVIRONMENT = dict(os.environ)
"""Environment of started processes: with the user's kernel cache, whatever a test changes."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return what ``-n auto`` means."""
    from shares import workers

    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests out by :mod:`shares`, unless ``--dist`` asks for something else."""
    from shares import Shares

    return Shares(config, log) if config.getvalue("dist") == "load" else None


def pytest_configure(config: pytest.Config) -> None:
    """Have the worker that only computes give way to all others."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        from shares import LOW_PRIORITY, only_computes

        if only_computes(worker["workerid"], worker["workercount"]):
            os.nice(LOW_PRIORITY)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several workers, begin with what takes longest."""
    if config.getvalue("numprocesses") or hasattr(config, "workerinput"):
        from shares import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.fixture(scope="session")
def ros() -> Iterator[None]:
    """The rclpy context of this process."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


def _suite(folder: Path) -> Iterator[Any]:
    from ros_processes import Suite

    suite = Suite(folder, ENVIRONMENT)
    yield suite
    suite.close()
    for process in suite.processes:
        assert "Traceback" not in process.output, str(process)


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Any]:
    """Starts processes that end with the test; a traceback in what they print fails it."""
    yield from _suite(tmp_path)


@pytest.fixture(scope="module")
def module_suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same for processes that all tests of a file share."""
    yield from _suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture
def client(ros: None) -> Iterator[Any]:
    """A node of the test."""
    from ros_processes import RosClient

    client = RosClient()
    yield client
    client.close()


@pytest.fixture(scope="module")
def module_client(ros: None) -> Iterator[Any]:
    """A node of all tests of a file."""
    from ros_processes import RosClient

    client = RosClient("test_module_client")
    yield client
    client.close()


def _children() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdecimal() and int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(entry.name))
    return found


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests that leaves a process or a non-daemon thread behind fails."""
    if request.path.parent.name not in ("ros", "nodes", "journeys", "contracts"):
        yield
        return
    children, threads = _children(), set(threading.enumerate())
    yield
    left = _children() - children
    assert not left, f"processes left running: {left}"
    hanging = {t for t in threading.enumerate() if not t.daemon} - threads
    assert not hanging, f"threads left running: {hanging}"
