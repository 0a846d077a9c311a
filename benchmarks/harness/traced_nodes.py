# SPDX-License-Identifier: Apache-2.0
"""Container whose threads record which files of the package run, while a file ``record`` exists.

Run: ``TRACE_FOLDER=folder python traced_nodes.py NODES``, with a container's ``--nodes`` list.
When ``record`` is deleted, ``trace.json`` has the files with the functions that ran, and the types
that were passed from one file to another with the functions that took them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import motion_nodes

PACKAGE = str(Path(motion_nodes.__file__).parent) + os.sep


class Recorder:
    """Records files and types of the calls in all threads."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.on = folder, False
        self._files: dict[str, set[str]] = {}
        self._types: dict[str, set[str]] = {}

    def watch(self) -> None:
        """Follow the file ``record``."""
        while True:
            wanted = (self._folder / "record").exists()
            if wanted and not self.on:
                self._files, self._types, self.on = {}, {}, True
            elif self.on and not wanted:
                self.on = False
                found = {"files": self._files, "types": self._types}
                (self._folder / "new").write_text(json.dumps(found, default=sorted, sort_keys=True))
                (self._folder / "new").rename(self._folder / "trace.json")
            time.sleep(0.005)

    def called(self, frame: FrameType, event: str, _: Any) -> None:
        """Profile hook."""
        if not self.on or event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return
        function = frame.f_code.co_qualname
        self._files.setdefault(file[len(PACKAGE) :], set()).add(function)
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        if caller == file or not caller.startswith(PACKAGE):
            return
        count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
        for name in frame.f_code.co_varnames[:count]:
            kind = type(frame.f_locals.get(name))
            record = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
            if name != "self" and record and kind.__module__.startswith("motion_nodes"):
                taker = f"{file[len(PACKAGE) :]} {function}"
                self._types.setdefault(kind.__name__, set()).add(taker)


if __name__ == "__main__":
    recorder = Recorder(Path(os.environ["TRACE_FOLDER"]))
    threading.setprofile(recorder.called)
    sys.setprofile(recorder.called)
    threading.Thread(target=recorder.watch, daemon=True).start()
    from motion_nodes.nodes.container import main

    main()
