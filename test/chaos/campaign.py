# SPDX-License-Identifier: Apache-2.0
"""One run of fault injection: strikes a working suite repeatedly, and reports violations."""

import collections
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz.processes import Usage, tracebacks, usage_of
from fuzz.watcher import WatcherProcess

from chaos.faults import KINDS, NEED_HOME, NEED_HOSTS, Fault, Scene
from chaos.probes import Probes
from chaos.running_suite import processes_of
from chaos.work import PHASES, Drive, ShortTrajectory, Work
from motion_nodes.core.robot.loader import load_robot

READY = 240.0
"""[s] Timeout of the start, which may have to compile."""
RECOVERY = 60.0
"""[s] Timeout of all nodes to be active, and of all robots to move, after a fault was healed."""
REST = 15.0
"""[s] Timeout of the robots to come to rest once nothing is commanded."""
MOTION = 5.0
"""[s] Timeout of a trajectory of 1 s, in ROS time, which is slow where processor time is scarce."""
STILL = 0.4
"""[s] A robot that has not moved for so long rests."""
RESULT = 20.0
"""[s] Timeout of a goal's result whose server runs."""
TOLD = 3.0
"""[s] A robot whose driver is away for so long has to be reported."""
REBUILDS = 5
"""How often a suite that did not come back is started anew before the run ends."""
CONTROLLERS = ("joint_trajectory_controller", "diff_drive_controller")


