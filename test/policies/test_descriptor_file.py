# SPDX-License-Identifier: Apache-2.0
"""IO_descriptors.yaml and env.yaml: reading, defaults, broken files."""

import copy

import numpy as np
import pytest
from policies.descriptors import ENV_YAML, descriptor, write_descriptor

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.policies.isaac_lab_files import (
    breadth_first_joints,
    read_descriptor,
    read_env,
)
from motion_nodes.extras.policies.policy_spec import ActionKind

JOINTS = ["hip", "thigh", "calf"]


def test_terms_keep_their_order_and_widths(tmp_path):
    data = descriptor(
        JOINTS, default_joint_pos=[0.0, 0.8, -1.5], default_joint_stiffness=[20.0] * 3
    )
    spec = read_descriptor(write_descriptor(tmp_path, data))
    assert [term.name for term in spec.observations][:2] == ["base_lin_vel", "base_ang_vel"]
    assert spec.observation_width == 12 + 3 * 3
    assert spec.action_width == 3
    assert spec.commanded_joints == tuple(JOINTS)
    assert spec.period == pytest.approx(0.02)
    np.testing.assert_array_equal(spec.joints.position, [0.0, 0.8, -1.5])
    np.testing.assert_array_equal(spec.actions[0].scale, [0.2] * 3)
    np.testing.assert_array_equal(spec.actions[0].offset, [0.0, 0.8, -1.5])
    assert np.isnan(spec.joints.damping).all()
    assert spec.command_width == 3


def test_overloads_and_own_fields(tmp_path):
    terms = [
        {
            "name": "joint_pos_rel",
            "shape": [3],
            "joint_names": JOINTS[::-1],
            "joint_pos_offsets": [1.0, 2.0, 3.0],
            "overloads": {"scale": [1.0, 2.0, 3.0], "clip": [-5.0, 5.0], "history_length": 4},
        }
    ]
    own = {"observation_clip": 100.0, "action_clip": 10.0, "max_command": [1.0, 0.5, 1.5]}
    own |= {"balances": True}
    spec = read_descriptor(write_descriptor(tmp_path, descriptor(JOINTS, terms, motion_nodes=own)))
    (term,) = spec.observations
    assert (term.full_width, term.clip, term.history) == (12, (-5.0, 5.0), 4)
    assert term.joints == tuple(JOINTS[::-1])
    np.testing.assert_array_equal(term.offset, [1.0, 2.0, 3.0])
    assert (spec.observation_clip, spec.action_clip) == (100.0, 10.0)
    np.testing.assert_array_equal(spec.max_command, [1.0, 0.5, 1.5])
    assert spec.balances


def test_a_gain_reduces_the_range_of_commands(tmp_path):
    own = {"max_command": [1.0, 1.0, 1.0], "command_gain": [1.25, 2.0, 1.0]}
    spec = read_descriptor(write_descriptor(tmp_path, descriptor(JOINTS, motion_nodes=own)))
    np.testing.assert_allclose(spec.command_limit, [0.8, 0.5, 1.0])


@pytest.mark.parametrize("gain", [[1.0, 2.0], [1.0, 0.0, 1.0], [1.0, -2.0, 1.0]])
def test_gains_of_another_width_or_sign_are_rejected(tmp_path, gain):
    data = descriptor(JOINTS, motion_nodes={"command_gain": gain})
    with pytest.raises(InvalidDescription, match="command_gain"):
        read_descriptor(write_descriptor(tmp_path, data))


def test_tags_and_tuples_of_python_are_plain_data(tmp_path):
    file = write_descriptor(tmp_path, descriptor(JOINTS))
    text = file.read_text()
    file.write_text(
        text.replace("shape: [3]", "shape: !!python/tuple [3]", 1)
        + "other: !!python/object/apply:os.system [touch /tmp/never]\n"
    )
    assert read_descriptor(file).observation_width == 21


def test_binary_actions_open_and_close(tmp_path):
    actions = [
        {
            "full_path": "isaaclab.envs.mdp.actions.binary_joint_actions.BinaryJointPositionAction",
            "joint_names": ["hip", "thigh"],
            "open_command_expr": {".*": 0.04},
            "close_command_expr": {"hip": 0.0, "thigh": 0.01},
        }
    ]
    terms = [{"name": "last_action", "shape": [1]}]
    spec = read_descriptor(write_descriptor(tmp_path, descriptor(JOINTS, terms, actions=actions)))
    (term,) = spec.actions
    assert (term.kind, term.width) == (ActionKind.BINARY, 1)
    np.testing.assert_array_equal(term.lower, [0.0, 0.01])
    np.testing.assert_array_equal(term.upper, [0.04, 0.04])


