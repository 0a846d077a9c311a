# SPDX-License-Identifier: Apache-2.0
"""External faults: each strikes, lasts for a while, and is healed."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar

from ros_client import BEST_EFFORT, RosClient
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool, Trigger
from two_hosts.hosts import TwoHosts

from chaos.running_suite import RunningSuite
from chaos.small_home import SmallHome

_BUSY = "import os\nos.nice({nice})\nwhile True: pass"


@dataclass
class Scene:
    """Resources that faults act on."""

    suite: RunningSuite
    client: RosClient
    home: SmallHome | None = None
    """None where file systems cannot be mounted."""
    hosts: TwoHosts | None = None
    """None unless the robot is on another host than its controllers."""


@dataclass
class Fault:
    """A reproducible fault: all randomness comes from ``rng``."""

    scene: Scene
    rng: random.Random
    hit: set[str] = field(default_factory=set)
    """Processes that cannot answer while it lasts."""
    ended: set[str] = field(default_factory=set)
    """Processes that it ends."""
    failures: list[str] = field(default_factory=list)
    """What went wrong in the fault itself, such as an exit code."""
    text: str = ""
    """What it does, with the chosen numbers."""
    seconds: float = 0.5
    """How long it lasts [s]."""
    patience: ClassVar[float] = 1.0
    """Factor of the longest wait of a probe while it lasts."""
    time_jumps: ClassVar[bool] = False
    """Whether ROS time goes back, or two clocks compete."""
    leaves: ClassVar[bool] = True
    """Whether processes that it ends are away until it is healed."""
    ends_goals: ClassVar[bool] = False
    """Whether every goal ends for it."""

    def strike(self) -> None:
        """Begin."""
        raise NotImplementedError

    def heal(self) -> None:
        """End."""
        for name in sorted(self.ended):
            self.scene.suite.restart(name)

    def process(self) -> str:
        """Return a random process of the suite."""
        return self.rng.choice(sorted(self.scene.suite.commands))

    def end(self, name: str, number: signal.Signals, allowed: tuple[int, ...]) -> None:
        """End a process by a signal, and check its exit code."""
        self.hit.add(name)
        self.ended.add(name)
        code = self.scene.suite.end(name, number)
        if not self.scene.suite.supervised and code not in allowed:
            self.failures.append(f"{name} ended with {code} after {number.name}")

    def endings(self) -> tuple[signal.Signals, tuple[int, ...]]:
        """Return a signal that ends a process, and the allowed exit codes."""
        number = self.rng.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        return number, (-signal.SIGKILL,) if number is signal.SIGKILL else (0,)


class Kill(Fault):
    """A process is killed."""

    def strike(self) -> None:
        """Kill it."""
        name = self.process()
        self.text, self.seconds = f"SIGKILL to {name}", self.rng.uniform(0.2, 2.0)
        self.end(name, signal.SIGKILL, (-signal.SIGKILL,))


class Signal(Fault):
    """A process is terminated by a signal."""

    def strike(self) -> None:
        """Send it SIGINT, SIGTERM or SIGHUP."""
        name = self.process()
        number = self.rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        self.text, self.seconds = f"{number.name} to {name}", self.rng.uniform(0.2, 2.0)
        self.end(name, number, (0,))


class Freeze(Fault):
    """A process is stopped for a while."""

    def strike(self) -> None:
        """SIGSTOP."""
        self._name = self.process()
        self._pid = self.scene.suite.pid(self._name)
        self.seconds = self.rng.choice((0.05, 0.3, 1.0, 2.0, 4.0))
        self.text = f"SIGSTOP to {self._name} for {self.seconds:g} s"
        self.hit.add(self._name)
        assert self._pid is not None
        os.kill(self._pid, signal.SIGSTOP)

    def heal(self) -> None:
        """SIGCONT, where no supervisor has replaced it."""
        if self._pid is not None and self.scene.suite.pid(self._name) == self._pid:
            os.kill(self._pid, signal.SIGCONT)


class Starve(Fault):
    """Other processes use up the processors."""

    patience = 5.0

    def strike(self) -> None:
        """Start busy processes."""
        count = self.rng.choice((1, 2, 4)) * len(os.sched_getaffinity(0))
        nice = self.rng.choice((0, 0, 5))
        self.seconds = self.rng.uniform(1.0, 4.0)
        self.text = f"{count} busy processes at nice {nice} for {self.seconds:.1f} s"
        program = _BUSY.format(nice=nice)
        self._busy = [
            subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
            for _ in range(count)
        ]

    def heal(self) -> None:
        """End them."""
        for process in self._busy:
            process.kill()
            process.wait()


class _HomeFault(Fault):
    """A disk fault while a process starts."""

    leaves = False

    def strike(self) -> None:
        """Inject the disk fault, then restart a process."""
        name = self.process()
        how = self.spoil()
        number, allowed = self.endings()
        self.text = f"{how}; {number.name} to {name} and a new start"
        self.end(name, number, allowed)
        self.scene.suite.restart(name)
        self.seconds = self.rng.uniform(3.0, 6.0)

    def spoil(self) -> str:
        """Inject the disk fault; return its description."""
        raise NotImplementedError

    def heal(self) -> None:
        """Nothing has to be undone."""


class FullDisk(_HomeFault):
    """No space is left for caches, logs and locks."""

    def spoil(self) -> str:
        """Fill the disk."""
        assert self.scene.home is not None
        self.scene.home.fill()
        return "disk full"

    def heal(self) -> None:
        """Empty it."""
        assert self.scene.home is not None
        self.scene.home.empty()


class ReadOnlyHome(_HomeFault):
    """Home, caches, logs and temporary files cannot be written."""

    def spoil(self) -> str:
        """Mount it read-only."""
        assert self.scene.home is not None
        self.scene.home.read_only(True)
        return "home read-only"

    def heal(self) -> None:
        """Mount it writable again."""
        assert self.scene.home is not None
        self.scene.home.read_only(False)


class DamagedCache(_HomeFault):
    """Files of the cache of compiled code are damaged."""

    def spoil(self) -> str:
        """Damage some."""
        assert self.scene.home is not None
        return ", ".join(self.scene.home.damage(self.rng, self.rng.choice((1, 2, 4))))


class Pause(Fault):
    """Simulated time stands for a while."""

    def strike(self) -> None:
        """Pause the simulation."""
        self.seconds = self.rng.choice((0.1, 0.5, 1.5))
        self.text = f"simulated time stands for {self.seconds:g} s"
        self._call(True)

    def heal(self) -> None:
        """Let it go on."""
        self._call(False)

    def _call(self, on: bool) -> None:
        name = f"/{self.scene.suite.simulation}/pause"
        answer = self.scene.client.call(SetBool, name, SetBool.Request(data=on))
        if not answer.success:
            self.failures.append(f"{name}: {answer.message}")


class Reset(Fault):
    """Robots and simulated time go back to the start at once."""

    time_jumps = True
    ends_goals = True

    def strike(self) -> None:
        """Reset the simulation."""
        self.text = "the simulation is reset"
        answer = self.scene.client.call(Trigger, f"/{self.scene.suite.simulation}/reset")
        if not answer.success:
            self.failures.append(f"reset: {answer.message}")


class ClockJump(Fault):
    """A second publisher of /clock sends other times."""

    time_jumps = True
    ends_goals = True

    def strike(self) -> None:
        """Send a few messages with a time that is ahead or behind."""
        by = self.rng.choice((-100.0, -1.0, 1.0, 100.0, 1e6))
        count = self.rng.choice((1, 3, 10))
        self.text = f"{count} messages on /clock of another publisher, {by:+g} s"
        client = self.scene.client
        newest: list[float] = []

        def note(message: Clock) -> None:
            newest.append(message.clock.sec + 1e-9 * message.clock.nanosec)

        subscription = client.node.create_subscription(Clock, "/clock", note, BEST_EFFORT)
        publisher = client.node.create_publisher(Clock, "/clock", 10)
        client.wait(lambda: newest, "/clock")
        client.spin(0.3)
        client.node.destroy_subscription(subscription)
        message = Clock()
        for _ in range(count):
            now = max(0.0, newest[-1] + by)
            message.clock.sec, message.clock.nanosec = int(now), int(now % 1.0 * 1e9)
            publisher.publish(message)
            client.spin(0.02)
        client.node.destroy_publisher(publisher)


class _CableFault(Fault):
    """A fault of the cable between controllers and robot."""

    patience = 5.0

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        super().__init__(scene, rng)
        assert scene.hosts is not None
        self.hosts = scene.hosts

    def heal(self) -> None:
        """Restore the cable."""
        self.hosts.quality()


class Loss(_CableFault):
    """Packets are lost."""

    def strike(self) -> None:
        """Lose a share of the packets."""
        share = self.rng.choice((0.01, 0.05, 0.2, 0.5))
        self.seconds = self.rng.uniform(1.0, 4.0)
        self.text = f"{100 * share:g} % of packets lost for {self.seconds:.1f} s"
        self.hosts.quality(loss=share)


class Delay(_CableFault):
    """Packets are delayed."""

    def strike(self) -> None:
        """Delay the packets."""
        delay = self.rng.choice((0.002, 0.01, 0.05, 0.2))
        loss = self.rng.choice((0.0, 0.0, 0.05))
        self.seconds = self.rng.uniform(1.0, 4.0)
        self.text = (
            f"packets {1e3 * delay:g} ms late, {100 * loss:g} % lost for {self.seconds:.1f} s"
        )
        self.hosts.quality(loss, delay)


class Cut(_CableFault):
    """The cable is pulled out and put back."""

    def strike(self) -> None:
        """Pull it out."""
        self.seconds = self.rng.choice((0.05, 0.3, 1.0, 3.0, 8.0))
        self.text = f"cable cut for {self.seconds:g} s"
        self.hit.add(self.scene.suite.simulation)
        self.hosts.cut()


KINDS: dict[str, tuple[type[Fault], float]] = {
    "kill": (Kill, 2.0),
    "signal": (Signal, 1.5),
    "freeze": (Freeze, 3.0),
    "starve": (Starve, 1.0),
    "full_disk": (FullDisk, 0.7),
    "read_only_home": (ReadOnlyHome, 0.7),
    "damaged_cache": (DamagedCache, 1.0),
    "pause": (Pause, 1.0),
    "reset": (Reset, 0.7),
    "clock": (ClockJump, 0.7),
    "loss": (Loss, 1.5),
    "delay": (Delay, 1.5),
    "cut": (Cut, 1.5),
}
"""By name: the fault, and how often it is drawn."""
NEED_HOME = ("full_disk", "read_only_home", "damaged_cache")
NEED_HOSTS = ("loss", "delay", "cut")
