# SPDX-License-Identifier: Apache-2.0
"""Output of commands: tables, JSON, progress, and files.

Paths of output files are checked before a command begins; files are replaced atomically.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from motion_nodes.errors import InvalidConfig


def print_json(data: Any) -> None:
    """Print data as JSON; non-finite numbers become null."""
    print(json.dumps(plain(data), indent=1))


def plain(data: Any) -> Any:
    """Return data as lists, dictionaries, strings and numbers; non-finite numbers as None."""
    import numpy as np  # not with this module, which `motion --help` loads

    if isinstance(data, np.ndarray | np.generic):
        data = data.tolist()
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    return [plain(value) for value in data] if isinstance(data, list | tuple) else data


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers are right-aligned, with six digits."""
    table = Table(box=None, pad_edge=False)
    lines = [[_cell(value) for value in row] for row in rows]
    for k, header in enumerate(headers):
        right = bool(lines) and all(right for _, right in (line[k] for line in lines))
        table.add_column(Text(header), justify="right" if right else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(Text(text) for text, _ in line))
    Console(highlight=False).print(table)


def _cell(value: object) -> tuple[str, bool]:
    """Return the text of a cell, and whether it is right-aligned."""
    import numpy as np

    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            return "-", True
        # Adding 0 turns -0 into 0.
        return f"{round(float(value), 6) + 0.0:.6g}", True
    return str(value), isinstance(value, int) and not isinstance(value, bool)


def print_line(text: str) -> None:
    """Print a line of text, without wrapping."""
    Console(highlight=False).print(text, soft_wrap=True, markup=False)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Context manager that shows progress on a terminal."""
    console = Console(stderr=True)
    with console.status(text) if console.is_terminal else contextlib.nullcontext():
        yield


def pose_rows(X: Any, degrees: bool) -> list[tuple[str, object, object, object, object]]:
    """Return table rows of a pose, shape (4, 4)."""
    import numpy as np

    from motion_nodes.core.robot.poses import to_quat_xyzw, to_rpy

    rpy = np.degrees(to_rpy(X)) if degrees else to_rpy(X)
    x, y, z = map(float, X[:3, 3])
    qx, qy, qz, qw = map(float, to_quat_xyzw(X))
    roll, pitch, yaw = map(float, rpy)
    unit = "deg" if degrees else "rad"
    return [
        ("position [m]", x, y, z, ""),
        (f"rpy [{unit}]", roll, pitch, yaw, ""),
        ("quaternion xyzw", qx, qy, qz, qw),
    ]


def pose_data(X: Any) -> dict[str, Any]:
    """Return a pose, shape (4, 4), as data for JSON."""
    from motion_nodes.core.robot.poses import to_quat_xyzw, to_rpy

    return {"position": X[:3, 3], "rpy": to_rpy(X), "quat_xyzw": to_quat_xyzw(X)}


def output_path(output: str, suffixes: Sequence[str] = ()) -> Path:
    """Return the path of an output file, checked before anything is computed.

    Args:
        output: value of ``--output``.
        suffixes: allowed suffixes; empty: any.

    Raises:
        InvalidConfig: another suffix, or the folder does not exist.
    """
    path = Path(output).expanduser()
    if suffixes and path.suffix not in suffixes:
        raise InvalidConfig(f"--output {output}: the name must end in {' or '.join(suffixes)}.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InvalidConfig(f"--output {output}: the folder {folder} does not exist.")
    return path


def write_output(path: Path, text: str) -> None:
    """Write a file; an existing one is replaced atomically, or kept if writing fails.

    Args:
        path: of the file; the target of a symbolic link is replaced.
        text: its content.

    Raises:
        InvalidConfig: the file cannot be written.
    """
    from motion_nodes.core.robot.result_files import write_file

    write_file(path, text)
