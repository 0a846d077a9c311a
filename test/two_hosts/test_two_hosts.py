# SPDX-License-Identifier: Apache-2.0
"""Controllers and robot on two hosts, by each kind of discovery; a cable cut during a motion."""

import json
import sys

import pytest
from fuzz.watcher import python_path
from long_params import shortened

from two_hosts.__main__ import CUT, SKIPPED


@pytest.mark.long
@pytest.mark.parametrize("discovery", shortened(["multicast", "peers", "server"]))
def test_the_cable_is_cut_in_a_motion(suite, discovery):
    process = suite.run(
        [sys.executable, "-m", "two_hosts", "--discovery", discovery], PYTHONPATH=python_path()
    )
    code = process.exit_code(240.0)
    if code == SKIPPED:
        pytest.skip(f"network namespaces are not permitted here: {process.output}")
    assert code == 0, process.output
    figures = json.loads(process.output.splitlines()[-1])
    assert "the robot was lost" in figures["reason"]
    assert figures["goal aborted after [s]"] < CUT
