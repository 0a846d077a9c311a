# SPDX-License-Identifier: Apache-2.0
"""What the distance of the fingers tells about a grasp."""

from types import SimpleNamespace

import numpy as np
import pytest

from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.extras.tasks.task_runner import SkillFailed
from motion_nodes.nodes.task.arm_skills import ArmSkills

WIDTH = 0.04


def done(result=None):
    """Return the work of a motion that ends at once."""
    yield
    return result


def grasp(width, *, max_width=0.08, check=True):
    """Close the fingers until they are ``width`` apart; return what was done."""
    log = []
    motions = SimpleNamespace(
        max_width=max_width, open=lambda: log.append("open") or done(),
        straight=lambda *_, what: log.append(what),
    )  # fmt: skip
    holding = SimpleNamespace(
        grip=lambda *_: done(width), free=lambda _: done(), fresh=lambda _: done(None),
        hold=lambda *_: log.append("hold"),
    )  # fmt: skip
    skills = ArmSkills.__new__(ArmSkills)
    skills._motions, skills._holding = motions, holding
    skills._parts = SimpleNamespace(params=SimpleNamespace(check_grasp=check))
    target = SimpleNamespace(name="cube")
    for _ in skills._grasp(SimpleNamespace(X_WG=np.eye(4), width=WIDTH), target):
        pass
    return log


def test_it_holds_what_is_as_wide_as_expected():
    assert grasp(WIDTH) == grasp(WIDTH + 0.003) == ["hold"]
    assert grasp(WIDTH + 0.01, check=False) == ["hold"]
    assert grasp(0.4, max_width=0.9) == ["hold"]  # an angle


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_it_opens_and_retreats_from_an_object_that_is_missed_or_askew(width):
    with pytest.raises(SkillFailed) as raised:
        grasp(width)
    assert raised.value.code is TaskCode.NOT_GRASPED
    assert ("askew" in str(raised.value)) == (width > 0.0)
