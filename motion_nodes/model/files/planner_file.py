# SPDX-License-Identifier: Apache-2.0
"""Reader of planner settings; the planners interpret them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from motion_nodes.model.files.yaml_file import read_yaml


def read_planner_file(file: str | Path) -> dict[str, Any]:
    """Return the settings in a YAML file by name, blocks as dictionaries.

    Raises:
        InvalidDescription: names the file and the position of a syntax error.
    """
    return dict(read_yaml(Path(file)))
