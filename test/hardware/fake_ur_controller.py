# SPDX-License-Identifier: Apache-2.0
"""A controller of Universal Robots on loopback: RTDE, script port and dashboard server.

One thread runs the received programs and serves the sockets once per period. A real controller is
never late. On a busy machine this one catches up and applies commands at the time they carry, so
that its own delay neither counts as silence of the driver nor accumulates.

``python fake_ur_controller.py 127.0.0.5`` runs it at the vendor's ports, for a suite.
"""

import socket
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hardware.urscript import ProgramStopped, ScriptArm

TYPES = {
    "actual_q": "6d", "actual_qd": "6d", "actual_current_as_torque": "6d", "robot_mode": "i",
    "safety_status": "i", "runtime_state": "I", "output_int_register_24": "i",
    "output_int_register_25": "i",
}  # fmt: skip
NAMES = {"6d": "VECTOR6D", "d": "DOUBLE", "i": "INT32", "I": "UINT32"}
MAX_DELAY = 1.0
"""Max delay that is caught up [s]."""
STAMP = "input_double_register_36"
"""Input in which commands carry their time on the monotonic clock [s]."""
PORTS = {"rtde": 30004, "script": 30002, "dashboard": 29999}
KEPT = 20_000
"""Number of remembered commands and targets."""
GREETING = b"Connected: Universal Robots Dashboard Server\n"


def input_type(name: str) -> str:
    kind, number = name.rsplit("_register_", 1)
    found = {"input_double": "d", "input_int": "i"}.get(kind, "")
    return found if found and 24 <= int(number) < 48 else ""


