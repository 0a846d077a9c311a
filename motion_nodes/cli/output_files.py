# SPDX-License-Identifier: Apache-2.0
"""Output files of commands: their paths are checked first, and they are replaced atomically."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from motion_nodes.errors import InvalidConfig


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
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise InvalidConfig(f"{path} cannot be written: {error.strerror}.") from None
