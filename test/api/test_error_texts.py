# SPDX-License-Identifier: Apache-2.0
"""One text per class of errors: given and allowed values. Other tests assert fields."""

import math

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes import errors
from motion_nodes.core.reactive.policy_state import StuckSettings

ARM = mn.load_robot("franka")["arm"]


def _description(folder):
    file = folder / "robot.yaml"
    file.write_text("format: 1\nname: arm\nurdf: arm.urdf\n")
    mn.load_robot(str(file))


CASES = {
    errors.RobotNotFound: (lambda _: mn.load_robot("frnka"), "'frnka'", "Did you mean 'franka'?"),
    errors.UnknownJoint: (
        lambda _: mn.load_robot("franka").description.indices(["panda_joint11"]),
        "'panda_joint11'",
        "Did you mean 'panda_joint1'?",
    ),
    errors.UnknownFrame: (
        lambda _: ARM.fk(ARM.state("ready"), "panda_hnd"), "'panda_hnd'", "'panda_hand'",
    ),
    errors.UnknownGroup: (lambda _: mn.load_robot("franka")["amr"], "'amr'", "Did you mean 'arm'?"),
    errors.UnknownState: (lambda _: ARM.state("redy"), "'redy'", "Did you mean 'ready'?"),
    errors.InvalidDescription: (_description, "robot.yaml", "`kind`"),
    errors.InvalidCommand: (
        lambda _: ARM.fk(np.zeros(3)), "3", "7",
    ),
    errors.InvalidConfig: (
        lambda _: StuckSettings(patience=math.nan), "nan", "patience",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_the_text_names_what_was_given_and_what_is_allowed(kind, tmp_path):
    call, given, allowed = CASES[kind]
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert given in str(caught.value)
    assert allowed in str(caught.value)


def test_each_public_class_has_its_text():
    public = {
        value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
    }
    assert public - {errors.MotionError} == set(CASES)
