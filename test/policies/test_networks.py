# SPDX-License-Identifier: Apache-2.0
"""ONNX files and actuator networks, against NumPy."""

import itertools
import pickle
import zipfile

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.extras.policies.network import (
    ActuatorNetwork,
    ActuatorNetworkSettings,
    check_widths,
    load_network,
)
from motion_nodes.extras.policies.onnx_writer import ACTIVATIONS, OnnxGraph, Perceptron, write_mlp

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
