# SPDX-License-Identifier: Apache-2.0
"""Placement words: parsing, round trips, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.robot.placement import Placement, parse_placement, parse_placements
from motion_nodes.errors import InvalidConfig

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("word", "placement"),
    [
        ("franka", Placement("franka")),
        (" jetbot@1,0,0 ", Placement("jetbot", "", 1.0)),
        ("left:=franka@0,0.5,1.57", Placement("franka", "left", 0.0, 0.5, 1.57)),
        ("/cell_2/left:=franka@-1", Placement("franka", "cell_2/left", -1.0)),
        ("a:=/robots/my@home/r.yaml@1,2", Placement("/robots/my@home/r.yaml", "a", 1.0, 2.0)),
    ],
)
def test_words(word, placement):
    assert parse_placement(word) == placement
    assert parse_placement(placement.word) == placement


def test_words_are_short():
    assert Placement("franka", "left", 1.0, -0.5, 0.0).word == "left:=franka@1,-0.5,0"


@settings(derandomize=True, deadline=None, max_examples=60)
@given(finite, finite, finite, st.sampled_from(("", "a", "a/b_2")))
def test_round_trip_loses_nothing(x, y, yaw, namespace):
    placement = Placement("r", namespace, x, y, yaw)
    assert parse_placement(placement.word) == placement


def test_pose():
    X = Placement("r", "", 1.0, 2.0, math.pi / 2).X_WR
    np.testing.assert_allclose(X @ (1, 0, 0, 1), (1, 3, 0, 1), atol=1e-15)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("@1,2,3", "robot"),
        ("a:=", "robot"),
        ("2a:=franka", "namespace"),
        ("a/:=franka", "namespace"),
        (":=franka", "namespace"),
        ("a-b:=franka", "namespace"),
        ("franka@1,2,3,4", "placement"),
        ("franka@here", "placement"),
        ("franka@1,,3", "placement"),
        ("franka@nan,0,0", "placement"),
        ("franka@0,inf,0", "placement"),
    ],
)
def test_bad_words(word, message):
    with pytest.raises(InvalidConfig, check=about(message)):
        parse_placement(word)


def test_several_placements_need_namespaces_of_their_own():
    places = parse_placements(["a:=franka", "", "b:=franka@1", "jetbot"])
    assert [p.namespace for p in places] == ["a", "b", ""]
    with pytest.raises(InvalidConfig):
        parse_placements(["a:=franka", "a:=jetbot@1"])
    with pytest.raises(InvalidConfig):
        parse_placements(["franka", "jetbot"])
    for nothing in ([], ["", " "]):
        with pytest.raises(InvalidConfig):
            parse_placements(nothing)
