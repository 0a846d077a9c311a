# SPDX-License-Identifier: Apache-2.0
"""``--cluster``: two Dask workers in two network namespaces compute what threads here do."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from raised_errors import about
from two_hosts.hosts import ADDRESSES, NotPermitted, TwoHosts

import motion_nodes
from motion_nodes.cli.cluster import cluster
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.errors import InvalidConfig

pytest.importorskip("distributed")
PROGRAM = """
import sys
import numpy as np, motion_nodes
from motion_nodes.cli.cluster import cluster
arm = motion_nodes.load_robot("ur5e")["arm"]
world = motion_nodes.World()
world.add("wall", motion_nodes.Box(0.02, 1.0, 0.4), motion_nodes.pose(xyz=(0.4, 0.0, 0.2)))
poses = arm.fk_batch(np.load(sys.argv[2]))
with cluster(sys.argv[1]) as executor:
    print("begins", flush=True)
    found = arm.ik_batch(poses, world=world, executor=executor)
np.savez(sys.argv[3], solved=found.solved, q=found.q)
"""


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "127.0.0.1:99999", "nowhere", "tcp://", "http://x y:1"]
)
def test_no_scheduler_is_told(address, monkeypatch):
    monkeypatch.setattr("motion_nodes.cli.cluster.CONNECT_TIMEOUT", 0.5)
    with pytest.raises(InvalidConfig, check=about("cluster")), cluster(address):
        pass


def test_without_an_address_there_is_no_executor():
    with cluster("") as executor:
        assert executor is None


@pytest.fixture
def two_workers(tmp_path):
    """Return the address of a scheduler on host 0, the prefix of its commands, and its workers."""
    try:
        hosts = TwoHosts()
    except NotPermitted as why:
        pytest.skip(f"no network namespaces: {why}")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    log = (tmp_path / "log").open("w")

    def started(host, *words):
        return subprocess.Popen(
            [*hosts.prefix(host), sys.executable, "-m", *words], env=environment, cwd=tmp_path,
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    address = f"tcp://{ADDRESSES[0]}:8786"
    scheduler = started(0, "distributed.cli.dask_scheduler", "--host", ADDRESSES[0],
                        "--port", "8786", "--no-dashboard", "--no-jupyter")  # fmt: skip
    workers = [
        started(k, "distributed.cli.dask_worker", address, "--host", ADDRESSES[k], "--nthreads",
                "1", "--no-nanny", "--no-dashboard", "--name", f"w{k}")
        for k in (0, 1)
    ]  # fmt: skip
    try:
        yield address, hosts.prefix(0), workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
        hosts.close()
        print((tmp_path / "log").read_text())


@pytest.mark.long
def test_two_hosts_give_the_same_results_and_one_that_is_lost_loses_nothing(two_workers, tmp_path):
    address, prefix, workers = two_workers
    arm = motion_nodes.load_robot("ur5e")["arm"]
    q = arm.random(6000, seed=2)
    np.save(tmp_path / "q.npy", q)

    def computed(where, name, lost=None):
        words = [*(prefix if where else ()), sys.executable, "-c", PROGRAM, where]
        process = subprocess.Popen(
            [*words, tmp_path / "q.npy", tmp_path / name], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "begins\n"
        began = time.monotonic()
        if lost is not None:
            time.sleep(0.5)
            lost.kill()
        assert process.wait(300) == 0
        return np.load(tmp_path / name), time.monotonic() - began

    here, _ = computed("", "here.npz")
    both, seconds = computed(address, "both.npz")
    print(f"two workers: {seconds:.1f} s")
    one, _ = computed(address, "one.npz", lost=workers[1])
    assert here["solved"].sum() > 1000
    for found in (both, one):
        assert (found["solved"] == here["solved"]).all()
        assert found["q"] == pytest.approx(here["q"], nan_ok=True)
    rows = [[*X[:3, 3], *to_quat_xyzw(X)] for X in arm.fk_batch(q[:20])]
    with (tmp_path / "poses.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    motion = [*prefix, sys.executable, "-m", "motion_nodes.cli.main", "batch", "ur5e",
              tmp_path / "poses.csv", "--json"]  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        told = [
            json.loads(done.stdout)["poses"]
            for done in pool.map(
                lambda more: subprocess.run([*motion, *more], capture_output=True, text=True),
                ([], ["--cluster", address]),
            )
        ]
    assert told[0] == told[1]


STATES = """
import sys
from distributed import Client
def counts(dask_scheduler):
    log = dask_scheduler.transition_log
    return len(dask_scheduler.tasks), len({row[0] for row in log if row[2] == "memory"})
with Client(sys.argv[1], set_as_default=False) as client:
    print(*client.run_on_scheduler(counts))
"""


@pytest.mark.long
def test_ctrl_c_cancels_the_parts_that_have_not_begun(two_workers, tmp_path):
    address, prefix, _ = two_workers
    arm = motion_nodes.load_robot("ur5e")["arm"]
    np.save(tmp_path / "q.npy", arm.random(50_000, seed=2))  # 200 parts

    def asked():
        done = subprocess.run([*prefix, sys.executable, "-c", STATES, address],
                              capture_output=True, text=True, check=True)  # fmt: skip
        return [int(word) for word in done.stdout.split()]

    words = [*prefix, sys.executable, "-c", PROGRAM, address, tmp_path / "q.npy", tmp_path / "none"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    end = time.monotonic() + 120.0
    while asked()[1] < 2 and time.monotonic() < end:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=120)[1]
    while asked()[0] > 0 and time.monotonic() < end:
        time.sleep(0.2)
    waiting, computed = asked()
    assert waiting == 0
    assert 2 <= computed < 150
