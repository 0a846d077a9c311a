# SPDX-License-Identifier: Apache-2.0
"""Observations and targets; ONNX and actuator networks."""

import itertools
import pickle
import zipfile

import numpy as np
import pytest
from policies.descriptors import descriptor, write_descriptor
from raised_errors import about
from scipy.spatial.transform import Rotation

from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.extras.policies.isaac_lab_files import read_descriptor
from motion_nodes.extras.policies.network import (
    ActuatorNetwork,
    ActuatorNetworkSettings,
    NetworkFault,
    check_widths,
    load_network,
)
from motion_nodes.extras.policies.observations import PolicyInputs, register_term
from motion_nodes.extras.policies.onnx_writer import ACTIVATIONS, OnnxGraph, Perceptron, write_mlp
from motion_nodes.extras.policies.runner import PolicyRunner

JOINTS = [f"{leg}_{part}" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]
Q0 = np.repeat([0.1, 0.8, -1.5], 4)


def runner_of(folder, weights, bias=None, *, joints=JOINTS, terms=None, order=None, **fields):
    """Return the runner of a linear policy."""
    rng_bias = np.zeros(weights.shape[0]) if bias is None else bias
    file = write_mlp(folder / "policy.onnx", Perceptron([(weights, rng_bias)]))
    fields.setdefault("default_joint_pos", Q0[: len(joints)].tolist())
    spec = read_descriptor(write_descriptor(folder, descriptor(joints, terms, **fields)))
    return PolicyRunner(spec, load_network(file), order or joints)


def random_inputs(rng, n=12, **fields):
    """Return inputs and the orientation in them."""
    R = Rotation.random(rng=rng).as_matrix()
    values = dict(
        position=rng.normal(size=n), velocity=rng.normal(size=n), R_WB=R,
        angular_velocity=rng.normal(size=3), linear_velocity=rng.normal(size=3),
        command=rng.normal(size=3),
    )  # fmt: skip
    return PolicyInputs(**values | fields)


def test_observation_of_a_quadruped_has_48_values_in_order(tmp_path):
    rng = np.random.default_rng(3)
    runner = runner_of(tmp_path, rng.normal(size=(12, 48)) * 0.1)
    first = random_inputs(rng)
    previous = np.zeros(12)
    for _ in range(2):
        down = np.asarray(first.R_WB).T @ [0.0, 0.0, -1.0]
        expected = np.concatenate(
            [first.linear_velocity, first.angular_velocity, down, first.command,
             first.position - Q0, first.velocity, previous]
        )  # fmt: skip
        observed = runner.observe(first)
        assert observed.shape == (48,)
        np.testing.assert_allclose(observed, expected, atol=1e-15)
        runner.step(first)
        previous = runner.previous_action
        first = random_inputs(rng)


@pytest.mark.parametrize(
    ("R", "down"),
    [
        (np.eye(3), [0, 0, -1]),
        (Rotation.from_euler("x", 90, degrees=True).as_matrix(), [0, -1, 0]),
        (Rotation.from_euler("y", 90, degrees=True).as_matrix(), [1, 0, 0]),
        (Rotation.from_euler("z", 90, degrees=True).as_matrix(), [0, 0, -1]),
    ],
)
def test_gravity_direction_of_unit_rotations(tmp_path, R, down):
    terms = [{"name": "projected_gravity", "shape": [3]}]
    runner = runner_of(tmp_path, np.zeros((12, 3)), terms=terms)
    observed = runner.observe(PolicyInputs(Q0, np.zeros(12), R_WB=R))
    np.testing.assert_allclose(observed, down, atol=1e-15)


def test_targets_are_defaults_plus_scaled_actions(tmp_path):
    action = np.linspace(-3.0, 3.0, 12)
    runner = runner_of(tmp_path, np.zeros((12, 48)), action)
    targets = runner.step(random_inputs(np.random.default_rng(0)))
    np.testing.assert_allclose(targets.position, Q0 + 0.2 * action, atol=1e-6)
    assert np.isnan(targets.velocity).all()
    assert np.isnan(targets.effort).all()
    # The previous action is stored raw.
    np.testing.assert_allclose(runner.previous_action, action, atol=1e-6)


