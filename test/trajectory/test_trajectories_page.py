# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/trajectories.md run as they stand."""

import re
from pathlib import Path


def test_snippets_run():
    page = (Path(__file__).parents[2] / "docs" / "trajectories.md").read_text()
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(snippets) >= 6
    for snippet in snippets:
        exec(compile(snippet, "trajectories.md", "exec"), names)
    assert names["hasty"] is None
    assert names["motion"] is not None
