# SPDX-License-Identifier: Apache-2.0
"""Frames of /tf: chains, both ways, and what must not break them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped

from motion_nodes.errors import BadCommand, UnknownFrame
from motion_nodes.model.poses import from_xyz_rpy, inverse, to_quat_xyzw
from motion_nodes.ros.transform_listener import TransformTree

X_MO = from_xyz_rpy((1.0, 2.0, 0.0), (0.0, 0.0, 0.7))
X_OB = from_xyz_rpy((0.3, -0.1, 0.2), (0.1, -0.4, 2.0))
X_MC = from_xyz_rpy((-1.0, 0.0, 1.5), (0.5, 0.2, -0.3))


def transform(parent: str, child: str, X=None, **fields: float) -> TransformStamped:
    X = np.eye(4) if X is None else X
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    t, r = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = to_quat_xyzw(X).tolist()
    for name, value in fields.items():
        setattr(r if name != "tx" else t, name.removeprefix("t"), value)
    return message


def tree() -> TransformTree:
    made = TransformTree()
    made.take([transform("map", "odom", X_MO), transform("odom", "base_link", X_OB)])
    made.take([transform("map", "/camera", X_MC)])
    return made


def test_chains_up_down_and_across():
    made = tree()
    np.testing.assert_allclose(made.pose("map", "base_link"), X_MO @ X_OB, atol=1e-12)
    np.testing.assert_allclose(made.pose("base_link", "map"), inverse(X_MO @ X_OB), atol=1e-12)
    across = inverse(X_MC) @ X_MO @ X_OB
    np.testing.assert_allclose(made.pose("camera", "base_link"), across, atol=1e-12)
    np.testing.assert_array_equal(made.pose("odom", "odom"), np.eye(4))


def test_the_newest_transform_counts():
    made = tree()
    made.take([transform("odom", "base_link", X_MC)])
    np.testing.assert_allclose(made.pose("odom", "base_link"), X_MC, atol=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        transform("odom", "base_link", tx=math.nan),
        transform("odom", "base_link", tx=math.inf),
        transform("odom", "base_link", x=0.0, y=0.0, z=0.0, w=0.0),
        transform("odom", "base_link", w=math.nan),
        transform("", "base_link"),
        transform("base_link", "base_link"),
        transform("odom", ""),
    ],
)
def test_what_is_no_pose_is_passed_over(bad):
    made = tree()
    made.take([bad])
    np.testing.assert_allclose(made.pose("odom", "base_link"), X_OB, atol=1e-12)
    assert made.frames == ("base_link", "camera", "map", "odom")


def test_unknown_apart_and_circular_frames_are_told():
    made = tree()
    with pytest.raises(UnknownFrame, match="frame 'bas_link' is not known.*mean 'base_link'"):
        made.pose("map", "bas_link")
    made.take([transform("island", "hut")])
    with pytest.raises(BadCommand, match="'map' .*'hut' with 'island', but not the two with each"):
        made.pose("map", "hut")
    made.take([transform("hut", "island")])
    with pytest.raises(BadCommand, match="in a circle at frame"):
        made.pose("map", "hut")
