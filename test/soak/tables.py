# SPDX-License-Identifier: Apache-2.0
"""Printed tables of a soak."""

from soak.campaign import Samples, drifts, percentiles


def print_tables(samples: Samples) -> None:
    """Print work done, drifts with their extrapolation, and latencies, as tables of Markdown."""
    done = ", ".join(f"{name} {count}" for name, count in sorted(samples.done.items()))
    print(f"\n{samples.times[-1] / 60:.1f} minutes, {len(samples.times)} samples; done: {done}")
    for reason, count in sorted(samples.undone.items()):
        print(f"not done: {count} x {reason}")
    print("\n| process | quantity | first | last | per hour | after 24 h |")
    print("|---|---|---|---|---|---|")
    for (process, what), drift in drifts(samples).items():
        digits = 2 if what.startswith("CPU") else 1
        slope = f"{drift.per_hour:+.{digits}f} ± {drift.error:.{digits}f}"
        day = f"{drift.in_a_day:.{digits}f} ± {24 * drift.error:.{digits}f}"
        print(f"| {process} | {what} | {drift.first:.{digits}f} | {drift.last:.{digits}f} "
              f"| {slope} | {day} |")  # fmt: skip
    print(
        "\n| request | p50 first third [ms] | p50 last third | p99 first third | p99 last third |"
    )
    print("|---|---|---|---|---|")
    for what, row in percentiles(samples).items():
        cells = " | ".join(f"{value:.1f}" for q in ("p50", "p99") for value in row[q])
        print(f"| {what} | {cells} |")
