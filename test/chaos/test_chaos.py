# SPDX-License-Identifier: Apache-2.0
"""A few faults with a fixed seed; ``make chaos`` runs many."""

import pytest
from two_hosts.hosts import NotPermitted

from chaos.campaign import Campaign
from chaos.faults import KINDS, Scene
from chaos.running_suite import RunningSuite
from chaos.small_home import SmallHome

pytestmark = pytest.mark.real_time
SEED, FAULTS = 7, 4
PATIENCE = 60.0
"""[s] That a probe may wait here, where other tests compute too."""


@pytest.mark.timeout(900)
def test_a_suite_comes_back_from_faults(suite, client, tmp_path):
    running = RunningSuite(
        suite, ["arm:=franka", "base:=jetbot@3,0,0"], "mock",
        without=("rrt_planner", "rmpflow_policy", "trajectory_generator"),
    )  # fmt: skip
    campaign = Campaign(
        Scene(running, client), seed=SEED, longest_wait=PATIENCE,
        kinds=("kill", "signal", "freeze", "pause"),
    )  # fmt: skip
    findings = campaign.run(range(FAULTS))
    assert not findings.failures, f"make chaos SEED={SEED}: {findings}"
    assert sum(findings.strikes.values()) == FAULTS


def test_every_fault_can_be_drawn():
    assert all(weight > 0.0 and kind.__doc__ for kind, weight in KINDS.values())


def test_a_small_home_is_filled_closed_and_damaged(tmp_path):
    import random

    try:
        home = SmallHome(tmp_path / "home")
    except NotPermitted as reason:
        pytest.skip(f"file systems cannot be mounted here: {reason}")
    try:
        home.fill()
        with pytest.raises(OSError, match="No space"):
            (home.folder / "more").write_bytes(bytes(1 << 17))
        home.empty()
        home.read_only(True)
        with pytest.raises(OSError, match="Read-only"):
            (home.folder / "more").touch()
        home.read_only(False)
        home.cache.mkdir(exist_ok=True)
        (home.cache / "one").write_bytes(bytes(range(256)))
        assert home.damage(random.Random(1), 3)
        files = [path for path in home.cache.rglob("*") if path.is_file()]
        assert files
    finally:
        home.close()
