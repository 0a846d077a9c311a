# SPDX-License-Identifier: Apache-2.0
"""Robots that nobody here prepared: how many are accepted, stand, move and plan.

Every URDF, xacro and MJCF below some folders becomes a robot (``motion new``) in a process of its
own, is tried in MuJoCo, and its groups are compared with ``sweep_groups.yaml`` where they stand
there:

    pip install --no-deps --target DIR -r benchmarks/sweep_packages.txt
    python benchmarks/bench_robot_sweep.py DIR [MORE DIRS] [--every 4] [--accuracy 0.05]
    python benchmarks/bench_robot_sweep.py DIR --list benchmarks/sweep_vendors.txt

With ``--resume FILE`` an interrupted sweep goes on. Files in which nothing moves, parts of other
files, and files whose meshes are not there are counted apart: they are no sound robots.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from harness import Cell, Report, arguments, progress

_PATTERNS = ("*.urdf", "*.urdf.xacro", "*.xml", "*.mjcf")
_TIMEOUT = 600
"""Max processor time for a robot [s]."""
_UNSOUND = (
    "nothing in it has joints", "no joint of this robot moves", "was not found", "has no <link>",
    "MuJoCo cannot read it", "which does not exist", "no value", "is no robot",
)  # fmt: skip
_GROUPS = Path(__file__).with_name("sweep_groups.yaml")

_ONE = """
import json, resource, sys, tempfile, time
from pathlib import Path
from motion_nodes.errors import MotionError
from motion_nodes.robot_setup.new_robot import new_robot
from motion_nodes.model.loader import load_robot
from motion_nodes.robot_setup.folder_files import set_wheel_separation
from motion_nodes.sim.robot_trial import effective_separation, try_robot
file, given, packages, accuracy, timeout = map(json.loads, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout))
begin = time.process_time()
with tempfile.TemporaryDirectory() as folder:
    try:
        made = new_robot(
            Path(file), name="swept", output=Path(folder) / "swept", package_paths=packages,
            spheres_accuracy=accuracy or None, arguments=given,
        )
        took = time.process_time() - begin
        groups = {g.name: [len(g.joints), g.tip] for g in made.robot.groups.values()}
        robot, separation = made.robot, effective_separation(made.robot)
        if separation is not None:
            set_wheel_separation(made.directory, separation)
            robot = load_robot(made.directory)
        steps = [[s.name, s.passed, s.text] for s in try_robot(robot)]
        found = {"kind": robot.kind, "groups": groups, "steps": steps, "seconds": took}
    except MotionError as error:
        found = {"refused": str(error)}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Item:
    """A robot's file."""

    file: Path
    arguments: tuple[tuple[str, str], ...] = ()
    """Of a xacro."""

    def __str__(self) -> str:
        """Return file and arguments."""
        return " ".join([str(self.file), *(f"{name}:={value}" for name, value in self.arguments)])


def robots_below(folders: list[Path]) -> list[Item]:
    """Return the robots' files; XML files only if they are MJCF."""
    found = []
    for folder in folders:
        for pattern in _PATTERNS:
            for file in sorted(folder.rglob(pattern)):
                start = file.read_bytes()[:4000]
                if file.suffix != ".xml" or (
                    b"<mujoco" in start and b"<mujocoinclude" not in start
                ):
                    found.append(Item(file))
    return found


def robots_listed(text: str, folder: Path) -> list[Item]:
    """Return the robots of a list that stand below a folder."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [
        Item(
            folder / repository.replace("/", "+") / file,
            tuple((name, value) for name, _, value in (word.partition(":=") for word in words)),
        )
        for repository, file, *words in rows
    ]


def tried(item: Item, packages: list[str], accuracy: float) -> dict[str, Any]:
    """Make a robot and try it, in another process."""
    given = (str(item.file), dict(item.arguments), packages, accuracy, _TIMEOUT)
    command = [sys.executable, "-c", _ONE, *map(json.dumps, given)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == -signal.SIGXCPU or done.returncode == -signal.SIGKILL:
        return {"crashed": f"not ready after {_TIMEOUT} s of processor time"}
    if done.returncode != 0:
        return {"crashed": (done.stderr.strip() or "nothing said").split("\n")[-1]}
    return dict(json.loads(done.stdout.strip().split("\n")[-1]))


def verdict(item: Item, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return what became of a file, as a word or two."""
    if "crashed" in found:
        return "crashed"
    if "refused" in found:
        unsound = any(words in found["refused"] for words in _UNSOUND)
        return "no sound robot" if unsound else "refused"
    if other_groups(item, found, expected):
        return "accepted, other groups"
    if any(not passed for _, passed, _ in found["steps"]):
        return "accepted, a step failed"
    return "accepted, all passed"


