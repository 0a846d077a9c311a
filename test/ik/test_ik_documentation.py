# SPDX-License-Identifier: Apache-2.0
"""The snippets of the documentation run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_snippets_run_and_say_what_the_page_says():
    page = Path(__file__).parents[2] / "docs" / "inverse_kinematics.md"
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
