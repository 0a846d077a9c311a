#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes the steps of the docs in an empty environment, and prints the time of each.

    python tools/first_hour.py [--wheel FILE] [--warm] [--timeout SECONDS]
    python tools/first_hour.py --clone [--warm] [--timeout SECONDS]

Runs the commands of README.md and docs/tutorials/bring_your_robot.md verbatim: installation, a
shipped robot, your own robot, ROS 2 clients. Builds the wheel (with the package ``build``) unless
one is given; pip installs the dependencies from its index. With ``--clone`` the committed state of
this repository is cloned and the demo is run there twice, each time until its show starts. Caches
are empty unless ``--warm``. A process that outlives its suite is an error, too. The ROS domain is
ROS_DOMAIN_ID if set, else random.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = "README.md"
OWN_ROBOT = "docs/tutorials/bring_your_robot.md"
INTERRUPTED = (-signal.SIGINT, 0, 2)
"""Exit codes of make after SIGINT: its signal, or, if its command ended first, 2 or 0."""
TIMEOUT = 900.0
"""Default timeout of a command [s]."""
GRACE, REMAINING = 60.0, 1.0
"""Timeouts of the end of a suite after SIGINT, and then of all processes that it started [s]."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class StepError(Exception):
    """A command of the docs failed."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Return language and text of the code blocks of a page."""
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def lines(page: str) -> list[str]:
    """Return the commands of a page; a trailing backslash joins lines."""
    texts = [text for kind, text in blocks(page) if kind in ("sh", "bash")]
    found = [line for text in texts for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in found if shlex.split(line, comments=True)]


def line(page: str, beginning: str) -> str:
    """Return the first command of a page that starts with a text.

    Raises:
        StepError: the page has no such command.
    """
    for text in lines(page):
        if text.startswith(beginning):
            return text
    raise StepError(f"{page} has no line '{beginning}...'")


class Stranger:
    """Runs commands in an empty folder and a separate environment."""

    def __init__(
        self, folder: Path, wheel: Path | None, *, warm: bool, timeout: float = TIMEOUT
    ) -> None:
        """Create the environment.

        Args:
            folder: empty folder for all files.
            wheel: wheel to install instead of a release; None: the environment of a clone is used.
            warm: use the user's caches.
            timeout: timeout of a command [s].
        """
        self.folder, self._wheel, self._timeout = folder / "work", wheel, timeout
        self.folder.mkdir()
        self.steps: list[tuple[str, float]] = []
        self._programs = self.folder / ".venv" / "bin"
        if wheel is not None:
            venv.create(folder / "env", with_pip=True)
            self._programs = folder / "env" / "bin"
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV", "AMENT_PREFIX_PATH")
        }
        self._environment["PATH"] = f"{self._programs}:{os.environ['PATH']}"
        self._environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        # Suites of others on this machine would be two robots of one name.
        self._environment.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
        if not warm:
            self._environment["XDG_CACHE_HOME"] = str(folder / "cache")

    def type(self, text: str) -> str:
        """Run a command and return its output.

        Raises:
            StepError: the command fails, prints nothing or does not end.
        """
        begin = time.monotonic()
        command = text.replace('"motion-nodes[ros]"', f'"{self._wheel}[ros]"')
        process = subprocess.Popen(
            command, shell=True, cwd=self.folder, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # including the compilers that make started
            output, _ = process.communicate()
            why = f"'{text}' did not end within {self._timeout:g} s"
            raise StepError(f"{why}; so far:\n{output[-3000:]}") from None
        if process.returncode:
            raise StepError(f"'{text}' ended with {process.returncode}:\n{output[-3000:]}")
        self._took(text.partition("#")[0].strip(), begin)
        return output

    @contextmanager
    def suite(
        self, text: str, ready: str = "READY after", codes: tuple[int, ...] = (0,)
    ) -> Iterator[None]:
        """Start a suite, wait until it reports that it is ready, and interrupt it at the end.

        Raises:
            StepError: the suite does not become ready, or ends with another exit code.
        """
        begin, log = time.monotonic(), self.folder / "suite.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                f"exec {text}", shell=True, cwd=self.folder, env=self._environment,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            while ready not in log.read_text():
                if process.poll() is not None or time.monotonic() - begin > self._timeout:
                    raise StepError(f"'{text}' is not ready:\n{log.read_text()[-3000:]}")
                time.sleep(0.1)
            self._took(text.partition("#")[0].strip(), begin)
            yield
        except StepError as error:
            raise StepError(f"{error}\nThe suite:\n{log.read_text()[-3000:]}") from None
        finally:
            if process.poll() is not None:
                raise StepError(f"'{text}' ended by itself:\n{log.read_text()[-3000:]}")
            os.killpg(process.pid, signal.SIGINT)  # make has children
            try:
                ended = process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                why = f"'{text}' did not end within {GRACE:g} s after SIGINT"
                raise StepError(f"{why}:\n{log.read_text()[-3000:]}") from None
        if ended not in codes:
            raise StepError(f"'{text}' ended with {ended}:\n{log.read_text()[-3000:]}")
        self._expect_no_process(text)

    def _expect_no_process(self, text: str) -> None:
        end = time.monotonic() + REMAINING
        while left := self._processes():
            if time.monotonic() > end:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                listed = "\n".join(left.values())
                raise StepError(f"'{text}' has ended, but processes that it started run:\n{listed}")
            time.sleep(0.05)

    def _processes(self) -> dict[int, str]:
        """Return id and command line of the processes of this environment; empty without /proc."""
        found, mark = {}, f"PATH={self._programs}:".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it ended, or is another user's
                if any(v.startswith(mark) for v in (folder / "environ").read_bytes().split(b"\0")):
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(folder.name)] = words
        return found

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.folder / name).write_text(text, "utf-8")

    def _took(self, text: str, begin: float) -> None:
        self.steps.append((text, time.monotonic() - begin))
        print(f"{self.steps[-1][1]:7.1f} s  {text[:110]}", flush=True)


