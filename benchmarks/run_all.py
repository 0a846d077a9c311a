# SPDX-License-Identifier: Apache-2.0
"""Runs all benchmarks one after the other and writes their tables to RESULTS.md.

Run: ``make bench``, or ``python benchmarks/run_all.py`` (about a quarter of an hour). Nothing else
should be running on the machine. With ``--json FOLDER`` each benchmark's figures go there as well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from report import machine, machine_lines

HERE = Path(__file__).resolve().parent
WITH_JSON = (
    "bench_latency", "bench_control_loop", "bench_start", "bench_first_minutes", "bench_suite",
    "bench_tracking",
    "bench_articulation_loop", "bench_goals", "bench_bases", "bench_holonomic_qp",
    "bench_base_motion", "bench_base_odometry", "bench_dynamics", "bench_analytic_ik",
    "bench_collision", "bench_retiming", "bench_planning", "bench_planner_node", "bench_recovery",
    "bench_stop",
    "bench_rmpflow", "bench_rmpflow_runs", "bench_rmpflow_tracking", "bench_viewer",
)  # fmt: skip
"""They print Markdown and know --json; the kinematics print plain text."""
BUSY = 0.5
"""A load average above this before the run means that the figures are pessimistic."""


def run(name: str, json_folder: Path | None) -> tuple[str, bool]:
    """Run one benchmark; return its part of the report, and whether it succeeded."""
    print(f"== {name}", flush=True)
    words = [sys.executable, str(HERE / f"{name}.py")]
    if json_folder is not None and name in WITH_JSON:
        words += ["--json", str(json_folder / f"{name}.json")]
    begin = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    took = f"`python benchmarks/{name}.py`, {time.monotonic() - begin:.0f} s"
    print(f"{done.stdout}\n{took}", flush=True)
    if done.returncode:
        return f"## {name}\n\nFailed with code {done.returncode}.\n\n{took}\n", False
    if name in WITH_JSON:
        return f"{done.stdout.strip()}\n\n{took}\n", True
    return f"## Kinematics\n\n```\n{done.stdout.strip()}\n```\n\n{took}\n", True


def main() -> None:
    """Run all, write the report, and exit with 1 when one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md", metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="figures as JSON")
    every = ("bench_kinematics", *WITH_JSON)
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="NAME")
    options = parser.parse_args()
    if options.json is not None:
        options.json.mkdir(parents=True, exist_ok=True)
    facts = machine()
    if facts["load"] > BUSY:
        print(f"note: this machine is busy (load {facts['load']}); the figures will be pessimistic")
    names = options.only
    parts = [run(name, options.json) for name in names]
    words = " ".join(["python benchmarks/run_all.py", *sys.argv[1:]])
    command = words if len(sys.argv) > 1 else "make bench"
    head = f"# Measurements\n\nWritten by `{command}`; what is measured and how: README.md.\n\n"
    text = f"{head}{machine_lines(facts)}\n\n" + "\n".join(part for part, _ in parts)
    options.out.write_text(text)
    failed = [name for name, (_, ok) in zip(names, parts, strict=True) if not ok]
    print(f"written: {options.out}" + (f"; FAILED: {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
