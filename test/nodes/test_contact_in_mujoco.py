# SPDX-License-Identifier: Apache-2.0
"""Wipe, open_drawer and handover in MuJoCo, in lockstep: independent of machine load.

``contact_trials.py`` does the same in random scenes.
"""

from __future__ import annotations

import numpy as np
import pytest
from nodes.lockstep_arm import LockstepArm

from motion_nodes.nodes.task.contact_skills import PULL, WIPE_FORCE


@pytest.mark.long
def test_a_held_object_wipes_with_its_force_and_is_handed_over() -> None:
    # The mat lies along the direction in which a pushed object would jump.
    cell = LockstepArm(
        "cube:=box:0.04,0.04,0.04:0.2@0.45,0.15,0.02", "mat:=box:0.09,0.045,0.05:5@0.42,0.03,0.025"
    )
    skills = cell.skills()
    cell.do(skills, "pick", object="cube")
    mat, forces, phases = cell.world.object_pose("mat"), [], []
    for phase in cell.execute(skills, "wipe", object="cube", surface="mat"):
        phases.append(phase)
        if phase.startswith("wipe ") and cell.pressing:
            forces.append(cell.mean_force)
    assert phases[-1] == "wiped 100 % of the surface"
    assert np.mean(forces) == pytest.approx(WIPE_FORCE, abs=1.0)
    np.testing.assert_allclose(cell.world.object_pose("mat"), mat, atol=0.005)
    assert cell.holds("cube")
    cell.detector = False
    pull = cell.world.data.body("object:cube").xfrc_applied
    for phase in cell.execute(skills, "handover", object="cube"):
        if phase == "offer":
            assert cell.width < 0.05, "it is held until it is pulled"
            pull[:3] += (0.1, 0.0, 0.0)
    assert cell.width > 0.07


@pytest.mark.long
def test_a_drawer_is_opened() -> None:
    cell = LockstepArm("drawer:=drawer:0.3,0.3,0.15:1.5@0,0.6,0.45,1.5708")
    assert cell.do(cell.skills(), "open_drawer", object="drawer") == "check"
    opened = float(cell.world.data.joint("object:drawer").qpos[0])
    assert opened == pytest.approx(PULL, abs=0.03)
