# SPDX-License-Identifier: Apache-2.0
"""Contenders that may be missing, and those that run in another Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from harness.processes import script_command
from harness.report import progress

T = TypeVar("T")


def available(makers: Mapping[str, Callable[..., T]], *args: Any) -> dict[str, T]:
    """Return the available contenders; print the missing ones and the reasons."""
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(*args)
        except ImportError as error:
            progress(f"without {name}: {error}")
    return found


def peer_lines(python: str, script: str, *args: str) -> list[Any]:
    """Return the lines of JSON that a script prints in another Python; none if it fails."""
    command = [python, *script_command(script, *args)[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without {script}: it ended with code {done.returncode}")
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
