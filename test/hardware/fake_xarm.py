# SPDX-License-Identifier: Apache-2.0
"""Fake xArm controller on loopback for the vendor's SDK: the requests that the driver sends.

    request   number (2)  protocol (2)  length (2)  function (1)  parameters
    answer    the same header, function (1), state flags (1), values

Integers are big-endian, floats little-endian.
"""

import math
import select
import socket
import struct
import sys
import threading
import time

VERSION, MOTION_EN, SET_STATE, GET_STATE, GET_ERROR = 1, 11, 12, 13, 15
CLEAN_ERR, CLEAN_WAR, SET_MODE, MOVE_SERVOJ, JOINTS, SERVO_MESSAGES = 16, 17, 19, 29, 42, 106
ERROR_FLAG, WARNING_FLAG, NOT_READY_FLAG = 0x40, 0x20, 0x10
SERVO_MODE, READY, STOPPED = 1, 2, 4
MAX_VELOCITY = math.pi
LATE = 0.06
"""Lateness of a command on a busy machine [s]."""
SPEED_ERROR = 24


class FakeXArm:
    """The controller with its arm; the attributes may be changed at any time."""

    def __init__(self, axes: int = 6, host: str = "127.0.0.1", port: int = 0) -> None:
        self.axes, self.device_type, self.firmware = axes, axes, "2.3.0"
        self.q, self.qd = [0.0] * 7, [0.0] * 7
        self.state, self.mode, self.enabled = STOPPED, 0, False
        self.error, self.warning = 0, 0
        self.stuck = False
        """The error stays when it is cleared."""
        self.servo_errors: dict[int, int] = {}
        self.silent = False
        self.garbage = b""
        """Sent instead of the next answer."""
        self.calls: list[tuple[int, bytes]] = []
        """Requests that change the state, in order, except targets (see ``targets``)."""
        self.targets: list[tuple[float, list[float]]] = []
        """Time of arrival and positions of the targets that were followed."""
        self._listening = socket.create_server((host, port))
        self.port = self._listening.getsockname()[1]
        self._clients: dict[socket.socket, bytearray] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def fail(self, error: int) -> None:
        """Stop with an error, as the controller does."""
        self.error, self.state, self.qd = error, STOPPED, [0.0] * 7

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        for client in list(self._clients):
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        """Switch it off."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            for each in (*self._clients, self._listening):
                each.close()

    # ---- the controller's thread

    def _run(self) -> None:
        while not self._stop.is_set():
            readable = select.select([self._listening, *self._clients], [], [], 0.01)[0]
            for each in readable:
                if each is self._listening:
                    made = each.accept()[0]
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._clients[made] = bytearray()
                    continue
                try:
                    data = each.recv(4096)
                    self._take(each, data)
                except OSError:
                    data = b""
                if not data:
                    each.close()
                    del self._clients[each]

    def _take(self, client: socket.socket, data: bytes) -> None:
        buffer = self._clients[client]
        buffer += data
        while len(buffer) >= 6:
            size = 6 + struct.unpack_from(">H", buffer, 4)[0]
            if len(buffer) < size:
                return
            header, function, payload = bytes(buffer[:4]), buffer[6], bytes(buffer[7:size])
            del buffer[:size]
            values = self._answer(function, payload)
            if self.silent:
                continue
            if self.garbage:
                client.sendall(self.garbage)
                self.garbage = b""
                continue
            body = bytes((function, self._flags())) + values
            client.sendall(header + struct.pack(">H", len(body)) + body)

    def _flags(self) -> int:
        ready = self.state < 3 and not self.error
        return (
            (ERROR_FLAG if self.error else 0)
            | (WARNING_FLAG if self.warning else 0)
            | (0 if ready else NOT_READY_FLAG)
        )

    def _answer(self, function: int, payload: bytes) -> bytes:
        if function == VERSION:
            text = f"{self.axes},{self.device_type},XF130500001,AC130500001,v{self.firmware}"
            return text.encode().ljust(40, b"\0")
        if function == GET_STATE:
            return bytes([self.state])
        if function == GET_ERROR:
            return bytes([self.error, self.warning])
        if function == JOINTS:
            return struct.pack("<21f", *self.q, *self.qd, *([1.5] * 7))
        if function == SERVO_MESSAGES:
            pairs = [(0, self.servo_errors.get(joint, 0)) for joint in range(1, 9)]
            return bytes(number for pair in pairs for number in pair)
        if function == MOVE_SERVOJ:
            self._follow(list(struct.unpack("<10f", payload)[:7]))
            return b""
        self.calls.append((function, payload))
        if function == MOTION_EN:
            self.enabled = bool(payload[1])
        elif function == SET_MODE:
            self.mode, self.state = payload[0], 5
        elif function == SET_STATE and not self.error:
            moves = payload[0] == 0 and self.enabled
            self.state = READY if moves else STOPPED
        elif function == CLEAN_ERR and not self.stuck:
            self.error = 0
        elif function == CLEAN_WAR:
            self.warning = 0
        return b""

    def _follow(self, target: list[float]) -> None:
        if self._flags() & NOT_READY_FLAG or self.mode != SERVO_MODE or not self.enabled:
            return
        now = time.monotonic()
        dt = now - self.targets[-1][0] if self.targets else 0.0
        steps = [b - a for a, b in zip(self.q, target, strict=True)]
        if max(map(abs, steps)) > MAX_VELOCITY * (dt + LATE):
            self.fail(SPEED_ERROR)
            return
        self.qd = [step / max(dt, 1e-3) for step in steps]
        self.q = target
        self.targets.append((now, target))


if __name__ == "__main__":
    fake = FakeXArm(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    print(f"listening on {sys.argv[2]}:{fake.port}", flush=True)
    threading.Event().wait()
