# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a separate ROS domain, clients, processes that always end, checks for leaks."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from own_domain import ENVIRONMENT

# Slow examples on a busy machine are no failures.
settings.register_profile(
    "any load", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any load")


class _Oracles:
    """Skips files that need libraries which a ROS installation does not have (colcon test)."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Be asked for modules that nobody else finds."""
        if name in ("pinocchio", "coal", "selenium", "pymoveit2"):
            pytest.skip(f"{name} is not installed", allow_module_level=True)


sys.meta_path.append(_Oracles)

if pytest.version_tuple < (8, 4):  # that of Ubuntu 24.04 has no `check`
    _raises = pytest.raises

    @contextlib.contextmanager
    def _checked(kind: Any, *, match: Any = None, check: Any = None) -> Iterator[Any]:
        with _raises(kind, match=match) as info:
            yield info
        assert check is None or check(info.value)

    pytest.raises = _checked


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the imports of files without real-time tests if only those are selected."""
    selected = ("real_time", "real_time and not long", "long and real_time")
    if config.option.markexpr not in selected or collection_path.suffix != ".py":
        return None
    return None if "real_time" in collection_path.read_text(encoding="utf-8") else True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers of ``-n auto``."""
    from shares import workers

    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute the tests by :mod:`shares`, unless ``--dist`` is given."""
    from shares import Shares

    return Shares(config, log) if config.getoption("dist", None) == "load" else None


def pytest_configure(config: pytest.Config) -> None:
    """Give workers that only compute a low priority."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        from shares import LOW_PRIORITY, only_computes

        if only_computes(worker["workerid"], worker["workercount"]):
            os.nice(LOW_PRIORITY)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, start the longest tests first."""
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        from shares import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.fixture(scope="session")
def ros():
    """Initialize rclpy in this process."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


_suites: list[Any] = []
"""Running suites."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the last output of running processes to the report of a failed test."""
    report = yield
    if report.failed:
        for process in (each for suite in _suites for each in suite.processes):
            command, end = " ".join(process.command[1:])[:200], process.output[-20_000:]
            report.sections.append((f"output of {command}", end))
    return report


def _suite(folder: Path) -> Iterator[Any]:
    from ros_processes import Suite

    suite = Suite(folder, ENVIRONMENT)
    _suites.append(suite)
    yield suite
    _suites.remove(suite)
    suite.close()
    for process in suite.processes:
        assert "Traceback" not in process.output, str(process)


@pytest.fixture
def suite(tmp_path):
    """Yield a starter of processes that end with the test; a traceback in their output fails it."""
    yield from _suite(tmp_path)


@pytest.fixture(scope="module")
def module_suite(tmp_path_factory):
    """Like ``suite``, for processes that all tests of a file share."""
    yield from _suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture
def client(ros):
    """Yield a node of the test."""
    from ros_client import RosClient

    client = RosClient()
    yield client
    client.close()


@pytest.fixture(scope="module")
def module_client(ros):
    """Yield a node of all tests of a file."""
    from ros_client import RosClient

    client = RosClient("test_module_client")
    yield client
    client.close()


def _children() -> set[int]:
    """Return the child processes of this process and of the template of nodes."""
    from forked_process import template_pids

    templates = template_pids()
    parents = {os.getpid(), *templates}
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdecimal() and int(fields[1]) in parents and fields[0] != "Z":
            found.add(int(entry.name))
    return found.difference(templates)


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing_running(request):
    """Fail a test file that leaves a process or a non-daemon thread running."""
    if request.path.parent.name not in ("ros", "nodes", "journeys", "contracts"):
        yield
        return
    children, threads = _children(), set(threading.enumerate())
    yield
    left = _children() - children
    assert not left, f"processes left running: {left}"
    hanging = {t for t in threading.enumerate() if not t.daemon} - threads
    assert not hanging, f"threads left running: {hanging}"
