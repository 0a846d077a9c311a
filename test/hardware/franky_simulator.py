# SPDX-License-Identifier: Apache-2.0
"""franky-sim, a simulated FR3 with libfranka's protocol, in a process that records torques.

    python franky_simulator.py HOST INITIAL_POSITION...

Prints ``ready``. For each line on standard input it prints, over the control cycles since the
previous line: the largest change of a commanded torque in one cycle [N m], the number of cycles,
and the number of cycles without a new torque.
"""

import logging
import sys
import threading
import time

import numpy as np
from franky_sim import SimulationServer
from franky_sim.mujoco_simulator import MujocoSimulator

PERIOD, MAX_DELAY = 1e-3, 0.05
"""Period of the cycles, and max delay that is caught up [s]."""


def run_in_real_time(server: SimulationServer) -> None:
    """Run cycles by absolute deadlines; franky-sim's own loop sleeps too long and lags behind."""
    due = time.monotonic()
    while True:
        server.run_once(realtime=False)
        due = max(due + PERIOD, time.monotonic() - MAX_DELAY)
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    with MujocoSimulator() as sim:
        robot = sim.add_robot(initial_q=tuple(float(text) for text in sys.argv[2:9]))
        before: list[np.ndarray] = []
        found = [0.0, 0, 0]

        def record(_sim: object) -> None:
            controlled = robot.server.robot_state.controller_mode.name == "kExternalController"
            if not controlled:
                before.clear()
                return
            torque = np.array(robot.state.tau_J_d)
            if before:
                step = float(np.abs(torque - before[0]).max())
                found[:] = [max(found[0], step), found[1] + 1, found[2] + (step == 0.0)]
            before[:] = [torque]

        sim.register_post_step_callback(record)

        def answer() -> None:
            for _ in sys.stdin:
                print(*found, flush=True)
                found[:] = [0.0, 0, 0]

        with SimulationServer(sim, hostname_candidates=[sys.argv[1]]) as server:
            threading.Thread(target=answer, daemon=True).start()
            print("ready", flush=True)
            server.run_forever()


if __name__ == "__main__":
    main()