class RtdeSession:
    """Subscriptions of one client."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.outputs: list[str] = []
        self.inputs: list[str] = []
        self.every = 1
        self.started = False


class FakeUrController:
    """The controller with its arm; the attributes may be changed at any time."""

    def __init__(
        self,
        *,
        period: float = 0.002,
        major: int = 5,
        host: str = "127.0.0.1",
        ports: dict[str, int] | None = None,
    ) -> None:
        self.model, self.remote, self.major = "UR5", True, major
        self.robot_mode, self.safety, self.runtime = 7, 1, 1
        self.accepts_version = True
        self.runs_programs = True
        self.silent = False
        """Sends no RTDE data."""
        self.garbage = b""
        """Sent by RTDE once."""
        self.missing: set[str] = set()
        """RTDE fields that it does not know."""
        self.programs: list[str] = []
        self.orders: list[str] = []
        """Received dashboard commands."""
        self.received: list[dict[str, float]] = []
        """Inputs of all clients."""
        self._commands: deque[tuple[float, dict[str, float]]] = deque()
        """Inputs that have not taken effect, with their time."""
        self.stop_program = False
        """Stops the program, as the pendant's button does."""
        self.arm = ScriptArm(self._program_cycle, period)
        chosen = ports or dict.fromkeys(PORTS, 0)
        self._listening = {name: _listen(host, port) for name, port in chosen.items()}
        self.ports = {name: s.getsockname()[1] for name, s in self._listening.items()}
        self._clients: dict[socket.socket, str] = {}
        self._rtde: dict[socket.socket, RtdeSession] = {}
        self._waiting = bytearray()
        self._cycles = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def settings(self) -> dict[str, object]:
        """Settings of a driver for this controller."""
        return {f"{name}_port": port for name, port in self.ports.items()}

    def close(self) -> None:
        """Switch it off: all connections end."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            for each in (*self._clients, *self._listening.values()):
                each.close()

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        for each in list(self._clients):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # ---- the controller's thread

    def _run(self) -> None:
        self._next = time.monotonic()
        while not self._stop.is_set():
            if b"\nend\n" in self._waiting and self.runs_programs and self.remote:
                text = bytes(self._waiting).decode()
                self._waiting.clear()
                self.programs.append(text)
                self.runtime = 2
                try:
                    self.arm.run(text)
                except ProgramStopped:
                    self.arm.qd = [0.0] * 6
                self.runtime, self.stop_program = (4 if self.safety == 3 else 1), False
            else:
                self._cycle()
            if self.safety in (1, 2) and self.runtime == 4:
                self.runtime = 1

    def _cycle(self) -> None:
        """Wait for the next period and serve all clients."""
        now = time.monotonic()
        self._next = max(self._next + self.arm.period, now - MAX_DELAY)
        time.sleep(max(self._next - now, 0.0))
        self._cycles += 1
        for name, listening in self._listening.items():
            try:
                made = listening.accept()[0]
            except OSError:
                continue
            made.setblocking(False)
            self._clients[made] = name
            if name == "rtde":
                self._rtde[made] = RtdeSession()
            elif name == "dashboard":
                made.send(GREETING)
        self._apply_commands()
        for client, name in list(self._clients.items()):
            try:
                self._serve(client, name)
            except BlockingIOError:
                pass
            except OSError:
                self._drop(client)

    def _program_cycle(self) -> None:
        self._cycle()
        fault = self.stop_program or self.safety not in (1, 2) or self.robot_mode != 7
        if self._stop.is_set() or fault:
            raise ProgramStopped

    def _drop(self, client: socket.socket) -> None:
        client.close()
        self._clients.pop(client, None)
        self._rtde.pop(client, None)

    def _serve(self, client: socket.socket, name: str) -> None:
        session = self._rtde.get(client)
        if session is not None and session.started and self._cycles % session.every == 0:
            self._send_outputs(client, session)
        data = client.recv(1 << 16)
        if not data:
            self._drop(client)
        elif name == "script":
            self._waiting += data
        elif name == "dashboard":
            for line in data.decode().split("\n")[:-1]:
                self.orders.append(line)
                client.send(self._answer(line).encode() + b"\n")
        elif session is not None:
            session.buffer += data
            while len(session.buffer) >= 3:
                size, kind = struct.unpack_from(">HB", session.buffer)
                if len(session.buffer) < size:
                    break
                payload = bytes(session.buffer[3:size])
                del session.buffer[:size]
                self._handle(client, session, chr(kind), payload)

    def _answer(self, order: str) -> str:
        if order == "unlock protective stop":
            if self.safety == 3:
                self.safety = 1
            return "Protective stop releasing"
        if order == "brake release":
            self.robot_mode = 7
            return "Brake releasing"
        return {
            "get robot model": self.model,
            "is in remote control": str(self.remote).lower(),
            "close safety popup": "closing safety popup",
        }.get(order, f"could not understand: '{order}'")

    def _handle(
        self, client: socket.socket, session: RtdeSession, kind: str, payload: bytes
    ) -> None:
        if kind == "V":
            assert payload == b"\x00\x02"
            answer = bytes([self.accepts_version])
        elif kind == "v":
            answer = struct.pack(">4I", self.major, 12, 0, 7)
        elif kind == "O":
            rate, names = struct.unpack(">d", payload[:8])[0], payload[8:].decode().split(",")
            assert 0.0 < rate <= 1.0 / self.arm.period + 1e-6
            known = [name in TYPES and name not in self.missing for name in names]
            types = [
                NAMES[TYPES[n]] if k else "NOT_FOUND" for n, k in zip(names, known, strict=True)
            ]
            session.every = max(round(1.0 / (rate * self.arm.period)), 1)
            session.outputs = names if all(known) else []
            answer = bytes([all(known)]) + ",".join(types).encode()
        elif kind == "I":
            names = payload.decode().split(",")
            taken = {n for s in self._rtde.values() if s is not session for n in s.inputs}
            types = ["IN_USE" if n in taken else NAMES[input_type(n)] for n in names]
            free = "IN_USE" not in types
            session.inputs = names if free else []
            answer = bytes([free]) + ",".join(types).encode()
        elif kind == "S":
            session.started = bool(session.outputs)
            answer = bytes([session.started])
        elif kind == "P":
            session.started, answer = False, b"\x01"
        else:
            assert kind == "U"
            self._take_inputs(session, payload)
            return
        client.send(struct.pack(">HB", 3 + len(answer), ord(kind)) + answer)

    def _take_inputs(self, session: RtdeSession, payload: bytes) -> None:
        form = ">B" + "".join(input_type(name) for name in session.inputs)
        values = dict(zip(session.inputs, struct.unpack(form, payload)[1:], strict=True))
        self.received.append(values)
        self._commands.append((min(values.get(STAMP, 0.0), time.monotonic()), values))
        self._apply_commands()

    def _apply_commands(self) -> None:
        """Write the registers of commands whose time has come."""
        while self._commands and self._commands[0][0] <= self._next:
            for name, value in self._commands.popleft()[1].items():
                registers = self.arm.floats if "double" in name else self.arm.integers
                registers[int(name.rsplit("_", 1)[1])] = value

    def _send_outputs(self, client: socket.socket, session: RtdeSession) -> None:
        if self.garbage:
            client.send(self.garbage)
            self.garbage = b""
        if self.silent:
            return
        arm = self.arm
        state = {
            "actual_q": arm.q, "actual_qd": arm.qd, "actual_current_as_torque": [1.5] * 6,
            "robot_mode": [self.robot_mode], "safety_status": [self.safety],
            "runtime_state": [self.runtime], "output_int_register_24": [arm.outputs[24]],
            "output_int_register_25": [arm.outputs[25]],
        }  # fmt: skip
        values = [value for name in session.outputs for value in state[name]]
        form = ">B" + "".join(TYPES[name] for name in session.outputs)
        payload = struct.pack(form, 1, *values)
        client.send(struct.pack(">HB", 3 + len(payload), ord("U")) + payload)


def _listen(host: str, port: int) -> socket.socket:
    made = socket.create_server((host, port))
    made.setblocking(False)
    return made


def main() -> None:
    """Run it until it is killed; print when programs start and end."""
    controller = FakeUrController(host=sys.argv[1], ports=PORTS)
    controller.arm.q = [0.0, -1.571, 1.571, -1.571, -1.571, 0.0]
    print(f"listening on {sys.argv[1]}", flush=True)
    last = (0, 1, 0)
    while True:
        time.sleep(0.2)
        del controller.received[:-KEPT], controller.arm.targets[:-KEPT]
        now = (len(controller.programs), controller.runtime, controller.arm.outputs[25])
        if now != last:
            print(f"program {now[0]}, runtime {now[1]}, ended {now[2]}", flush=True)
            last = now


if __name__ == "__main__":
    main()
