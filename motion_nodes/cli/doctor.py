# SPDX-License-Identifier: Apache-2.0
"""``motion doctor``: checks of the installation."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape

from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.errors import MotionError
from motion_nodes.kernels.cache import cache_state
from motion_nodes.ros import environment
from motion_nodes.ros.environment import Check

LIBRARIES = ("numpy", "numba", "llvmlite", "msgspec", "ruckig", "mujoco", "viser")


def examine() -> bool:
    """Run and print all checks; return whether all succeeded."""
    console = Console()
    console.print(f"motion_nodes {_version('motion_nodes')}, Python {platform.python_version()}")
    failed, count = [], 0
    for check in _checks():
        mark = "[green]ok[/green]  " if check.ok else "[red]NO[/red]  "
        text = escape(f"{check.what}: {check.text}")
        console.print(f"{mark}{text}", highlight=False, soft_wrap=True)
        count += 1
        failed += [] if check.ok else [check.what]
    if failed:
        summary = f"[red]{len(failed)} of {count} checks failed[/red]: {escape(', '.join(failed))}"
    else:
        summary = f"[green]All {count} checks passed[/green]: try motion demo"
    console.print(summary, highlight=False, soft_wrap=True)
    return not failed


def _checks() -> Iterator[Check]:
    rclpy = environment.check_rclpy()
    yield rclpy
    if rclpy.ok:
        checks: tuple[Callable[[], Check], ...] = (
            environment.check_middleware,
            environment.check_messages,
            environment.check_two_processes,
        )
        for check in checks:
            yield check()
    yield _libraries()
    yield _cache()
    yield _robots()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _libraries() -> Check:
    versions = {name: _version(name) for name in LIBRARIES}
    missing = [name for name, version in versions.items() if not version]
    if missing:
        return Check("libraries", False, f"missing: {', '.join(missing)} (pip install them)")
    return Check("libraries", True, ", ".join(f"{n} {v}" for n, v in versions.items()))


def _cache() -> Check:
    state = cache_state()
    if state.folder is None:
        return Check(
            "kernel cache",
            False,
            f"{state.preferred} is not writable; kernels are compiled at every start",
        )
    text = f"{state.entries} entries, {state.size / 1e6:.1f} MB in {state.folder}"
    return Check("kernel cache", True, text)


def _robots() -> Check:
    broken = []
    names = sorted(available_robots())
    for name in names:
        try:
            load_robot(name)
        except MotionError as error:
            broken.append(f"{name}: {error}")
    return Check("robots", not broken, "; ".join(broken) or ", ".join(names))