@dataclass
class Findings:
    """Findings of a run."""

    failures: list[str] = field(default_factory=list)
    strikes: collections.Counter[str] = field(default_factory=collections.Counter)
    """Faults by kind and phase."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """By kind: times from the end of a fault until arm and base followed commands again [s]."""
    figures: dict[str, Any] = field(default_factory=dict)


class Campaign:
    """Injects faults into one suite."""

    def __init__(
        self,
        scene: Scene,
        *,
        seed: int,
        kinds: Sequence[str] = tuple(KINDS),
        phases: Sequence[str] = tuple(PHASES),
        longest_wait: float = 1.0,
        say: Any = print,
    ) -> None:
        """Prepare a run.

        Args:
            scene: the suite and its resources.
            seed: random seed.
            kinds: of faults; those that need a small disk are left out without one.
            phases: of the suite's work.
            longest_wait: timeout of a probe [s].
            say: receives a line for each fault.
        """
        self.scene, self._seed, self._say = scene, seed, say
        without = (*(NEED_HOME if scene.home is None else ()),
                   *(NEED_HOSTS if scene.hosts is None else ()))  # fmt: skip
        self.kinds = [kind for kind in kinds if kind not in without]
        self._phases = [phase for phase in phases if self._possible(phase)]
        self._robots = {s: load_robot(name) for s, name in scene.suite.robots.items()}
        self._probes = Probes(scene.client, scene.suite.nodes, longest_wait)
        self._before: dict[str, tuple[int, Usage]] = {}
        self._rebuilds, self._stopped = 0, False
        self.findings = Findings()

    def stop(self) -> None:
        """End after the current fault; :meth:`run` returns the findings so far."""
        self._stopped = True

    def run(self, numbers: Iterable[int]) -> Findings:
        """Inject the faults of these numbers."""
        suite = self.scene.suite
        suite.start()
        self._watcher = WatcherProcess(suite.robots, suite.environment)
        try:
            self._probes.wait_until_active(READY)
            assert self._moves(random.Random(0), READY) is not None, "the robots do not move"
            self._compare("start")
            self._watcher.exact(True)
            for number in numbers:
                if self._stopped:
                    break
                self.strike(number)
                if self._rebuilds > REBUILDS:
                    self._fail("run", "ended early: the suite did not come back too often")
                    break
        finally:
            self._watcher.close()
        self.findings.figures["longest wait of a probe"] = self._probes.worst
        return self.findings

    def strike(self, number: int) -> None:
        """Inject one fault: work, strike, probe, heal, and check that everything recovers."""
        rng = random.Random(f"{self._seed}/{number}")
        kind = rng.choices(self.kinds, [KINDS[each][1] for each in self.kinds])[0]
        phase = rng.choice(self._phases)
        work = rng.choice(PHASES[phase])(self.scene.client, self._robots, rng)
        fault = KINDS[kind][0](self.scene, rng)
        label = f"fault {number} ({kind} while {phase})"
        begun = work.begin()
        if not begun:
            self._fail(label, "nobody accepts goals before the fault")
        self._work(work, rng.uniform(0.1, 1.2))
        if fault.time_jumps or not fault.leaves:
            self._watcher.exact(False)
        self._probes.begin(fault.patience)
        fault.strike()
        label = f"{label}, {fault.text}"
        self._under(fault, work, label)
        if self.scene.suite.simulation in fault.ended | fault.hit:
            # Simulated time restarts or has stalled; controllers hold the measured positions.
            self._look_for_violations(label)
            self._watcher.exact(False)
        fault.heal()
        healed = time.monotonic()
        self._fail(label, *fault.failures, *self._probes.failures())
        work.end()
        self._result(fault, work if begun else None, label)
        came_back = self._comes_back(rng, label, healed)
        self._look_for_violations(label)
        self._watcher.exact(True)
        self.findings.strikes[f"{kind} while {phase}"] += 1
        self.findings.recoveries.setdefault(kind, []).append(came_back)
        self._say(f"{label}: back after {came_back:.1f} s; {work.outcome}")

    # ---- inside

    def _possible(self, phase: str) -> bool:
        arms = any(load_robot(n).base is None for n in self.scene.suite.robots.values())
        bases = any(load_robot(n).base is not None for n in self.scene.suite.robots.values())
        nodes = str(self.scene.suite.nodes)
        needs = {"planning": "move_group", "following": "rmpflow_policy"}.get(phase, "")
        return needs in nodes and (phase == "idle" or (bases if phase == "driving" else arms))

    def _work(self, work: Work, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            work.tick()
            self.scene.client.spin(0.02)

    def _under(self, fault: Fault, work: Work, label: str) -> None:
        """Continue to work and probe during the fault."""
        begin = time.monotonic()
        end = begin + fault.seconds
        well = set(self.scene.suite.nodes) - fault.hit
        while time.monotonic() < end:
            work.tick()
            self._probes.poll(well)
            self.scene.client.spin(0.02)
        away = fault.leaves and self.scene.suite.simulation in fault.hit
        if away and fault.seconds >= TOLD:
            self._is_told(fault, well, label)
        for name in well:
            if self.scene.suite.pid(name) is None and not self.scene.suite.supervised:
                self._fail(label, f"{name} ended, too")

    def _is_told(self, fault: Fault, well: set[str], label: str) -> None:
        """Check that controllers report the missing driver."""
        for process in well:
            for node in self.scene.suite.nodes[process]:
                if node.rpartition("/")[2] not in CONTROLLERS:
                    continue
                status = self.scene.client.diagnostics(node)
                if status is not None and status.level == b"\0":
                    self._fail(label, f"{node} reports '{status.message}' without the simulation")

    def _result(self, fault: Fault, work: Work | None, label: str) -> None:
        """Check that the goal has a result, if its server ran throughout."""
        if work is None or not work.server:
            return
        (process,) = processes_of(self.scene.suite.nodes, [work.server])
        waits = RESULT if process not in fault.ended else 2.0
        end = time.monotonic() + waits
        while work.outcome is None and time.monotonic() < end:
            self.scene.client.spin(0.02)
        if work.outcome is None and process not in fault.ended:
            self._fail(label, f"the goal of {type(work).__name__} has no result after {waits:g} s")

    def _comes_back(self, rng: random.Random, label: str, healed: float) -> float:
        """Check that everything rests, is active and moves again; return the recovery time [s]."""
        if not self._rests():
            self._fail(label, f"a robot moves {REST:g} s after the last command")
        missing = self._probes.wait_until_active(RECOVERY)
        moved = None if missing else self._moves(rng, RECOVERY)
        if moved is None:
            self._fail(label, f"not back: {missing or self._why_no_motion()}")
            self._start_anew()
            return time.monotonic() - healed
        self._compare(label)
        return moved - healed

    def _why_no_motion(self) -> str:
        """Describe the reports of robots, simulation and controllers."""
        self.scene.client.diagnostics("")  # subscribes
        asked, before = time.monotonic(), self._ask()
        self.scene.client.spin(2.0)
        seconds, after = time.monotonic() - asked, self._ask()
        rates = {
            space: f"ROS time at {(after[space]['time'] - before[space]['time']) / seconds:.2f}, "
            f"{(after[space]['commands'] - before[space]['commands']) / seconds:.0f} commands/s, "
            f"last state {after[space]['silent']:.2f} s ago"
            for space in after
        }  # fmt: skip
        reports = {
            node: status.message
            for members in self.scene.suite.nodes.values() for node in members
            if (status := self.scene.client.diagnostics(node)) is not None
        }  # fmt: skip
        return f"no command moves the robots: {rates}; {reports}"

    def _rests(self) -> bool:
        end = time.monotonic() + REST
        while time.monotonic() < end:
            robots = self._ask()
            if all(robot["still"] > STILL for robot in robots.values()):
                return True
            self.scene.client.spin(0.1)
        return False

    def _moves(self, rng: random.Random, patience: float) -> float | None:
        """Command arm and base until both follow; return the time of the last first command [s]."""
        end = time.monotonic() + patience
        begun = None
        for space, robot in self._robots.items():
            kind = Drive if robot.base is not None else ShortTrajectory
            while True:
                work = kind(self.scene.client, {space: robot}, rng)
                began = time.monotonic()
                if began > end:
                    return None
                if work.begin() and self._followed(work, space):
                    begun = began
                    break
        return begun

    def _followed(self, work: Work, space: str) -> bool:
        if isinstance(work, Drive):
            self._work(work, 0.5)
            moved = bool(self._ask()[space]["still"] < 0.2)
            work.end()
            return moved
        begun, end = self._ask()[space]["time"], time.monotonic() + RECOVERY
        while work.outcome is None and time.monotonic() < end:
            self._work(work, 0.1)
            if self._ask()[space]["time"] - begun > MOTION:
                break
        if not work.succeeded:
            self.scene.client.spin(0.2)
        return work.succeeded

    def _start_anew(self) -> None:
        self._rebuilds += 1
        suite = self.scene.suite
        for name in suite.commands:
            if suite.pid(name) is not None:
                suite.end(name, 9)
        if not suite.supervised:
            for name in suite.commands:
                suite.restart(name)
        self._probes.wait_until_active(READY)
        self._moves(random.Random(0), READY)

    def _compare(self, label: str) -> None:
        """Compare the resources of processes with those after their last start."""
        for name in self.scene.suite.commands:
            pid = self.scene.suite.pid(name)
            if pid is None:
                continue
            now = usage_of(pid)
            known, before = self._before.get(name, (0, now))
            if known != pid:
                self._before[name] = pid, now
            elif (
                now.handles > before.handles + 40
                or now.threads > before.threads + 20
                or (now.memory > 1.5 * before.memory + 200.0)
            ):
                self._fail(label, f"{name} holds more and more: {before} -> {now}")
                self._before[name] = pid, now

    def _ask(self) -> dict[str, Any]:
        seen = self._watcher.ask()
        self._violations = getattr(self, "_violations", []) + seen["violations"]
        return dict(seen["robots"])

    def _look_for_violations(self, label: str) -> None:
        self._ask()
        violations, self._violations = self._violations, []
        self._fail(label, *(f"limit: {text}" for text in violations[:5]))
        self._fail(label, *tracebacks(self.scene.suite.new_output()))

    def _fail(self, label: str, *texts: str) -> None:
        for text in texts:
            self.findings.failures.append(f"{label}: {text}")
            self._say(f"FOUND  {label}: {text}")
