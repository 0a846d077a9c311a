# SPDX-License-Identifier: Apache-2.0
"""A scheduler or workers that are lost in the middle of ``--cluster``."""

import csv
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from patience import wait_until

import motion_nodes
from motion_nodes.cli import cluster
from motion_nodes.cli.cluster import Lost, _Parts, _watch
from motion_nodes.core.robot.poses import to_quat_xyzw

# ---- parts


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_parts_pass_results_and_errors_on_and_are_counted(pool):
    seen: list[tuple[int, int]] = []
    parts = _Parts(pool, lambda done, count: seen.append((done, count)))
    good, bad = parts.submit(pow, 3, 2), parts.submit(divmod, 1, 0)
    assert good.result(10.0) == 9
    with pytest.raises(ZeroDivisionError):
        bad.result(10.0)
    with pytest.raises(Lost, match="on a worker: .*No such file"):  # not a disk of this machine
        parts.submit(open, "/no/such/file").result(10.0)
    assert max(seen) == (3, 3)


def test_parts_that_are_given_up_end_at_once_and_no_others_begin(pool):
    seen: list[int] = []
    parts, released = _Parts(pool, lambda done, _count: seen.append(done)), threading.Event()
    waiting = [parts.submit(released.wait) for _ in range(5)]
    parts.give_up("gone")
    for future in waiting:
        with pytest.raises(Lost, match="gone"):
            future.result(10.0)
    with pytest.raises(Lost, match="gone"):
        parts.submit(pow, 1, 1)
    released.set()
    pool.shutdown()
    assert seen == []


def test_a_cancelled_part_does_not_begin_and_one_that_others_cancel_is_lost(pool):
    parts, released = _Parts(pool, lambda _done, _count: None), threading.Event()
    busy = [parts.submit(released.wait) for _ in range(2)]
    begun: list[int] = []
    mine = parts.submit(begun.append, 1)
    assert mine.cancel()
    remote = SimpleNamespace(cancelled=lambda: True)
    theirs = parts.submit(begun.append, 2)
    parts._end(theirs, remote)
    with pytest.raises(Lost):
        theirs.result(10.0)
    released.set()
    assert all(future.result(10.0) for future in busy)
    pool.shutdown()
    assert 1 not in begun


class Scheduler:
    """A client whose scheduler answers with a list of numbers of workers, then never."""

    def __init__(self, answers: list[int]) -> None:
        self.answers, self.asked = answers, 0
        self.scheduler = SimpleNamespace(identity=None)

    def sync(self, _question: object, callback_timeout: float) -> dict[str, object]:
        self.asked += 1
        if not self.answers:
            raise TimeoutError(f"{callback_timeout} s")
        return {"workers": dict.fromkeys(range(self.answers.pop(0)))}


@pytest.mark.parametrize(
    ("answers", "why"),
    [([2, 1], "not answered"), ([1, *[0] * 1000], "no worker"), ([], "not answered")],
)
def test_a_silent_scheduler_and_one_without_workers_are_noticed(monkeypatch, pool, answers, why):
    for name in ("ASK_PERIOD", "SILENCE", "WORKERLESS"):
        monkeypatch.setattr(cluster, name, 0.02)
    parts = _Parts(pool, lambda _done, _count: None)
    released = threading.Event()
    waiting = parts.submit(released.wait)
    _watch(Scheduler(answers), parts, threading.Event())
    released.set()
    with pytest.raises(Lost, match=why):
        waiting.result(10.0)


def test_workers_that_come_back_in_time_are_waited_for(monkeypatch, pool):
    monkeypatch.setattr(cluster, "ASK_PERIOD", 0.001)
    monkeypatch.setattr(cluster, "SILENCE", 0.02)
    monkeypatch.setattr(cluster, "WORKERLESS", 60.0)
    parts = _Parts(pool, lambda _done, _count: None)
    client = Scheduler([1, 0, 0, 0, 2, 0, 1])
    _watch(client, parts, threading.Event())
    assert client.asked > 7
    with pytest.raises(Lost, match="not answered"):
        parts.submit(pow, 1, 1)


# ---- real ones

