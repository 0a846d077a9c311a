# SPDX-License-Identifier: Apache-2.0
"""The stranger's first minutes, step by step: wall time from the clone to a robot of one's own.

Run: ``python benchmarks/bench_first_minutes.py`` (some minutes). Clones the committed state of this
repository into a temporary folder and does there what the README says, as one who has never seen
it: no environment, no compiled kernels. The demo counts as seen when the show begins. What pip has
in its cache and how fast the network is decide the set-up; ``--no-pip-cache`` has everything
downloaded. With ``--skip-setup`` nothing is installed: the clone borrows the environment that runs
this file.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from child_processes import isolate
from report import Cell, Report, arguments, progress

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 900.0
"""[s] How long a step may take."""
PORT = "8190"
SHOW = "the show starts"
URDF_BLOCK = re.compile(r"^```xml\n(<!-- my_arm\.urdf -->.*?)^```", re.DOTALL | re.MULTILINE)


class StepFailed(RuntimeError):
    """A step did not do what it should; the text holds its last words."""


class Stranger:
    """Does one step after the other in a folder, and notes how long each takes."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Begin in an empty folder."""
        self.folder = folder
        self.rows: list[list[Cell]] = []
        self.failed: list[str] = []
        self._environment = dict(environment)

    def run(self, label: str, words: Sequence[str], within: float | None = None) -> None:
        """Run a command to its end; ``within`` [s] is what the README promises."""
        self._step(label, lambda: self._to_end(words), within)

    @contextlib.contextmanager
    def running(
        self, label: str, words: Sequence[str], text: str, within: float | None = None
    ) -> Iterator[None]:
        """Start a command, wait until it prints a text; stop it at the end of the context."""
        found: list[subprocess.Popen[str]] = []
        self._step(label, lambda: found.append(self._until(words, text)), within)
        try:
            yield
        finally:
            for process in found:
                stop(process)

    def _step(self, label: str, work: Callable[[], object], within: float | None) -> None:
        progress(label)
        begin = time.monotonic()
        try:
            work()
        except StepFailed as failed:
            # The others tell something, too.
            progress(str(failed))
            self.failed.append(label)
            self.rows.append([f"{label}: FAILED", None, within])
        else:
            self.rows.append([label, time.monotonic() - begin, within])

    def _to_end(self, words: Sequence[str]) -> None:
        done = subprocess.run(
            list(words), cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StepFailed(
                f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}"
            )

    def _until(self, words: Sequence[str], text: str) -> subprocess.Popen[str]:
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                list(words), cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            end = time.monotonic() + LIMIT
            while True:
                told = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
                if text in told:
                    return process
                if process.poll() is not None or time.monotonic() > end:
                    stop(process)
                    raise StepFailed(f"{' '.join(words)} did not say '{text}':\n{told[-2000:]}")
                time.sleep(0.02)


def stop(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C and wait for the end; make has a child, so the whole group hears it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(30.0)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def first_minutes(folder: Path, *, skip_setup: bool, pip_cache: bool) -> Stranger:
    """Do everything in an empty folder; return who did it."""
    clone = folder / "motion_nodes"
    environment = {
        **os.environ,
        "MOTION_NODES_CACHE_DIR": str(folder / "kernels"),
        "PYTHONPATH": str(clone) if skip_setup else "",
        **({} if pip_cache else {"PIP_NO_CACHE_DIR": "1"}),
    }
    stranger = Stranger(folder, environment)
    stranger.run("git clone", ["git", "clone", "-q", str(ROOT), str(clone)])
    stranger.folder = clone
    if skip_setup:
        motion = [sys.executable, "-m", "motion_nodes.cli.main"]
        demo = [*motion, "demo", "--port", PORT]
    else:
        motion = [str(clone / ".venv" / "bin" / "motion")]
        python = f"PYTHON={Path(sys.base_prefix) / 'bin' / 'python3'}"
        demo = ["make", "demo", f"PORT={PORT}", python]
        stranger.run("make setup, a part of the first make demo", ["make", "setup", python])
    with stranger.running("make demo: the show begins", demo, SHOW):
        pass
    so_far = sum(float(row[1]) for row in stranger.rows if isinstance(row[1], float))
    stranger.rows.append(["all until here", so_far, 180.0])
    with stranger.running("make demo again", demo, SHOW, 10.0):
        pass
    stranger.run("motion --help", [*motion, "--help"])
    stranger.run("motion fk franka --state ready", [*motion, "fk", "franka", "--state", "ready"])
    plan = [*motion, "plan", "franka", "--from", "ready", "--to", "0.9,0.4,0,-1.9,0,2.3,0.8"]
    stranger.run("motion plan franka: the first", plan)
    stranger.run("motion plan franka: the second", plan)
    up = [*motion, "up", "franka", "--port", PORT]
    go = [*motion, "go", "franka", "--to", "ready"]
    with stranger.running("motion up franka: READY", up, "READY after"):
        stranger.run("motion go franka --to ready, with the motion", go)
    own_robot(stranger, motion)
    return stranger


def own_robot(stranger: Stranger, motion: Sequence[str]) -> None:
    """Bring the robot of the tutorial."""
    page = (ROOT / "docs" / "tutorials" / "bring_your_robot.md").read_text(encoding="utf-8")
    block = URDF_BLOCK.search(page)
    if block is None:
        raise StepFailed("the tutorial holds no URDF")
    (stranger.folder / "my_arm.urdf").write_text(block[1], encoding="utf-8")
    stranger.run("motion new my_arm.urdf", [*motion, "new", "my_arm.urdf"], 60.0)
    plan = [*motion, "plan", "my_arm", "--from", "0,0.4,0.6,0.3", "--to", "1.2,0.6,0.4,0.2"]
    stranger.run("motion plan my_arm: the first", plan)
    up = [*motion, "up", "./my_arm", "--port", PORT]
    with stranger.running("motion up ./my_arm: READY", up, "READY after"):
        pass


def main() -> None:
    """Measure, and print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--skip-setup", action="store_true", help="install nothing")
    parser.add_argument("--no-pip-cache", action="store_true", help="download every wheel anew")
    options = parser.parse_args()
    isolate()
    report = Report("The first minutes")
    with tempfile.TemporaryDirectory(prefix="motion_nodes-first-") as folder:
        stranger = first_minutes(
            Path(folder), skip_setup=options.skip_setup, pip_cache=not options.no_pip_cache
        )
    report.table(
        "Wall time of each step",
        ["", "s", "promised [s]"],
        stranger.rows,
        "One run, with no compiled kernels and no environment before it. The first show waits for "
        "what it needs to be compiled.",
    )
    report.write(options.json)
    sys.exit(1 if stranger.failed else 0)


if __name__ == "__main__":
    main()
