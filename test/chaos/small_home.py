# SPDX-License-Identifier: Apache-2.0
"""A home folder on a small disk of its own, which can be filled and made read-only."""

import contextlib
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from two_hosts.hosts import NotPermitted

from motion_nodes.kernels.cache import preferred_folder

SPARE = 24
"""[MB] Size of the disk beyond what the cache of compiled code takes."""
BUSY = 5.0
"""[s] How long to wait for files that are being written."""
DAMAGES = ("cut", "emptied", "flipped", "zeroed", "random")


def _copy_if_there(source: str, target: str) -> str:
    """Copy a file; others may replace or remove it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)
    return target


class SmallHome:
    """A tmpfs that holds home and cache of the suite.

    A disk with files open for writing cannot be made read-only. Processes keep logs and locks
    open, so those are elsewhere, except for processes that start while it is read-only.
    """

    def __init__(self, folder: Path) -> None:
        """Mount it, and copy the cache of compiled code into it.

        Raises:
            NotPermitted: no permission to mount file systems.
        """
        self.folder = folder
        source = preferred_folder()
        cached = _size(source) if source is not None and source.is_dir() else 0
        folder.mkdir(parents=True, exist_ok=True)
        size = f"size={cached // 2**20 + SPARE}m,mode=0700"
        _run("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder))
        self._size = size
        self._elsewhere, self._here = Path(f"{folder}_elsewhere"), folder / "here"
        for part in ("log", "tmp"):
            for root in (self._elsewhere, self._here):
                (root / part).mkdir(parents=True, mode=0o700)
            (folder / part).symlink_to(self._elsewhere / part)
        (folder / "cache").mkdir(mode=0o700)
        self.cache = folder / "cache" / "kernels"
        if cached and source is not None:
            shutil.copytree(source, self.cache, copy_function=_copy_if_there)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of processes with this home."""
        return {
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "MOTION_NODES_CACHE_DIR": str(self.folder / "cache"),
            "ROS_LOG_DIR": str(self.folder / "log"),
            "TMPDIR": str(self.folder / "tmp"),
        }

    def fill(self) -> None:
        """Fill the disk."""
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()

    def empty(self) -> None:
        """Free the space used by :meth:`fill`."""
        (self.folder / "filler").unlink(missing_ok=True)

    def read_only(self, on: bool) -> None:
        """Make the disk read-only, or writable again."""
        if on:
            self._point_to(self._here)
            self._remount("ro")
        else:
            self._remount("rw")
            self._point_to(self._elsewhere)

    def damage(self, rng: random.Random, count: int) -> list[str]:
        """Damage some files of the cache; return a text for each."""
        files = sorted(path for path in self.cache.rglob("*") if path.is_file())
        done = []
        for path in rng.sample(files, min(count, len(files))):
            how = rng.choice(DAMAGES)
            content = bytearray(path.read_bytes())
            if how == "cut":
                content = content[: rng.randrange(len(content) + 1)]
            elif how == "emptied":
                content = bytearray()
            elif how == "flipped" and content:
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            elif how == "zeroed":
                content = bytearray(len(content))
            else:
                content = bytearray(rng.randbytes(len(content)))
            path.write_bytes(content)
            done.append(f"{path.name} {how}")
        return done

    def close(self) -> None:
        """Unmount it."""
        _run("umount", "-l", str(self.folder))
        shutil.rmtree(self._elsewhere, ignore_errors=True)

    def _point_to(self, root: Path) -> None:
        """Set the folder of logs and temporary files of processes started from now on."""
        for part in ("log", "tmp"):
            (self.folder / part).unlink()
            (self.folder / part).symlink_to(root / part)

    def _remount(self, access: str) -> None:
        """Remount with an access mode; waits until no file is open for writing."""
        end = time.monotonic() + BUSY
        while True:
            try:
                _run("mount", "-o", f"remount,{access},{self._size}", str(self.folder))
                return
            except NotPermitted:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _run(*command: str) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                env={**os.environ, "LC_ALL": "C"})  # fmt: skip
    except OSError as error:
        raise NotPermitted(str(error)) from None
    if result.returncode:
        raise NotPermitted(f"{' '.join(command[:3])}: {result.stderr.strip()}")
