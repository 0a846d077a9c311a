# SPDX-License-Identifier: Apache-2.0
"""Results in files: facts and columns as JSON, CSV (facts in a comment), NumPy's ``.npz`` or MCAP.

In MCAP each row is a message in JSON with a JSON Schema, as Foxglove reads it; facts are metadata.
Source: https://mcap.dev/spec and its registry of encodings.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.typing import Array

SUFFIXES = (".csv", ".json", ".npz", ".mcap")
MAX_BYTES = 1_000_000_000
"""Larger files are not read."""
_LIBRARY, _TIMES = "motion_nodes", "times"
"""Name of the metadata in MCAP, and column that gives its messages their times [s]."""


class StoredResult(NamedTuple):
    """What a file holds."""

    kind: str
    """Name of the type of result."""
    facts: dict[str, Any]
    """Numbers and texts."""
    columns: dict[str, Any]
    """Arrays of equal length m, shape (m,) or (m, k)."""


def checked_file(path: str | Path) -> Path:
    """Return the path of a file of results.

    Raises:
        InvalidConfig: another suffix than :data:`SUFFIXES`.
    """
    file = Path(path).expanduser()
    if file.suffix not in SUFFIXES:
        raise InvalidConfig(
            f"{path}: the suffix is '{file.suffix}'; allowed: {', '.join(SUFFIXES)}.", field="path"
        )
    return file


def write_file(file: Path, content: str | bytes) -> None:
    """Write a file; an existing one is replaced atomically, or kept if writing fails.

    Args:
        file: the file; the target of a symbolic link is replaced.
        content: of the file.

    Raises:
        InvalidConfig: it cannot be written.
    """
    target = file.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.replace(draft, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise InvalidConfig(f"{file} cannot be written: {error.strerror}.", field="path") from None


def save_result(
    path: str | Path, kind: str, facts: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    """Write a result.

    Args:
        path: of the file, with a suffix of :data:`SUFFIXES`.
        kind: name of the type of result.
        facts: numbers and texts.
        columns: arrays of equal length m, shape (m,) or (m, k).

    Raises:
        InvalidConfig: another suffix, or the file cannot be written.
    """
    file = checked_file(path)
    content: str | bytes
    if file.suffix == ".npz":
        stored = io.BytesIO()
        np.savez_compressed(stored, kind=kind, facts=json.dumps(dict(facts)), **columns)
        content = stored.getvalue()
    elif file.suffix == ".mcap":
        content = _mcap(kind, facts, columns)
    elif file.suffix == ".json":
        lists = {name: np.asarray(values).tolist() for name, values in columns.items()}
        content = json.dumps({"kind": kind, **facts, "columns": lists})
    else:
        text, arrays = io.StringIO(), {n: np.asarray(v) for n, v in columns.items()}
        text.write(f"# {json.dumps({'kind': kind, **facts})}\n")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(
            head
            for name, a in arrays.items()
            for head in ([name] if a.ndim == 1 else [f"{name}.{k}" for k in range(a.shape[1])])
        )
        wide = [a[:, None] if a.ndim == 1 else a for a in arrays.values()]
        table.writerows([x for a in wide for x in a[k].tolist()] for k in range(len(wide[0])))
        content = text.getvalue()
    write_file(file, content)


def load_result(path: str | Path) -> StoredResult:
    """Read a file of :func:`save_result`.

    Returns:
        Its kind, which is empty for a JSON or CSV file of another origin, facts and columns.

    Raises:
        InvalidConfig: another suffix.
        InvalidDescription: the file cannot be read, or is no such file.
    """
    file = checked_file(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidDescription(f"{path} has more than {MAX_BYTES} bytes.")
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as stored:
                columns = {name: stored[name] for name in stored.files}
            kind, facts = str(columns.pop("kind")), json.loads(str(columns.pop("facts")))
            return StoredResult(kind, facts, columns)
        if file.suffix == ".mcap":
            return _from_mcap(file)
        if file.suffix == ".json":
            facts = json.loads(file.read_text("utf-8"))
            if not isinstance(facts, dict) or "kind" not in facts:
                return StoredResult("", {}, {})
            lists = facts.pop("columns")
            columns = {name: np.array(values) for name, values in lists.items()}
            return StoredResult(str(facts.pop("kind")), facts, columns)
        with file.open(encoding="utf-8", newline="") as lines:
            first = lines.readline()
            if not first.startswith("# {"):
                return StoredResult("", {}, {})
            facts = json.loads(first[2:])
            head, *rows = csv.reader(lines)
        return StoredResult(str(facts.pop("kind")), facts, _columns(head, rows))
    except OSError as error:
        raise InvalidDescription(f"{path} cannot be read: {error.strerror}.") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        csv.Error,
        zipfile.BadZipFile,
    ) as error:
        raise InvalidDescription(f"{path} is not a file of results: {error}") from None


def _columns(head: list[str], rows: list[list[str]]) -> dict[str, Any]:
    """Return the columns of a table; ``q.0``, ``q.1`` become one of two columns."""
    table: dict[str, list[Array]] = {}
    for k, name in enumerate(head):
        texts = [row[k] for row in rows]
        try:
            values: Any = np.array(texts, np.float64)
        except ValueError:
            values = np.array(texts)
        table.setdefault(name.partition(".")[0], []).append(values)
    wide = {name.partition(".")[0] for name in head if "." in name}
    return {n: np.stack(v, axis=1) if n in wide else v[0] for n, v in table.items()}


def _mcap(kind: str, facts: Mapping[str, Any], columns: Mapping[str, Any]) -> bytes:
    """Return an MCAP file; numbers that are not finite are null."""
    from mcap.writer import Writer

    arrays = {name: np.asarray(values) for name, values in columns.items()}
    count = len(next(iter(arrays.values())))
    times = np.asarray(arrays.get(_TIMES, np.zeros(count)), np.float64)
    stored = io.BytesIO()
    writer = Writer(stored)
    writer.start(profile="", library=_LIBRARY)
    writer.add_metadata(_LIBRARY, {"kind": kind, "facts": json.dumps(dict(facts))})
    types = {name: _json_type(a) for name, a in arrays.items()}
    schema = json.dumps({"title": kind, "type": "object", "properties": types}).encode()
    channel = writer.register_channel(
        f"/{kind}", "json", writer.register_schema(kind, "jsonschema", schema)
    )
    for k in range(count):
        row = {name: _json_row(a[k]) for name, a in arrays.items()}
        stamp = round(max(times[k], 0.0) * 1e9)
        writer.add_message(channel, stamp, json.dumps(row).encode(), stamp, sequence=k)
    writer.finish()
    return stored.getvalue()


def _json_row(values: Array) -> Any:
    """Return an entry of a column for JSON, in which numbers are finite."""
    if values.dtype.kind != "f":
        return values.tolist()
    numbers = [float(x) if math.isfinite(x) else None for x in np.atleast_1d(values)]
    return numbers if values.ndim else numbers[0]


def _json_type(column: Array) -> dict[str, Any]:
    """Return the JSON Schema of an entry of a column."""
    kinds = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    each = {"type": kinds.get(column.dtype.kind, "string")}
    return each if column.ndim == 1 else {"type": "array", "items": each}


def _from_mcap(file: Path) -> StoredResult:
    """Return what an MCAP file holds; one of another origin is of no kind.

    Raises:
        ValueError: it is no valid MCAP file, or a damaged one.
    """
    from mcap.exceptions import McapError
    from mcap.reader import make_reader

    try:
        with file.open("rb") as stream:
            reader = make_reader(stream)
            about = next((m.metadata for m in reader.iter_metadata() if m.name == _LIBRARY), None)
            if about is None:
                return StoredResult("", {}, {})
            rows = [json.loads(message.data) for _, _, message in reader.iter_messages()]
            schema = next(iter(reader.get_summary().schemas.values()))  # type: ignore[union-attr]
    except (McapError, StopIteration, struct.error) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    columns = {}
    for name, entry in json.loads(schema.data)["properties"].items():
        number = entry.get("items", entry)["type"] == "number"
        columns[name] = np.array([row[name] for row in rows], np.float64 if number else None)
    return StoredResult(about["kind"], json.loads(about["facts"]), columns)