BROKEN = {
    "no observations": lambda d: d.pop("observations"),
    "no timing": lambda d: d["scene"].pop("decimation"),
    "decimation of zero": lambda d: d["scene"].update(decimation=0),
    "huge period": lambda d: d["scene"].update(physics_dt=1e9),
    "boolean period": lambda d: d["scene"].update(physics_dt=True),
    "unknown action": lambda d: d["actions"][0].update(full_path="a.b.PinkInverseKinematicsAction"),
    "unknown joint": lambda d: d["actions"][0].update(joint_names=["hip", "thigh", "elbow"]),
    "joint twice": lambda d: d["actions"][0].update(joint_names=["hip", "hip", "calf"]),
    "scales of another length": lambda d: d["actions"][0].update(scale=[0.2, 0.2]),
    "NaN scale": lambda d: d["actions"][0].update(scale=float("nan")),
    "infinite offset": lambda d: d["actions"][0].update(offset=[0.0, 0.0, float("inf")]),
    "clip the wrong way": lambda d: d["actions"][0].update(clip=[1.0, -1.0]),
    "two articulations": lambda d: d["articulations"].update(
        {"a": d["articulations"].pop("robot"), "b": {}}
    ),
    "defaults of another length": lambda d: d["articulations"]["robot"].update(
        default_joint_pos=[0.0]
    ),
    "no shape": lambda d: d["observations"]["policy"][0].pop("shape"),
    "joints that do not fit the shape": lambda d: d["observations"]["policy"][4].update(shape=[2]),
    "terms that are no list": lambda d: d["observations"].update(policy="all"),
    "modifiers": lambda d: d["observations"]["policy"][0].update(extras={"modifiers": [1]}),
    "extras that are a list": lambda d: d["observations"]["policy"][0].update(extras=[1]),
    "overloads that are text": lambda d: d["observations"]["policy"][0].update(overloads="clip"),
    "an articulation that is a list": lambda d: d.update(articulations={"robot": [1]}),
    "a huge gait": lambda d: d.update(motion_nodes={"gait_period": 10**400}),
    "negative clip": lambda d: d.update(motion_nodes={"action_clip": -1.0}),
    "gait of no length": lambda d: d.update(motion_nodes={"gait_period": 0.0}),
    "endless gait": lambda d: d.update(motion_nodes={"gait_period": float("inf")}),
    "balances as a number": lambda d: d.update(motion_nodes={"balances": 1}),
    "phases without a period": lambda d: d["observations"]["policy"].append(
        {"name": "sin_phase", "shape": [2]}
    ),
    "a gait without a twist": lambda d: d.update(
        motion_nodes={"gait_period": 1.0},
        observations={"policy": [{"name": "last_action", "shape": [3]}]},
    ),
    "actions commanded twice": lambda d: d["actions"].append(copy.deepcopy(d["actions"][0])),
    "a mapping for a list": lambda d: d.update(actions={"a": 1}),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_rejected(tmp_path, change):
    data = descriptor(JOINTS)
    change(data)
    file = tmp_path / "IO_descriptors.yaml"
    # yaml_text writes no NaN.
    import yaml

    file.write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidDescription, match="IO_descriptors"):
        read_descriptor(file)


JOINTS_ENV_FILE = [
    f"{leg}_{part}" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")
]


def spec_of(folder, text=ENV_YAML, joints=JOINTS_ENV_FILE):
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
def test_broken_files_are_rejected_of_env_file(tmp_path, change):
    assert change[0] in ENV_YAML
    with pytest.raises(InvalidDescription, match="env.yaml"):
        spec_of(tmp_path, ENV_YAML.replace(*change))


def test_the_height_of_the_base_is_one_value(tmp_path):
    text = ENV_YAML.replace("observations:base_lin_vel", "observations:base_pos_z")
    (term,) = (t for t in spec_of(tmp_path, text).observations if t.name == "base_pos_z")
    assert term.width == 1
