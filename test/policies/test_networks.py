# SPDX-License-Identifier: Apache-2.0
"""ONNX files: the writer against NumPy with ONNX Runtime; invalid network files."""

from __future__ import annotations

import itertools
import pickle
import zipfile

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.policies.network import check_widths, load_network
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
