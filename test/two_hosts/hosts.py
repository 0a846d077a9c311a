# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces connected only by a cable."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from motion_nodes.ros.transports import PROFILES

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_CABLE = str(Path(__file__).with_name("cable.py"))


class NotPermitted(Exception):
    """No permission to create namespaces, with the reason of the system."""


class TwoHosts:
    """Hosts 0 and 1, and the cable between them."""

    environment: Mapping[str, str] = {
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET",
        # No shared memory, as between two computers.
        "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4",
        **dict.fromkeys(PROFILES, ""),
    }
    """Variables of processes on the hosts."""

    def __init__(self, seed: int = 0) -> None:
        """Create the namespaces and the cable.

        Raises:
            NotPermitted: no permission to create namespaces.
        """
        mark = f"mn{os.getpid()}"
        self.names = f"{mark}a", f"{mark}b"
        self._between = f"{mark}c"
        self._made: list[str] = []
        self._cable: subprocess.Popen[str] | None = None
        try:
            for name in (*self.names, self._between):
                _ip("netns", "add", name)
                self._made.append(name)
                _ip("-n", name, "link", "set", "lo", "up")
            for i, name in enumerate(self.names):
                _ip("-n", name, "link", "add", "eth0", "type", "veth",
                    "peer", "name", f"end{i}", "netns", self._between)  # fmt: skip
                _ip("-n", name, "addr", "add", f"{ADDRESSES[i]}/24", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
                _ip("-n", name, "route", "add", "224.0.0.0/4", "dev", "eth0")
                _ip("-n", self._between, "link", "set", f"end{i}", "up")
        except NotPermitted:
            self.close()
            raise
        self._cable = subprocess.Popen(
            [*self.prefix_of(self._between), sys.executable, _CABLE,
             "end0", "end1", str(seed)], stdin=subprocess.PIPE, text=True, bufsize=1,
            start_new_session=True,
        )  # fmt: skip

    def prefix(self, host: int) -> list[str]:
        """Return the prefix of commands that run on a host."""
        return self.prefix_of(self.names[host])

    @staticmethod
    def prefix_of(name: str) -> list[str]:
        """Return the same for a namespace."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    def quality(self, loss: float = 0.0, delay: float = 0.0) -> None:
        """Drop a share of the frames, and delay them by 0.5 to 1.5 times ``delay`` [s]."""
        self._tell(f"{loss} {delay}")

    def cut(self) -> None:
        """Forward nothing until :meth:`quality` is called."""
        self._tell("cut")

    def no_multicast(self) -> None:
        """Forward no IPv4 multicast from now on."""
        self._tell("unicast")

    def close(self) -> None:
        """Remove namespaces and cable."""
        if self._cable is not None and self._cable.stdin is not None:
            self._cable.stdin.close()
            self._cable.wait(10.0)
        for name in self._made:
            with contextlib.suppress(NotPermitted):
                _ip("netns", "del", name)
        self._made.clear()

    def _tell(self, line: str) -> None:
        assert self._cable is not None
        assert self._cable.stdin is not None
        self._cable.stdin.write(line + "\n")
        self._cable.stdin.flush()


def enter(name: str) -> None:
    """Move this thread, and the processes it starts later, to a namespace."""
    with Path(f"/run/netns/{name}").open() as file:
        _setns(file.fileno())


def _setns(descriptor: int) -> None:
    import ctypes

    clone_newnet = 0x40000000
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, clone_newnet) != 0:
        raise NotPermitted(os.strerror(ctypes.get_errno()))


def _ip(*words: str) -> None:
    try:
        result = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotPermitted(f"ip: {error}") from None
    if result.returncode:
        raise NotPermitted(f"ip {' '.join(words)}: {result.stderr.strip()}")