MOTION = """
import sys
from motion_nodes.cli import cluster
cluster.ASK_PERIOD = 0.2
cluster.SILENCE = cluster.WORKERLESS = {silence}
from motion_nodes.cli.main import main
main(sys.argv[1:])
"""
LEARN = ["learn", "reach", "--envs", "8"]
COMMANDS = {
    "poses": ["batch", "ur5e", "poses.csv"],
    "plans": ["batch", "ur5e", "poses.csv", "--plan-from", "home"],
    "reach": ["reach", "ur5e", "--step", "0.02", "--directions", "40", "--free"],
    "learn": [*LEARN, "--minutes", "5", "-o", "run"],
}


class Dask:
    """A scheduler and two workers on this machine."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._log = (folder / "log").open("w")
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0",
                                     "--no-dashboard", "--no-jupyter")  # fmt: skip
        wait_until(self._found, "the address of the scheduler")
        self.workers = [
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                        "--name", f"w{k}")
            for k in (0, 1)
        ]  # fmt: skip

    def _start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *words], cwd=self.folder,
            env=self.environment, stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _found(self) -> str:
        words = (self.folder / "log").read_text().split()
        self.address = next((word for word in words if word.startswith("tcp://")), "")
        return self.address

    def motion(self, *words: str, silence: float = 3.0) -> subprocess.Popen[str]:
        """Start a command that gives a silent cluster up after a time [s]."""
        return subprocess.Popen(
            [sys.executable, "-c", MOTION.format(silence=silence), *words],
            cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def computes(self) -> None:
        """Wait until workers have begun with parts."""
        from distributed import Client

        def processing(dask_scheduler) -> int:
            return sum(len(worker.processing) for worker in dask_scheduler.workers.values())

        with Client(self.address, set_as_default=False) as client:
            wait_until(lambda: client.run_on_scheduler(processing), "parts are computed")

    def close(self) -> None:
        """End all."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()
        print((self.folder / "log").read_text())


@pytest.fixture
def dask(tmp_path):
    pytest.importorskip("distributed")
    arm = motion_nodes.load_robot("ur5e")["arm"]
    rows = [[*X[:3, 3], *to_quat_xyzw(X)] for X in arm.fk_batch(arm.random(50_000, seed=2))]
    with (tmp_path / "poses.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    made = Dask(tmp_path)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "lost", "why"),
    [
        ("poses", "killed", "the scheduler "),
        ("plans", "killed", "the scheduler "),
        ("reach", "killed", "the scheduler "),
        ("learn", "killed", "the scheduler "),
        ("reach", "stopped", "the scheduler "),
        ("learn", "stopped", "the scheduler "),
        ("plans", "no worker", "it has had no worker"),
    ],
)
def test_a_lost_cluster_ends_the_command_in_words(dask, what, lost, why):
    process = dask.motion(*COMMANDS[what], "--cluster", dask.address)
    dask.computes()
    if what == "learn":
        wait_until((dask.folder / "run/curve.csv").exists, "the first update")
    gone = dask.workers if lost == "no worker" else [dask.scheduler]
    for each in gone:
        each.send_signal(signal.SIGSTOP if lost == "stopped" else signal.SIGKILL)
    out, _ = process.communicate(timeout=60.0)
    assert process.returncode == 2, out
    assert out.strip().splitlines()[-1].startswith(f"motion: --cluster {dask.address}: {why}")
    assert "Traceback" not in out
    if what == "learn":  # what was learned is kept
        again = dask.motion(*LEARN, "--steps", "1", "-o", "run", "--resume", "--episodes", "1")
        assert again.wait(120.0) == 0, again.stdout.read()


@pytest.mark.long
def test_training_goes_on_without_a_lost_worker_with_the_same_numbers(dask):
    words = [*LEARN, "--steps", "30000", "--episodes", "1"]
    here = dask.motion(*words, "-o", "here")
    # The first import of the package in the scheduler blocks it for seconds on a busy machine.
    there = dask.motion(*words, "-o", "there", "--cluster", dask.address, silence=20.0)
    wait_until((dask.folder / "there/curve.csv").exists, "the first update")
    dask.workers[1].kill()
    for process in (here, there):
        out, _ = process.communicate(timeout=300.0)
        assert process.returncode == 0, out
    rows = []
    for name in ("here", "there"):
        with (dask.folder / name / "curve.csv").open(newline="") as file:
            rows.append([
                {key: value for key, value in row.items() if key not in ("seconds", "rate")}
                for row in csv.DictReader(file)
            ])  # fmt: skip
    assert rows[0] == rows[1]
    assert len(rows[0]) > 2
