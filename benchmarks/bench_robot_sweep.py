# SPDX-License-Identifier: Apache-2.0
"""Robots of other packages, unmodified: how many are accepted, stand, move and plan.

Every URDF, xacro and MJCF in given folders is imported (``motion new``) in a separate process and
tested in MuJoCo; its groups are compared with ``sweep_groups.yaml``, if listed there:

    pip install --no-deps --target DIR -r benchmarks/sweep_packages.txt
    python benchmarks/bench_robot_sweep.py DIR [MORE DIRS] [--accuracy 0.05]
    python benchmarks/bench_robot_sweep.py DIR --list benchmarks/sweep_vendors.txt

Files without movable joints, parts of other files, and files with missing meshes are counted
separately, as no sound robots.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from harness import CLUSTER, Options, Report, Row, benchmark, median, progress, workers

_PATTERNS = ("*.urdf", "*.urdf.xacro", "*.xml", "*.mjcf")
_TIMEOUT = 600
"""Max CPU time per robot [s]."""
_UNSOUND = (
    "nothing in it has joints", "no joint of this robot moves", "was not found", "has no <link>",
    "MuJoCo cannot read it", "which does not exist", "no value", "is no robot",
)  # fmt: skip
_GROUPS = Path(__file__).with_name("sweep_groups.yaml")


class Item(NamedTuple):
    """File of a robot."""

    file: Path
    arguments: tuple[str, ...] = ()
    """Xacro arguments, as NAME:=VALUE."""

    def __str__(self) -> str:
        """Return file and arguments."""
        return " ".join([str(self.file), *self.arguments])


def robots_below(folders: Sequence[Path]) -> list[Item]:
    """Return the robot files in folders; of XML files only MJCF."""
    places = itertools.product(folders, _PATTERNS)
    files = [file for folder, pattern in places for file in sorted(folder.rglob(pattern))]
    return [Item(file) for file in files if file.suffix != ".xml" or is_mjcf(file)]


def is_mjcf(file: Path) -> bool:
    """Return whether an XML file is a model for MuJoCo, not a part of one."""
    start = file.read_bytes()[:4000]
    return b"<mujoco" in start and b"<mujocoinclude" not in start


def robots_listed(text: str, folder: Path) -> list[Item]:
    """Return the robots of a list that exist in a folder."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [Item(folder / repository.replace("/", "+") / file, tuple(arguments))
            for repository, file, *arguments in rows]  # fmt: skip


def tried(item: Item, packages: list[str], accuracy: float) -> dict[str, Any]:
    """Import and test a robot in another process; return the output of ``motion new --json``."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(item.file), *item.arguments, "--name", "swept", "--output", f"{folder}/swept"]
        words += ["--json"] + [word for path in packages for word in ("--package-path", path)]
        words += ["--spheres-accuracy", str(accuracy)] if accuracy else []
        limited = ["sh", "-c", f'ulimit -t {_TIMEOUT}; exec "$@"', "sh"]
        command = [*limited, sys.executable, "-m", "motion_nodes.cli.main", "new", *words]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == -signal.SIGXCPU or done.returncode == -signal.SIGKILL:
        return {"crashed": f"not ready after {_TIMEOUT} s of processor time"}
    if done.stdout.startswith("{"):
        return dict(json.loads(done.stdout))
    kind = "crashed" if "Traceback" in done.stderr or not done.stderr else "refused"
    return {kind: done.stderr.strip().split("\n")[-1] if kind == "crashed" else done.stderr}


def verdict(item: Item, found: dict[str, Any], expected: dict[str, Any]) -> tuple[str, str]:
    """Return verdict and reason for a file."""
    if "crashed" in found:
        return "crashed", found["crashed"]
    if "refused" in found:
        unsound = any(words in found["refused"] for words in _UNSOUND)
        return "no sound robot" if unsound else "refused", found["refused"]
    if missing := other_groups(item, found, expected):
        return "accepted, other groups", f"not found: {missing} among {found['groups']}"
    failed = [f"{s['step']}: {s['text']}" for s in found["trial"] if not s["passed"]]
    return f"accepted, {'a step failed' if failed else 'all passed'}", "; ".join(failed)


def other_groups(item: Item, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return the expected groups that were not found, as text; empty: none."""
    wanted = expectation(item, expected)
    groups = found["groups"].values()
    have = {f"{len(g['joints'])} {g['tip']}" for g in groups} | {found["kind"]}
    return ", ".join(
        word for word in map(str, wanted or ()) if have.isdisjoint(_alternatives(word))
    )


def _alternatives(word: str) -> list[str]:
    """Return the groups that a word of the table stands for: several tips are alternatives."""
    count, space, tips = word.partition(" ")
    return [f"{count}{space}{tip}" for tip in tips.split("|")]


def expectation(item: Item, expected: dict[str, Any]) -> list[str] | None:
    """Return the expected groups of a robot; None: not in the table."""
    return next((g for pattern, g in expected.items() if re.search(pattern, str(item))), None)


def swept(items: list[Item], packages: list[str], options: Options) -> dict[Item, dict[str, Any]]:
    """Return the result of each file."""
    with workers(options) as pool:
        waiting = {pool.submit(tried, item, packages, options.accuracy): item for item in items}
        for number, done in enumerate(as_completed(waiting), 1):
            progress(f"{number} of {len(items)}: {waiting[done]}")
    return {item: done.result() for done, item in waiting.items()}


@benchmark("Robots that nobody here prepared", folders=True,
           list=(Path, "of robots below the first folder"),
           accuracy=(0.05, "of spheres [m]; 0: default"), jobs=2, cluster=CLUSTER)  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Run the sweep."""
    expected = yaml.safe_load(_GROUPS.read_text()) or {}
    if options.list is None:
        items, packages = robots_below(options.folders), [str(f) for f in options.folders]
    else:
        items = robots_listed(options.list.read_text(), options.folders[0])
        packages = [str(folder) for folder in options.folders[0].iterdir()]
    results, counts = swept(items, packages, options), Counter[str]()
    for item in items:
        word, why = verdict(item, results[item], expected)
        counts[word] += 1
        progress(f"{word}: {item}: {why[:400]}")
    sound = sum(counts.values()) - counts["no sound robot"]
    accepted = sum(count for word, count in counts.items() if word.startswith("accepted"))
    compared = [item for item, found in results.items()
                if "groups" in found and expectation(item, expected) is not None]  # fmt: skip
    same = sum(not other_groups(item, results[item], expected) for item in compared)
    rows: list[Row] = [{"": word, "files": count} for word, count in sorted(counts.items())] + [
        {"": "accepted, of the sound ones [%]", "files": 100.0 * accepted / max(1, sound)},
        {"": "groups as in the table", "files": f"{same} of {len(compared)}"},
        {"": "seconds for a robot and its trial, median", "files":
         median(found["seconds"] for found in results.values() if "seconds" in found)},
    ]  # fmt: skip
    report.table("Files", rows)
