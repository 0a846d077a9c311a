# SPDX-License-Identifier: Apache-2.0
"""Commands in this process: what they print, and how they exit."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

import pytest

from motion_nodes.cli.main import main


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """All that it printed, in one line."""
        return " ".join((self.out + self.err).split())


@pytest.fixture
def motion(capsys, monkeypatch):
    """Run ``motion`` with arguments, given as one text or one by one."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Done:
        words = shlex.split(arguments[0]) if len(arguments) == 1 else list(arguments)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return run
