# SPDX-License-Identifier: Apache-2.0
"""``motion learn``: a short run, its continuation and evaluation, and invalid requests."""

import csv
import functools
import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from motion_nodes.cli.main import main
from motion_nodes.extras.learning.training_run import load_policy


def call(capsys, *words):
    """Return exit code and output of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["learn", *map(str, words)])
    return ended.value.code or 0, capsys.readouterr()


@pytest.mark.long
def test_train_resume_and_evaluate(tmp_path, capsys):
    run = tmp_path / "run"
    short = ("reach", "--envs", 8, "-o", run, "--episodes", 4, "--json")
    code, out = call(capsys, *short, "--steps", 500, "--port", 0)
    assert code == 0
    assert re.search(r"^Open http://127.0.0.1:\d+/\?token=\S+ in a browser.$", out.err, re.M)
    files = {file.name for file in run.iterdir()}
    assert files == {
        *("checkpoint.npz", "best.npz", "curve.csv", "curve.svg"),
        *("policy.onnx", "IO_descriptors.yaml"),
    }
    code, out = call(capsys, *short, "--steps", 800, "--resume")
    assert code == 0
    steps = [int(row["steps"]) for row in csv.DictReader((run / "curve.csv").open())]
    assert steps == [256, 512, 768, 1024]
    trained = json.loads(out.out)
    for name in ("best.npz", "policy.onnx"):
        code, out = call(capsys, "reach", "--evaluate", run / name, "--episodes", 4, "--json")
        assert code == 0
        again = json.loads(out.out)
        assert again["episodes"] == 4
        assert again["mean_return"] == pytest.approx(trained["mean_return"], abs=1e-3)
    for words in (
        (*short, "--steps", 500),  # there is a run already
        ("grasp", "--evaluate", run / "checkpoint.npz"),
        ("grasp", "--evaluate", run / "policy.onnx"),
        ("drawer", "-o", run, "--resume"),
    ):
        code, out = call(capsys, *words)
        assert code == 2
        assert out.err.startswith("motion: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_training_with_a_checkpoint(tmp_path, number):
    words = ["-m", "motion_nodes.cli.main", "learn", "reach", "--minutes", "5", "--envs", "8"]
    process = subprocess.Popen(
        [sys.executable, *words, "-o", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        # Under nohup, processes inherit that SIGHUP is ignored.
        preexec_fn=functools.partial(signal.signal, number, signal.SIG_DFL),
    )
    end = time.monotonic() + 120.0
    while not (tmp_path / "curve.csv").exists() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not (tmp_path / "checkpoint.npz").exists()
    process.send_signal(number)
    assert "Traceback" not in process.communicate(timeout=120)[1]
    assert process.returncode == 130
    load_policy(tmp_path / "checkpoint.npz", "reach")


@pytest.mark.parametrize(
    "words",
    [
        ("reech",),
        ("reach", "--algorithm", "sacc"),
        ("reach", "--robot", "so100"),
        ("reach", "--robot", "turtlebot3_burger"),
        ("grasp", "--robot", "so101"),
        ("reach", "--minutes", "nan"),
        ("reach", "--minutes", -1),
        ("reach", "--steps", 0),
        ("reach", "--envs", 0),
        ("reach", "--workers", 0),
        ("reach", "--episodes", 0),
        ("reach", "--seed", -1),
        ("reach", "--port", -1),
        ("reach", "--port", 70_000),
        ("reach", "--resume"),
        ("reach", "--evaluate", "missing.npz"),
        ("reach", "--evaluate", "missing.onnx"),
    ],
)
def test_invalid_requests(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out = call(capsys, *words)
    assert code == 2
    assert out.err.startswith("motion: ")
    assert np.size(list(tmp_path.iterdir())) == 0