def test_joints_are_matched_by_name_in_any_order(tmp_path):
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(12, 48))
    shuffled = [*rng.permutation(JOINTS).tolist(), "tail"]
    a, b = runner_of(tmp_path, weights), runner_of(tmp_path, weights, order=shuffled)
    inputs = random_inputs(rng)
    other = PolicyInputs(
        [*(inputs.position[JOINTS.index(j)] for j in shuffled[:-1]), 9.0],
        [*(inputs.velocity[JOINTS.index(j)] for j in shuffled[:-1]), 9.0],
        inputs.command, inputs.R_WB, inputs.angular_velocity, inputs.linear_velocity,
    )  # fmt: skip
    expected, got = a.step(inputs).position, b.step(other).position
    for joint, value in zip(JOINTS, expected, strict=True):
        assert got[shuffled.index(joint)] == pytest.approx(value, abs=1e-6)
    assert np.isnan(got[-1])
    assert not b.commanded[-1]


def test_a_gain_multiplies_the_observed_command(tmp_path):
    terms = [{"name": "command_lin_vel", "shape": [2]}, {"name": "command_ang_vel", "shape": [1]}]
    own = {"command_gain": [1.25, 2.0, 1.1]}
    runner = runner_of(tmp_path, np.zeros((12, 3)), terms=terms, motion_nodes=own)
    inputs = PolicyInputs(Q0, np.zeros(12), command=[0.4, -0.2, 0.5])
    np.testing.assert_allclose(runner.observe(inputs), [0.5, -0.4, 0.55])
    assert inputs.command == [0.4, -0.2, 0.5]


