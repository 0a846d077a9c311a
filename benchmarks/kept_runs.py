# SPDX-License-Identifier: Apache-2.0
"""Results of long series of runs, kept in a file, so that a series can be gone on with."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class KeptRuns:
    """One JSON object a line: its key, and what the run came to."""

    def __init__(self, file: Path | None, time_limit: float) -> None:
        """Read what there is.

        Args:
            file: where results are kept; None: nowhere.
            time_limit: after so long nothing new is run [s].
        """
        self._file, self._end = file, time.monotonic() + time_limit
        self._found: dict[str, Result] = {}
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                self._found[entry.pop("key")] = entry

    def get(self, key: str, run: Callable[[], Result]) -> Result | None:
        """Return a result, from before or of a run now; None where there is no time left."""
        if key not in self._found:
            if time.monotonic() > self._end:
                return None
            self._found[key] = run()
            if self._file is not None:
                with self._file.open("a") as out:
                    out.write(json.dumps({"key": key, **self._found[key]}) + "\n")
        return self._found[key]
