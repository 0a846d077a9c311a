# SPDX-License-Identifier: Apache-2.0
"""The robot of a task: observes its world, and executes skills as work that the loop advances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from motion_nodes.errors import MotionError
from motion_nodes.nodes.task.arm_skills import ArmSkills
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.tasks.task_codes import NO_REASON, reason_of
from motion_nodes.tasks.task_plan import PlanStep
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import WorldState


class WorkExecution:
    """An active skill."""

    def __init__(
        self, skills: ArmSkills, step: PlanStep, state: WorldState, cancel: Callable[[], None]
    ) -> None:
        """Begin.

        Raises:
            SkillFailed: the robot has no such skill.
        """
        self.phase = ""
        self._work: Work = skills.work_of(step, state, self._set_phase)
        self._cancel = cancel

    def poll(self) -> bool:
        """Advance; return whether it has succeeded.

        Raises:
            SkillFailed: with the reason.
        """
        try:
            next(self._work)
        except StopIteration:
            return True
        except SkillFailed:
            raise
        except MotionError as error:
            raise SkillFailed(str(error), reason_of(error).code) from error
        return False

    def cancel(self) -> None:
        """Cancel the active motion."""
        self._work.close()
        self._cancel()

    def _set_phase(self, name: str) -> None:
        self.phase = name


class TaskRobot:
    """One arm with a gripper, on a mobile base or not."""

    def __init__(
        self,
        objects: ObservedObjects,
        skills: ArmSkills,
        cancel: Callable[[], None],
        places: Mapping[str, tuple[float, float, float]] | None = None,
        stand_off: Callable[[], float] | None = None,
    ) -> None:
        """Create it from its parts.

        Args:
            objects: around it.
            skills: of it.
            cancel: cancels the active motion.
            places: that a mobile base can drive to.
            stand_off: returns the distance from which it reaches objects [m]; None: it is fixed.
        """
        self._objects, self._skills, self._cancel = objects, skills, cancel
        self._places, self._stand_off = dict(places or {}), stand_off

    def watch(self) -> str:
        """Watch the held object, in every cycle; return why it was lost in this one, if it was."""
        before = self._skills.lost
        self._skills.watch()
        return "" if self._skills.lost is before else self._skills.lost.text

    def begin(self) -> None:
        """Begin a task: what was lost before does not concern it."""
        self._skills.lost = NO_REASON

    def observe(self) -> WorldState:
        """Return the present state."""
        objects = self._objects.states(self.now())
        held = self._objects.held
        unsure = held is not None and self._skills.grip_unsure
        state = WorldState(objects, self._places, held, unsure)
        if self._stand_off is None:
            return state
        return replace(state, has_base=True, stand_off=self._stand_off())

    def start(self, step: PlanStep, state: WorldState) -> WorkExecution:
        """Begin a step; see :class:`~motion_nodes.tasks.task_runner.SkillRobot`."""
        return WorkExecution(self._skills, step, state, self._cancel)

    def now(self) -> float:
        """Return the current time of the node's clock, which may be simulated time [s]."""
        return self._objects.now()
