# SPDX-License-Identifier: Apache-2.0
"""Execution of one trajectory by several controllers, as an arm and a hand with one each.

Each controller gets the joints that it has. The parts start together; the whole has ended when all
of them have, and a part that fails ends the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.clients.trajectory_execution import (
    ExecutionParams,
    SentTrajectory,
    TrajectoryClient,
)
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.messages.trajectory_messages import TrajectoryRules
from motion_nodes.ros.node import MotionNode

FIELDS = ("positions", "velocities", "accelerations", "effort")


def joints_by_controller(entries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the joints of further controllers by their names.

    Args:
        entries: of the parameter ``other_controllers``, each as NAME=JOINT,JOINT.

    Raises:
        InvalidConfig: another form, or a controller or a joint that is given twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        name, _, rest = entry.partition("=")
        joints = tuple(joint for joint in rest.split(",") if joint)
        problem = "" if name and joints else "each entry is NAME=JOINT,JOINT"
        if name in found:
            problem = f"{name} is given twice"
        for other, has in found.items():
            if common := set(has) & set(joints):
                problem = f"{other} has {', '.join(sorted(common))} already"
        if problem:
            raise InvalidConfig(
                f"other_controllers has '{entry}'; {problem}", field="other_controllers"
            )
        found[name] = joints
    return found


def part_of(message: JointTrajectory, chosen: Sequence[int]) -> JointTrajectory:
    """Return a trajectory of some of its joints.

    Args:
        message: the trajectory.
        chosen: indices of the joints.
    """
    part = JointTrajectory(header=message.header)
    part.joint_names = [message.joint_names[i] for i in chosen]
    for point in message.points:
        own = JointTrajectoryPoint(time_from_start=point.time_from_start)
        for name in FIELDS:
            values = getattr(point, name)
            setattr(own, name, [values[i] for i in chosen] if len(values) else [])
        part.points.append(own)
    return part


class ControllerSet:
    """The controllers of a robot; used like the client of a single one."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, params: ExecutionParams) -> None:
        """Create a client for each controller.

        Args:
            node: the node.
            jobs: queue of the node's executor.
            params: its parameters ``controller``, which has all joints that no other one has, and
                ``other_controllers``.

        Raises:
            InvalidConfig: see :func:`joints_by_controller`.
        """
        others = joints_by_controller(params.other_controllers)
        self._node, self._main = node, TrajectoryClient(node, jobs, params.controller)
        self._of = dict[str, TrajectoryClient]()
        for name, joints in others.items():
            self._of |= dict.fromkeys(joints, TrajectoryClient(node, jobs, name))
        self._clients = tuple(dict.fromkeys((self._main, *self._of.values())))

    @property
    def missing(self) -> list[str]:
        """Actions of the controllers that are not available."""
        return [client.action for client in self._clients if not client.ready]

    def rules(self) -> TrajectoryRules:
        """Return what the controller of most joints accepts in trajectories; blocks."""
        return self._main.rules()

    def send(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory to the controllers of its joints, without waiting for acceptance."""
        chosen: dict[TrajectoryClient, list[int]] = {}
        for i, joint in enumerate(message.joint_names):
            chosen.setdefault(self._of.get(joint, self._main), []).append(i)
        if len(chosen) < 2:
            return next(iter(chosen), self._main).send(message)
        whole = SentTrajectory(message, self._main)
        whole.parts = tuple(
            client.send(part_of(message, indices)) for client, indices in chosen.items()
        )
        return whole

    def cancel(self, sent: SentTrajectory) -> None:
        """Cancel a trajectory, even before it is accepted."""
        sent.cancel_requested = True
        for part in sent.parts or (sent,):
            part.client.cancel(part)

    def poll(self, sent: SentTrajectory) -> bool:
        """Check timeouts, and return whether a trajectory has ended or timed out."""
        if not sent.parts:
            return sent.client.poll(sent)
        if sent.ended.is_set():
            return True
        ended = [part.client.poll(part) for part in sent.parts]
        failed = [p for p, over in zip(sent.parts, ended, strict=True) if over and not p.succeeded]
        for part in sent.parts:
            if failed and not part.ended.is_set() and not part.cancel_requested:
                part.client.cancel(part)
        _measure(sent)
        if all(ended):
            # The others were canceled because of the first one that failed.
            failed.sort(key=lambda part: part.cancel_requested and not part.lost)
            decisive = (failed or sent.parts)[0]
            sent.status, sent.code = decisive.status, decisive.code
            sent.text, sent.lost = decisive.text, decisive.lost
            sent.ended.set()
        return sent.ended.is_set()

    def record(self, sent: SentTrajectory, positions: list[float]) -> None:
        """Record measured joint positions of now; see :meth:`TrajectoryClient.record`."""
        sent.client.record(sent, positions)

    def destroy(self) -> None:
        """Destroy the clients."""
        for client in self._clients:
            client.destroy()


def _measure(whole: SentTrajectory) -> None:
    """Take over the newest measured positions of all parts."""
    whole.delay = max((part.delay for part in whole.parts), key=abs)
    newest = [part.measured[-1] for part in whole.parts if part.measured]
    if len(newest) < len(whole.parts):
        return
    stamp = max(at for at, _ in newest)
    if whole.measured and stamp <= whole.measured[-1][0]:
        return
    positions = dict[str, float]()
    for part, (_, values) in zip(whole.parts, newest, strict=True):
        positions |= zip(part.joints, values, strict=True)
    whole.measured.append((stamp, [positions[joint] for joint in whole.joints]))
