# SPDX-License-Identifier: Apache-2.0
"""The snippets of the documentation run, one after the other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_snippets_of_tasks_and_limits_run():
    pytest.importorskip("daqp")
    text = (ROOT / "docs" / "tasks_and_limits.md").read_text("utf-8")
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(snippet, names)
    assert names["v"].shape == (7,)


def test_the_snippets_run_and_say_what_the_page_says():
    page = ROOT / "docs" / "inverse_kinematics.md"
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(snippets) >= 5
    names: dict = {}
    for snippet in snippets:
        exec(snippet, names)
    assert names["result"].success
    assert names["far"].status.name == "OUT_OF_REACH"
    assert names["better"].success
    assert names["left"].q[0] > 0.0
    assert names["batch"].solved.all()
    assert len(names["elbow"]) > 3
    assert names["step"].scale == 1.0
    assert names["every"].shape == (256, 6)
    assert names["eight"].shape == (8, 6)
    assert names["panda"].free_joint == "panda_joint7"
    assert len(names["sweep"]) > 0
    assert names["first"] is not None
    assert names["some"]
