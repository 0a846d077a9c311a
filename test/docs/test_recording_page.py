# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/command_line.md with a running suite, in order."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from command_lines import ROOT, lines_of

MOTION = [sys.executable, "-m", "motion_nodes.cli.main"]
ASKING = ("wait", "go", "stop", "resume")
"""Commands that run one after the other; recordings run at the same time."""


@pytest.fixture
def lines():
    found = lines_of(ROOT / "docs" / "command_line.md", "bash suite")
    assert found[0].words[:2] == ["motion", "up"]
    return found


@pytest.mark.long
def test_a_base_is_asked_and_recorded_as_the_page_says(suite, lines, tmp_path):
    up, *others = lines

    def typed(line):
        process = suite.run([*MOTION, *line.words[1:]], folder=tmp_path)
        assert process.exit_code() == line.exit_code, f"{line}\n{process}"

    running = suite.run([*MOTION, *up.words[1:]])
    for line in others:
        if line.words[1] in ASKING:
            typed(line)
    recordings = [line for line in others if line.words[1] not in (*ASKING, "play")]
    assert len(recordings) >= 2
    with ThreadPoolExecutor(len(recordings)) as readers:
        list(readers.map(typed, recordings))
    (played,) = (line for line in others if line.words[1] == "play")
    typed(played)
    assert running.stop() == 0, str(running)
    assert "/joint_states" in (tmp_path / "run.jsonl").read_text()
    rows = (tmp_path / "odom.csv").read_text().splitlines()
    assert any("pose.pose.position.x" in row for row in rows)
