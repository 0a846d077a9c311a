# SPDX-License-Identifier: Apache-2.0
"""Rotations of messages by tf_transformations and by transforms3d, against SciPy."""

import importlib
import math
import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from motion_nodes.ros.messages import rotations


@pytest.fixture(params=[True, False], ids=["tf_transformations", "transforms3d"])
def module(request, monkeypatch):
    """Return the module with one of the two libraries."""
    if request.param:
        pytest.importorskip("tf_transformations")
    else:
        monkeypatch.setitem(sys.modules, "tf_transformations", None)
    yield importlib.reload(rotations)
    monkeypatch.undo()
    importlib.reload(rotations)


def test_matrices_and_quaternions_are_those_of_scipy(module):
    rng = np.random.default_rng(3)
    axes = [s * np.eye(4)[k] for k in range(4) for s in (1.0, -1.0)]
    for quaternion in [*rng.normal(size=(100, 4)), *axes, (1e-6, 0, 0, 1), (0, 3e5, 0, -1e-9)]:
        X = module.matrix_of((1.0, 2.0, 3.0), quaternion)
        rotation = Rotation.from_quat(quaternion)
        assert X[:3, :3] == pytest.approx(rotation.as_matrix(), abs=1e-12)
        assert X[:, 3].tolist() == [1.0, 2.0, 3.0, 1.0]
        back = module.quaternion_of(X)
        assert back[3] >= 0.0
        assert abs(np.dot(back, rotation.as_quat())) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("quaternion", [(0, 0, 0, 0), (math.nan, 0, 0, 1), (math.inf, 0, 0, 1)])
def test_no_rotation_is_refused(module, quaternion):
    with pytest.raises(ValueError, match="not a rotation"):
        module.matrix_of((0.0, 0.0, 0.0), quaternion)
    assert all(map(math.isnan, module.quaternion_of(np.full((4, 4), np.nan))))