def other_groups(item: Item, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return what stands in the table and was not found, or nothing."""
    wanted = expectation(item, expected)
    have = {f"{count} {tip}" for count, tip in found["groups"].values()} | {found["kind"]}
    return ", ".join(sorted(set(map(str, wanted or ())) - have))


def expectation(item: Item, expected: dict[str, Any]) -> list[str] | None:
    """Return what the table says of a robot; None if it is not there."""
    return next((g for pattern, g in expected.items() if re.search(pattern, str(item))), None)


def main() -> None:
    """Run the sweep."""
    parser = arguments(__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--list", type=Path, help="of robots below the first folder")
    parser.add_argument("--every", type=int, default=1, help="only every n-th file")
    parser.add_argument("--accuracy", type=float, default=0.05, help="of spheres [m]; 0: default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--resume", type=Path, help="results, one line of JSON each; is continued")
    options = parser.parse_args()
    expected = yaml.safe_load(_GROUPS.read_text()) or {}
    if options.list is None:
        items, packages = robots_below(options.folders), [str(f) for f in options.folders]
    else:
        items = robots_listed(options.list.read_text(), options.folders[0])
        packages = [str(folder) for folder in options.folders[0].iterdir()]
    items = items[:: options.every]
    report = Report("Robots that nobody here prepared")
    results = swept(items, packages, options.accuracy, options.jobs, options.resume)
    counts = Counter(verdict(item, results[str(item)], expected) for item in items)
    for item in items:
        found = results[str(item)]
        failed = [f"{name}: {text}" for name, ok, text in found.get("steps", []) if not ok]
        why = found.get("refused") or found.get("crashed") or "; ".join(failed)
        if "groups" in found and (missing := other_groups(item, found, expected)):
            why += f" not found: {missing} among {found['kind']} {found['groups']}"
        progress(f"{verdict(item, found, expected)}: {item}: {why[:400]}")
    seconds = [found["seconds"] for found in results.values() if "seconds" in found]
    sound = sum(counts.values()) - counts["no sound robot"]
    accepted = sum(count for word, count in counts.items() if word.startswith("accepted"))
    compared = [
        item
        for item in items
        if "groups" in results[str(item)] and expectation(item, expected) is not None
    ]
    other = sum(bool(other_groups(item, results[str(item)], expected)) for item in compared)
    rows: list[list[Cell]] = [[word, count] for word, count in sorted(counts.items())]
    rows += [["accepted, of the sound ones [%]", 100.0 * accepted / max(1, sound)]]
    rows += [["groups as in the table", f"{len(compared) - other} of {len(compared)}"]]
    rows += [["processor seconds for a robot, median", float(np.median(seconds or [np.nan]))]]
    report.table("Files", ["", "files"], rows)
    report.write(options.json)


def swept(
    items: list[Item], packages: list[str], accuracy: float, jobs: int, log: Path | None
) -> dict[str, dict[str, Any]]:
    """Return what was found of each file; files in the log are not tried again."""
    lines = log.read_text().splitlines() if log is not None and log.exists() else []
    results = {name: found for name, found in map(json.loads, lines)}

    def one(item: Item) -> tuple[str, dict[str, Any]]:
        return str(item), tried(item, packages, accuracy)

    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(one, item) for item in items if str(item) not in results]
        for done in as_completed(waiting):
            name, found = done.result()
            results[name] = found
            progress(f"{len(results)} of {len(items)}: {name}")
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps([name, found]) + "\n")
    return results


if __name__ == "__main__":
    main()
