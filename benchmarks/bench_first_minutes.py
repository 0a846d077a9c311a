# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first minutes, step by step: wall time from the clone to a robot of one's own.

Run: ``python benchmarks/bench_first_minutes.py`` (some minutes). Clones the committed state of this
repository into a temporary folder and does there what the README says: no environment, no compiled
kernels. The demo counts as seen when the show begins. What pip has in its cache and how fast the
network is decide the set-up; ``--no-pip-cache`` has everything downloaded. With ``--skip-setup``
nothing is installed: the clone borrows the environment that runs this file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness import Cell, Report, arguments, isolate, progress

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 900.0  # [s] How long a step may take
PORT = "8190"
SHOW = "the show starts"
URDF_BLOCK = re.compile(r"^```xml\n(<!-- my_arm\.urdf -->.*?)^```", re.DOTALL | re.MULTILINE)


class Newcomer:
    """Does one step after the other in a folder, and notes how long each takes."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        """Begin in an empty folder."""
        self.folder, self._environment = folder, environment
        self.rows: list[list[Cell]] = []
        self.failed = False

    def run(
        self, label: str, words: Sequence[str], within: float | None = None, text: str = "",
        then: tuple[str, Sequence[str]] | None = None,
    ) -> None:  # fmt: skip
        """Run a command to its end, or until it prints a text; then interrupt it.

        ``within`` is what the README promises [s], ``then`` a step while the command runs.
        """
        progress(label)
        with tempfile.TemporaryFile("w+") as log:
            begin = time.monotonic()
            process = subprocess.Popen(
                list(words), cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

            def printed() -> str:
                return os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")

            try:
                while process.poll() is None and time.monotonic() < begin + LIMIT:
                    if text and text in printed():
                        break
                    time.sleep(0.02)
                took, good = (
                    time.monotonic() - begin,
                    text in printed() if text else process.poll() == 0,
                )
                self.rows.append([label + ": FAILED" * (not good), took if good else None, within])
                if not good:
                    self.failed = True
                    progress(f"{' '.join(words)}:\n{printed()[-2000:]}")
                elif then is not None:
                    self.run(*then)
            finally:
                if process.poll() is None:  # make has children: its whole group is interrupted
                    os.killpg(process.pid, signal.SIGINT)
                    try:
                        process.wait(30.0)
                    except subprocess.TimeoutExpired:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()


def write_urdf(folder: Path) -> None:
    """Write the URDF of the tutorial to a folder."""
    page = (ROOT / "docs" / "tutorials" / "bring_your_robot.md").read_text(encoding="utf-8")
    block = URDF_BLOCK.search(page)
    if block is None:
        raise RuntimeError("the tutorial holds no URDF")
    (folder / "my_arm.urdf").write_text(block[1], encoding="utf-8")


def first_minutes(folder: Path, *, skip_setup: bool, pip_cache: bool) -> Newcomer:
    """Do everything in an empty folder; return who did it."""
    clone = folder / "motion_nodes"
    newcomer = Newcomer(folder, {
        **os.environ, "MOTION_NODES_CACHE_DIR": str(folder / "kernels"),
        "PYTHONPATH": str(clone) if skip_setup else "",
        **({} if pip_cache else {"PIP_NO_CACHE_DIR": "1"}),
    })  # fmt: skip
    newcomer.run("git clone", ["git", "clone", "-q", str(ROOT), str(clone)])
    newcomer.folder = clone
    if skip_setup:
        motion = [sys.executable, "-m", "motion_nodes.cli.main"]
        demo = [*motion, "demo", "--port", PORT]
    else:
        motion = [str(clone / ".venv" / "bin" / "motion")]
        python = f"PYTHON={Path(sys.base_prefix) / 'bin' / 'python3'}"
        demo = ["make", "demo", f"PORT={PORT}", python]
        newcomer.run("make setup, a part of the first make demo", ["make", "setup", python])
    newcomer.run("make demo: the show begins", demo, text=SHOW)
    so_far = sum(float(row[1]) for row in newcomer.rows if isinstance(row[1], float))
    newcomer.rows.append(["all until here", so_far, 180.0])
    newcomer.run("make demo again", demo, 10.0, SHOW)
    plan = "plan franka --from ready --to 0.9,0.4,0,-1.9,0,2.3,0.8"
    for label, words in (
        ("motion --help", "--help"), ("motion fk franka --state ready", "fk franka --state ready"),
        ("motion plan franka: the first", plan), ("motion plan franka: the second", plan),
    ):  # fmt: skip
        newcomer.run(label, [*motion, *words.split()])
    go = "motion go franka --to ready, with the motion", [*motion, "go", "franka", "--to", "ready"]
    up = [*motion, "up", "--port", PORT]
    newcomer.run("motion up franka: READY", [*up, "franka"], text="READY after", then=go)
    write_urdf(clone)
    newcomer.run("motion new my_arm.urdf", [*motion, "new", "my_arm.urdf"], 60.0)
    plan = "plan my_arm --from 0,0.4,0.6,0.3 --to 1.2,0.6,0.4,0.2"
    newcomer.run("motion plan my_arm: the first", [*motion, *plan.split()])
    newcomer.run("motion up ./my_arm: READY", [*up, "./my_arm"], text="READY after")
    return newcomer


def main() -> int:
    """Measure, and print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--skip-setup", action="store_true", help="install nothing")
    parser.add_argument("--no-pip-cache", action="store_true", help="ignore pip's cache")
    options = parser.parse_args()
    isolate()
    report = Report("The first minutes")
    with tempfile.TemporaryDirectory(prefix="motion_nodes-first-") as folder:
        newcomer = first_minutes(
            Path(folder), skip_setup=options.skip_setup, pip_cache=not options.no_pip_cache
        )
    report.table(
        "Wall time of each step",
        ["", "s", "promised [s]"],
        newcomer.rows,
        "One run, with no compiled kernels and no environment before it. The first show waits for "
        "what it needs to be compiled.",
    )
    report.write(options.json)
    return int(newcomer.failed)


if __name__ == "__main__":
    sys.exit(main())