def first_hour(stranger: Stranger) -> None:
    """Run the steps of the docs.

    Raises:
        StepError: a step fails.
    """
    stranger.type(line(README, 'pip install "motion-nodes[ros]"'))
    stranger.type(line(README, "motion fk franka"))
    client = next(text for _, text in blocks(README) if text.startswith("import rclpy"))
    stranger.write("arm.py", client)
    with stranger.suite(line(README, "motion up franka  ")):
        stranger.type(line(README, "motion wait franka"))
        stranger.type(line(README, "motion go franka --to ready"))
        stranger.type(line(README, "motion go franka --to-position"))
        stranger.type(line(README, "ros2 topic pub --once /joint_trajectory_controller"))
        stranger.type("python arm.py && echo sent")
    own = lines(OWN_ROBOT)
    stranger.write("my_arm.urdf", next(text for _, text in blocks(OWN_ROBOT) if "<robot" in text))
    start = next(index for index, text in enumerate(own) if text.startswith("motion up"))
    for text in own[:start]:
        stranger.type(text)
    with stranger.suite(own[start]):
        for text in own[start + 1 :]:
            stranger.type(text)
    with (stranger.folder / "move.csv").open(newline="") as file:
        turn = [row["value"] for row in csv.DictReader(file) if row["name"] == "turn.position"]
    if not turn or abs(float(turn[-1]) - 0.4) > 0.02:
        raise StepError(f"the new robot should be at turn = 0.4, but is at {turn[-1:]}")


def first_minutes(stranger: Stranger) -> None:
    """Run the steps of the docs for a clone.

    Raises:
        StepError: a step fails.
    """
    stranger.type(f"git clone -q {ROOT} .")
    stranger.type("make setup")  # otherwise done by the first `make demo`
    for _ in range(2):
        with stranger.suite(line(README, "make demo"), "the show starts", INTERRUPTED):
            pass
    stranger.type("motion --help")
    stranger.type(line(README, "motion fk franka"))
    for _ in range(2):
        stranger.type(line(README, "motion plan franka"))
    with stranger.suite(line(README, "motion up franka  ")):
        stranger.type(line(README, "motion go franka --to ready"))
    stranger.write("my_arm.urdf", next(text for _, text in blocks(OWN_ROBOT) if "<robot" in text))
    stranger.type(line(OWN_ROBOT, "motion new"))
    stranger.type(line(OWN_ROBOT, "motion plan"))
    with stranger.suite(line(OWN_ROBOT, "motion up")):
        pass


def built_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of this clone: a build leaves files, and uses old ones.

    Raises:
        StepError: the build failed.
    """
    source = folder / "source"
    listed = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, stdout=subprocess.PIPE, check=True).stdout.split(b"\0"):
        file = os.fsdecode(name)
        if name and (ROOT / file).is_file():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, source / file)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepError(f"the wheel cannot be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next(folder.glob("*.whl"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps; return the exit code."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cli.add_argument("--wheel", type=Path, help="wheel to install; default: built from this clone")
    cli.add_argument("--clone", action="store_true", help="work in a clone, without a wheel")
    cli.add_argument("--warm", action="store_true", help="use the caches of pip and motion_nodes")
    cli.add_argument("--timeout", type=float, default=TIMEOUT, help="timeout of a command [s]")
    options = cli.parse_args(arguments)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells make background processes ignore SIGINT, which the suites would inherit.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = {"warm": options.warm, "timeout": options.timeout}
    with tempfile.TemporaryDirectory(prefix="first-hour-") as name:
        try:
            if options.clone:
                stranger = Stranger(Path(name), None, **given)
                first_minutes(stranger)
            else:
                wheel = (options.wheel or built_wheel(Path(name))).resolve()
                stranger = Stranger(Path(name), wheel, **given)
                first_hour(stranger)
        except StepError as error:
            print(f"first_hour: {error}", file=sys.stderr)
            return 1
    print(f"{sum(seconds for _, seconds in stranger.steps):7.1f} s  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
