# SPDX-License-Identifier: Apache-2.0
"""The shows of one arm, ``motion demo elbow`` and ``retract``: Franka in MuJoCo.

Both use one suite, without the page and planners that they do not need; that ``motion demo`` starts
its suite itself, CI tests with the show of both robots.
"""

import re
import sys

import pytest

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.shows import show_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def suite_of_one(module_suite, ros):
    """The robot of both shows."""
    robots = {show_of(name).robots for name in ("elbow", "retract")}
    assert len(robots) == 1
    return module_suite.bring_up(*robots.pop(), without=ALONE, rate=100.0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(
            "elbow",
            r"the elbow moved by (1[0-9]|2[0-9]) cm, the tool by at most 0\.\d\d mm",
            marks=pytest.mark.long,
        ),
        ("retract", r"retracted by 160 mm: tool error 0\.\d\d mm and 0\.\d\d mrad"),
    ],
)
def test_a_show_checks_what_was_measured(suite_of_one, name, said):
    show, findings = show_of(name), DemoFindings()
    client = show.client()
    try:
        assert client.wait(lambda: client.ready, show.ready_timeout)
        show.play(client, findings)
    finally:
        client.node.destroy_node()
    assert findings.ok, findings.lines
    assert not findings.missing(show.checks)
    assert re.search(said, "\n".join(findings.lines))


@pytest.mark.long
def test_an_unknown_show_is_told(suite):
    process = suite.run([sys.executable, "-m", "motion_nodes.cli.main", "demo", "elbw"])
    assert process.exit_code() == 2
    assert "Did you mean 'elbow'" in process.output
