# SPDX-License-Identifier: Apache-2.0
"""Actuator networks against NumPy: LSTM with clipping, MLP with history and scales."""

from __future__ import annotations

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.extras.policies.network import ActuatorNetwork, ActuatorNetworkSettings
from motion_nodes.extras.policies.onnx_writer import OnnxGraph, Perceptron, write_mlp


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
