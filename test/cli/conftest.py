# SPDX-License-Identifier: Apache-2.0
"""Commands in this process: their output and exit codes."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

import pytest

from motion_nodes.cli.main import main


@dataclass(frozen=True)
class Done:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The output, parsed as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """The whole output in one line."""
        return " ".join((self.out + self.err).split())


@pytest.fixture
def motion(capsys, monkeypatch):
    """Run ``motion`` with arguments, given as one text or separately."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Done:
        words = shlex.split(arguments[0]) if len(arguments) == 1 else list(arguments)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return run
