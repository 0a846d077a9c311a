# SPDX-License-Identifier: Apache-2.0
"""Shell completion of robots, and of the groups, frames and states of the given robot."""

from __future__ import annotations

import pytest

from motion_nodes.cli.app import app


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
