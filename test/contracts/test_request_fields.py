# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/planning.md name every field of a request and of a scene."""

from __future__ import annotations

from pathlib import Path

import pytest
from moveit_msgs.msg import MotionPlanRequest, PlanningScene

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


@pytest.mark.parametrize("kind", [MotionPlanRequest, PlanningScene])
def test_the_tables_name_every_field(kind):
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in row.split("|")[1].split("`")[1::2]}
    missing = set(kind.get_fields_and_field_types()) - named
    assert not missing
