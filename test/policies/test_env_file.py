# SPDX-License-Identifier: Apache-2.0
"""env.yaml of a training environment: patterns, tags, defaults, and broken files."""

from __future__ import annotations

import numpy as np
import pytest
from policies.descriptors import ENV_YAML

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.policies.isaac_lab_files import breadth_first_joints, read_env

JOINTS = [f"{leg}_{part}" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]


def spec_of(folder, text=ENV_YAML, joints=JOINTS):
    """Return the description of a text."""
    file = folder / "env.yaml"
    file.write_text(text)
    return read_env(file, joints)


def test_all_that_a_player_needs_is_read(tmp_path):
    spec = spec_of(tmp_path)
    q0 = np.repeat([0.1, 0.8, -1.5], 4)
    q0[6:8] = 1.0
    np.testing.assert_array_equal(spec.joints.position, q0)
    np.testing.assert_array_equal(spec.joints.stiffness, np.full(12, 25.0))
    np.testing.assert_array_equal(spec.joints.effort_limit, np.full(12, 23.5))
    assert np.isinf(spec.joints.velocity_limit).all()
    assert np.isnan(spec.joints.armature).all()
    (action,) = spec.actions
    np.testing.assert_array_equal(action.offset, q0)
    np.testing.assert_array_equal(action.scale, np.full(12, 0.2))
    assert [(t.name, t.full_width) for t in spec.observations] == [
        ("base_lin_vel", 3), ("generated_commands", 3), ("joint_pos_rel", 24), ("last_action", 12)
    ]  # fmt: skip
    assert spec.observations[2].clip == (-10.0, 10.0)
    assert spec.period == pytest.approx(0.02)
    assert "FL_hip" in spec.notes[0]


def test_breadth_first_order_of_a_quadruped():
    joints = breadth_first_joints(load_robot("go2").tree)
    assert joints == tuple(
        f"{leg}_{part}_joint"
        for part in ("hip", "thigh", "calf")
        for leg in ("FL", "FR", "RL", "RR")
    )


CHANGES = {
    "missing key": ("decimation: 4", "other: 4"),
    "pattern without a joint": ("'.*hip': 0.1", "'.*knee': 0.1"),
    "broken pattern": ("'.*hip': 0.1", "'(': 0.1"),
    "actuator without joints": ("['.*_hip', '.*_thigh', '.*_calf']", "[wheel]"),
    "unknown action": ("JointPositionAction", "OperationalSpaceControllerAction"),
    "unknown width": ("observations:base_lin_vel", "observations:image"),
    "text for a number": ("dt: 0.005", "dt: fast"),
    "infinite step": ("dt: 0.005", "dt: .inf"),
    "term of joints with a list of parameters": (
        "scale: 2.0",
        "scale: 2.0\n      params: [1]",
    ),
    "not YAML": ("decimation: 4", "decimation: [4"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_broken_files_are_rejected(tmp_path, change):
    assert change[0] in ENV_YAML
    with pytest.raises(InvalidDescription, match="env.yaml"):
        spec_of(tmp_path, ENV_YAML.replace(*change))
