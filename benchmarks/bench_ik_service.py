# SPDX-License-Identifier: Apache-2.0
"""Round trips of compute_ik over DDS, from one client and from four at once.

Run: ``python benchmarks/bench_ik_service.py`` (about a minute). Random reachable poses of the
Franka's tool. Beside it in the same run: the same solver behind an rclpy service as it is usually
written, and a service that answers at once, which is what messages and transport take.
"""

from __future__ import annotations

import json
import subprocess

from child_processes import ChildFailed, isolate, node_command, running, script_command
from report import Report, Spread, arguments, progress, ratio

COUNT = 400
"""Requests of each client."""
WAYS = {
    "ik_service": "/compute_ik",
    "rclpy service with the same solver": "/usual_ik",
    "rclpy service that answers at once": "/bare_ik",
}


def ask(service: str, clients: int) -> tuple[Spread, float, float]:
    """Return round trips [ms], requests per second and the share of successes."""
    command = script_command("ik_client.py", service, str(COUNT))
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(clients)
    ]
    outputs = [child.communicate(timeout=120)[0] for child in children]
    if any(child.returncode for child in children):
        raise ChildFailed(f"a client of {service} failed")
    found = [json.loads(output) for output in outputs]
    took = [ms for one in found for ms in one["ms"]]
    duration = max(one["end"] for one in found) - min(one["begin"] for one in found)
    good = sum(one["good"] for one in found) / len(took)
    return Spread.of(took), len(took) / duration, good


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    isolate()
    report = Report("compute_ik over DDS")
    service = node_command("ik_service", robot="franka")
    with running(service, script_command("usual_ik.py")) as children:
        children[1].wait_for("serving")
        for clients in (1, 4):
            rows, usual = [], 0.0
            measured = {}
            for way, name in WAYS.items():
                progress(f"{clients} clients, {way}")
                measured[way] = ask(name, clients)
            usual = measured["rclpy service with the same solver"][0].p50
            for way, (trip, rate, good) in measured.items():
                rows.append([way, trip.p50, trip.p99, rate, 100.0 * good, ratio(trip.p50, usual)])
            report.table(
                f"{clients} client{'s' if clients > 1 else ''}, {COUNT} requests each",
                ["way", "p50 ms", "p99 ms", "requests/s", "success %", "p50 / usual"],
                rows,
            )
    report.write(options.json)


if __name__ == "__main__":
    main()