def test_histories_begin_full_and_are_oldest_first(tmp_path):
    terms = [{"name": "generated_commands", "shape": [2],
              "overloads": {"history_length": 3, "scale": 2.0, "clip": [-5.0, 5.0]}}]  # fmt: skip
    runner = runner_of(tmp_path, np.zeros((12, 6)), terms=terms)
    seen = [
        runner.observe(PolicyInputs(Q0, np.zeros(12), command=[k, 10.0 * k])) for k in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(seen[0], [2, 10, 2, 10, 2, 10])
    np.testing.assert_allclose(seen[1], [2, 10, 2, 10, 4, 10])
    np.testing.assert_allclose(seen[3], [4, 10, 6, 10, 8, 10])
    runner.reset()
    np.testing.assert_allclose(
        runner.observe(PolicyInputs(Q0, np.zeros(12), command=[-1, 0])), [-2, 0, -2, 0, -2, 0]
    )


def test_phases_of_the_gait_and_parts_of_the_twist(tmp_path):
    widths = {"command_ang_vel": 1, "command_lin_vel": 2, "sin_phase": 2, "cos_phase": 2}
    terms = [{"name": name, "shape": [width]} for name, width in widths.items()]
    runner = runner_of(tmp_path, np.zeros((12, 7)), terms=terms, motion_nodes={"gait_period": 0.5})
    assert runner.spec.command_width == 3

    def phases(*command):
        values = runner.observe(PolicyInputs(np.zeros(12), np.zeros(12), command))
        np.testing.assert_array_equal(values[:3], [command[2], *command[:2]])
        return np.arctan2(values[3:5], values[5:])

    # 25 steps of 20 ms are a period.
    for k in range(1, 40):
        expected = 2.0 * np.pi * k / 25.0 + np.array([0.0, np.pi])
        np.testing.assert_allclose(np.exp(1j * phases(0.3, 0.2, 0.1)), np.exp(1j * expected))
    for begin in (lambda: phases(0.0, 0.005, 0.005), runner.reset):
        begin()
        np.testing.assert_allclose(np.abs(phases(0.0, 0.0, 0.0)), np.pi)
        np.testing.assert_allclose(np.abs(phases(0.0, 0.0, 0.1)), [0.0, np.pi], atol=1e-9)
    with pytest.raises(InvalidCommand):
        phases(0.1, 0.0, 0.0, 0.0)


def test_custom_terms_are_given_by_name_or_registered(tmp_path):
    name = "squared_speed_of_a_test"
    terms = [{"name": name, "shape": [1]}, {"name": "height_scan", "shape": [4]}]
    with pytest.raises(InvalidCommand, check=about("height_scan")):
        runner_of(tmp_path, np.zeros((12, 5)), terms=terms).observe(
            PolicyInputs(Q0, np.zeros(12), terms={name: [1.0]})
        )
    register_term(
        name, "odometry", lambda _: lambda i, _: [np.dot(i.linear_velocity, i.linear_velocity)]
    )
    runner = runner_of(tmp_path, np.zeros((12, 5)), terms=terms)
    inputs = PolicyInputs(
        Q0, np.zeros(12), linear_velocity=[1.0, 2.0, 2.0], terms={"height_scan": [1, 2, 3, 4]}
    )
    np.testing.assert_allclose(runner.observe(inputs), [9, 1, 2, 3, 4])
    assert runner.sources == {"odometry", "terms"}
    with pytest.raises(InvalidConfig):
        register_term(name, "odometry", lambda _: lambda i, _: [0.0])


def test_clips_of_observations_and_actions(tmp_path):
    own = {"observation_clip": 2.0, "action_clip": 5.0}
    runner = runner_of(tmp_path, np.zeros((12, 48)), np.full(12, 50.0), motion_nodes=own)
    inputs = random_inputs(np.random.default_rng(0), command=[100.0, -100.0, 0.5])
    np.testing.assert_array_equal(runner.observe(inputs)[9:12], [2.0, -2.0, 0.5])
    np.testing.assert_allclose(runner.step(inputs).position, Q0 + 0.2 * 5.0, atol=1e-6)


BAD = {
    "NaN position": dict(position=np.full(12, np.nan)),
    "short position": dict(position=np.zeros(11)),
    "infinite velocity": dict(velocity=np.full(12, np.inf)),
    "no IMU": dict(R_WB=None),
    "no odometry": dict(linear_velocity=None),
    "NaN command": dict(command=[0.0, np.nan, 0.0]),
    "long command": dict(command=np.zeros(4)),
    "no command": dict(command=()),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_inputs_are_rejected_and_change_nothing(tmp_path, bad):
    rng = np.random.default_rng(0)
    runner = runner_of(tmp_path, rng.normal(size=(12, 48)))
    good = random_inputs(rng)
    runner.step(good)
    before = runner.previous_action
    with pytest.raises(InvalidCommand):
        runner.step(random_inputs(rng, **bad))
    np.testing.assert_array_equal(runner.previous_action, before)


def test_a_rejected_input_extends_no_history_and_advances_no_gait(tmp_path):
    terms = [
        {"name": "joint_pos", "shape": [12], "overloads": {"history_length": 2}},
        {"name": "sin_phase", "shape": [2]},
        {"name": "generated_commands", "shape": [3]},
    ]
    runner, other = (
        runner_of(tmp_path, np.zeros((12, 29)), terms=terms, motion_nodes={"gait_period": 1.0})
        for _ in range(2)
    )
    still = np.zeros(12)
    for k in range(3):
        seen = runner.observe(PolicyInputs(Q0 + k, still, command=[0.5, 0.0, 0.0]))
        expected = other.observe(PolicyInputs(Q0 + k, still, command=[0.5, 0.0, 0.0]))
        np.testing.assert_array_equal(seen, expected)
        with pytest.raises(InvalidCommand):
            runner.observe(PolicyInputs(Q0 - 9.0, still, command=[0.5, np.nan, 0.0]))


def test_outputs_that_are_not_finite_are_faults(tmp_path):
    graph = OnnxGraph()
    graph.add_input("obs", (1, 3))
    graph.add_node("Log", ["obs"], ["actions"])
    graph.add_output("actions", (1, 3))
    (tmp_path / "log.onnx").write_bytes(graph.to_bytes())
    joints, terms = ["a", "b", "c"], [{"name": "joint_pos", "shape": [3]}]
    data = descriptor(joints, terms)
    spec = read_descriptor(write_descriptor(tmp_path, data))
    runner = PolicyRunner(spec, load_network(tmp_path / "log.onnx"), joints)
    runner.step(PolicyInputs(np.ones(3), np.zeros(3)))
    with pytest.raises(NetworkFault):
        runner.step(PolicyInputs(-np.ones(3), np.zeros(3)))
    np.testing.assert_allclose(runner.previous_action, np.zeros(3))


def test_missing_joints_and_wrong_widths_are_named(tmp_path):
    with pytest.raises(InvalidDescription, match="RR_calf"):
        runner_of(tmp_path, np.zeros((12, 48)), order=JOINTS[:-1])
    for shape, field in (((12, 47), "observations"), ((11, 48), "actions")):
        with pytest.raises(InvalidDescription, check=about(field)):
            runner_of(tmp_path, np.zeros(shape))


KINDS = {
    "JointVelocityAction": lambda a, q: (np.nan, 0.5 + 2.0 * a, np.nan),
    "JointEffortAction": lambda a, q: (np.nan, np.nan, 0.5 + 2.0 * a),
    "RelativeJointPositionAction": lambda a, q: (q + 0.5 + 2.0 * a, np.nan, np.nan),
    "JointPositionAction": lambda a, q: (0.5 + 2.0 * a, np.nan, np.nan),
}


@pytest.mark.parametrize(("kind", "expected"), KINDS.items(), ids=KINDS)
def test_kinds_of_actions(tmp_path, kind, expected):
    actions = [
        {"full_path": f"isaaclab.{kind}", "joint_names": ["b"], "scale": 2.0, "offset": [0.5],
         "clip": [[-3.0, 3.0]]}
    ]  # fmt: skip
    terms = [{"name": "joint_pos", "shape": [2]}]
    for a, q in itertools.product((0.2, 40.0), (0.1, 0.3)):
        runner = runner_of(
            tmp_path, np.zeros((1, 2)), np.array([a]), joints=["a", "b"], terms=terms,
            actions=actions,
        )  # fmt: skip
        targets = runner.step(PolicyInputs([9.0, q], [0.0, 0.0]))
        wanted = np.clip(expected(a, q), -3.0, 3.0)
        np.testing.assert_allclose([values[1] for values in targets], wanted, atol=1e-6)
        assert all(np.isnan(values[0]) for values in targets)


NUMPY = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
}


def layers(rng, *widths):
    """Return random layers."""
    return [
        (rng.normal(size=(n, m)) / np.sqrt(m), rng.normal(size=n))
        for m, n in itertools.pairwise(widths)
    ]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_written_networks_compute_what_numpy_does(tmp_path, activation):
    rng = np.random.default_rng(1)
    parts = layers(rng, 7, 16, 8, 3)
    mean, std = rng.normal(size=7), rng.uniform(0.5, 2.0, 7)
    file = write_mlp(
        tmp_path / "a.onnx",
        Perceptron(parts, activation, "tanh", mean=mean, std=std, input_clip=1.5),
        metadata={"author": "test"},
    )
    network = load_network(file)
    assert network.metadata == {"author": "test"}
    for _ in range(20):
        obs = rng.normal(size=7)
        h = np.clip((obs - mean) / std, -1.5, 1.5)
        for i, (w, b) in enumerate(parts):
            h = w @ h + b
            h = np.tanh(h) if i == 2 else NUMPY[activation](h)
        np.testing.assert_allclose(network(obs), h, atol=2e-6)


def test_recurrent_state_is_kept_and_reset(tmp_path):
    graph = OnnxGraph()
    graph.add_input("obs", (1, 2))
    graph.add_input("h_in", (1, 2))
    graph.add_node("Add", ["obs", "h_in"], ["actions"])
    graph.add_node("Add", ["obs", "h_in"], ["h_out"])
    graph.add_output("actions", (1, 2))
    graph.add_output("h_out", (1, 2))
    (tmp_path / "sum.onnx").write_bytes(graph.to_bytes())
    network = load_network(tmp_path / "sum.onnx")
    for k in (1, 2, 3):
        np.testing.assert_allclose(network(np.ones(2)), [k, k])
    network.reset()
    np.testing.assert_allclose(network(np.ones(2)), [1, 1])


def test_widths_must_be_those_of_the_description(tmp_path):
    file = write_mlp(tmp_path / "a.onnx", Perceptron(layers(np.random.default_rng(0), 7, 3)))
    network = load_network(file)
    check_widths(network, 7, 3, "a.onnx")
    with pytest.raises(InvalidDescription, check=about("observations")):
        check_widths(network, 8, 3, "a.onnx")
    with pytest.raises(InvalidDescription, check=about("actions")):
        check_widths(network, 7, 4, "a.onnx")


class Bomb:
    """Raises when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def checkpoint(file):
    """Write a file like that of torch.save: a zip file with a pickle, without TorchScript code."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Bomb()))


WRITERS = {
    "text": lambda f: f.write_text("hello"),
    "empty": lambda f: f.write_bytes(b""),
    "pickle": lambda f: f.write_bytes(pickle.dumps(Bomb())),
    "checkpoint": checkpoint,
    "noise": lambda f: f.write_bytes(np.random.default_rng(0).bytes(1000)),
    "missing": lambda f: None,
    "folder": lambda f: f.mkdir(),
}


@pytest.mark.parametrize("ending", ["onnx", "pt", "pkl"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_files_that_are_no_networks_are_rejected(tmp_path, write, ending):
    file = tmp_path / f"policy.{ending}"
    write(file)
    with pytest.raises(InvalidDescription, match="policy"):
        load_network(file)


def test_a_model_without_inputs_is_rejected(tmp_path):
    graph = OnnxGraph()
    graph.add_node("Identity", [graph.add_constant("c", np.zeros((1, 3)))], ["actions"])
    graph.add_output("actions", (1, 3))
    (tmp_path / "constant.onnx").write_bytes(graph.to_bytes())
    with pytest.raises(InvalidDescription, match="no input"):
        load_network(tmp_path / "constant.onnx")


def test_writer_rejects_what_is_no_network(tmp_path):
    rng = np.random.default_rng(0)
    for parts, options in (
        ([], {}),
        ([(np.eye(2), np.zeros(3))], {}),
        (layers(rng, 3, 4) + layers(rng, 5, 2), {}),
        ([(np.full((2, 2), np.nan), np.zeros(2))], {}),
        (layers(rng, 3, 4), {"output_activation": "gelu"}),
        (layers(rng, 3, 4), {"std": np.zeros(3)}),
        (layers(rng, 3, 4), {"mean": np.zeros(4)}),
    ):
        with pytest.raises(InvalidConfig):
            write_mlp(tmp_path / "a.onnx", Perceptron(parts, **options))
    assert not (tmp_path / "a.onnx").exists()


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def write_lstm(file, W, R, B, out):
    """Write an LSTM of one layer as (n, 1, 2) -> (n, 1) with its states, as exporters do."""
    hidden = R.shape[-1]
    graph = OnnxGraph()
    graph.add_input("input", ("n", 1, 2))
    graph.add_input("h_in", (1, "n", hidden))
    graph.add_input("c_in", (1, "n", hidden))
    names = [graph.add_constant(k, v) for k, v in (("W", W), ("R", R), ("B", B), ("out", out))]
    x = graph.add_node("Transpose", ["input"], ["x"], perm=[1, 0, 2])
    graph.add_node(
        "LSTM", [x, *names[:3], "", "h_in", "c_in"], ["y", "h_out", "c_out"], hidden_size=hidden
    )
    last = graph.add_node("Squeeze", ["h_out", graph.add_index("axes", [0])])
    graph.add_node("MatMul", [last, "out"], ["torque"])
    graph.add_output("torque", ("n", 1))
    graph.add_output("h_out", (1, "n", hidden))
    graph.add_output("c_out", (1, "n", hidden))
    file.write_bytes(graph.to_bytes())


def lstm_step(x, h, c, W, R, B):
    """Return the next states; gates in the order of ONNX: input, output, forget, cell."""
    n = h.shape[-1]
    z = x @ W[0].T + h @ R[0].T + B[0, : 4 * n] + B[0, 4 * n :]
    i, o, f, g = (z[:, k * n : (k + 1) * n] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def test_lstm_of_twelve_joints_with_the_clips_of_anymal(tmp_path):
    rng = np.random.default_rng(0)
    hidden = 8
    W, R = rng.normal(size=(1, 4 * hidden, 2)), rng.normal(size=(1, 4 * hidden, hidden))
    B, out = rng.normal(size=(1, 8 * hidden)), 60.0 * rng.normal(size=(hidden, 1))
    write_lstm(tmp_path / "sea.onnx", W, R, B, out)
    network = ActuatorNetwork(tmp_path / "sea.onnx", 12)
    h = c = np.zeros((12, hidden))
    clipped = 0
    for _ in range(20):
        error, velocity = rng.normal(size=12), 20.0 * rng.normal(size=12)
        h, c = lstm_step(np.stack([error, velocity.clip(-20.0, 20.0)], axis=1), h, c, W, R, B)
        raw = (h @ out)[:, 0]
        efforts = network.efforts(error, velocity)
        np.testing.assert_allclose(efforts, raw.clip(-80.0, 80.0), atol=1e-3)
        clipped += int((np.abs(raw) > 80.0).sum())
    assert clipped > 0
    network.reset()
    h, _ = lstm_step(np.zeros((12, 2)), np.zeros((12, hidden)), np.zeros((12, hidden)), W, R, B)
    np.testing.assert_allclose(
        network.efforts(np.zeros(12), np.zeros(12)), (h @ out)[:, 0].clip(-80, 80), atol=1e-3
    )


def test_mlp_sees_the_newest_values_first(tmp_path):
    rng = np.random.default_rng(1)
    layers = [
        (rng.normal(size=(n, m)), rng.normal(size=n)) for m, n in ((6, 32), (32, 32), (32, 1))
    ]
    write_mlp(tmp_path / "mlp.onnx", Perceptron(layers, activation="softsign"))
    settings = ActuatorNetworkSettings(
        history=3, position_scale=3.0, velocity_scale=0.4, effort_scale=20.0
    )
    network = ActuatorNetwork(tmp_path / "mlp.onnx", 2, settings)
    past = []
    for _ in range(5):
        error, velocity = rng.normal(size=2), rng.normal(size=2)
        past = [(3.0 * error, 0.4 * velocity), *(past or [(3.0 * error, 0.4 * velocity)] * 2)][:3]
        x = np.array([[p[0] for p in past] + [p[1] for p in past]])[0]
        for i, (w, b) in enumerate(layers):
            x = w @ x + b[:, None]
            x = x if i == 2 else x / (1.0 + np.abs(x))
        np.testing.assert_allclose(
            network.efforts(error, velocity), (20.0 * x[0]).clip(-80, 80), atol=1e-3
        )


def test_bad_inputs_and_networks_are_rejected(tmp_path):
    layers = [(np.ones((1, 2)), np.zeros(1))]
    file = write_mlp(tmp_path / "a.onnx", Perceptron(layers))
    network = ActuatorNetwork(file, 3)
    for error in ([0, 0], [0, np.nan, 0], [np.inf, 0, 0]):
        with pytest.raises(InvalidCommand):
            network.efforts(error, np.zeros(len(error)))
    with pytest.raises(InvalidDescription, check=about("inputs")):
        ActuatorNetwork(file, 3, ActuatorNetworkSettings(history=3))
    two = write_mlp(tmp_path / "b.onnx", Perceptron([(np.ones((2, 2)), np.zeros(2))]))
    with pytest.raises(InvalidDescription, check=about("efforts")):
        ActuatorNetwork(two, 3)
    with pytest.raises(InvalidConfig):
        ActuatorNetworkSettings(effort_limit=float("nan"))
