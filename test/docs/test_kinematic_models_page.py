# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/kinematic_models.md run, one after the other."""

import re
from pathlib import Path

import numpy as np


def test_the_snippets_run_and_say_what_the_page_says():
    page = Path(__file__).parents[2] / "docs" / "kinematic_models.md"
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(snippets) == 5
    names: dict = {}
    for snippet in snippets:
        exec(snippet, names)
    np.testing.assert_allclose(names["X"][:3, 3], [0.30702, 0.0, 0.59027], atol=5e-6)
    assert names["tree"].joint_names == ("turn",)
    distance = np.linalg.norm(names["dq"].to_pose(names["half_way"])[:3, 3])
    assert 0.1 < distance < 0.6
