# SPDX-License-Identifier: Apache-2.0
"""The robot of a task: observes its world, and executes skills as work that the loop advances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import legs_to
from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.skill_poses import stand_poses
from motion_nodes.extras.tasks.task_codes import NO_REASON, SkillFailed, TaskCode, reason_of
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.world_state import WorldState
from motion_nodes.nodes.task.arm_skills import ArmSkills
from motion_nodes.nodes.task.contact_skills import ContactSkills
from motion_nodes.nodes.task.holding import Holding
from motion_nodes.nodes.task.reachability import Reachability
from motion_nodes.nodes.task.remote_work import Phase, Work
from motion_nodes.nodes.task.skill_parts import NavigatedBase, SkillParts

ARRIVED = 0.5
"""Time at rest after a drive until objects are observed again [s]."""


class MobileSkills:
    """Drives of the base that carries an arm."""

    def __init__(self, parts: SkillParts, holding: Holding, base: NavigatedBase) -> None:
        self._parts, self._holding, self._base = parts, holding, base
        self._motions, self._objects = parts.motions, parts.objects

    def navigate(self, location: str, state: WorldState, phase: Phase) -> Work:
        """Drive to an object or a place."""
        base, target = self._base, state.objects.get(location)
        if target is None and location not in state.places:
            raise SkillFailed(f"'{location}' is no object and no place", TaskCode.UNKNOWN_LOCATION)
        phase("fold")
        yield from self._holding.free(self._motions.to_state("home"))
        # The navigator checks the outline of this state only.
        here = base.in_odom_now()
        if here is None:
            raise SkillFailed(
                "the pose of the base is not known: no odometry, or none that is new",
                TaskCode.STATE_UNKNOWN,
            )

        def goals(start: Pose2) -> Iterator[Pose2]:
            if target is None:
                yield here.inverse().compose(base.in_odom(state.places[location]))
                return
            x, y = target.X_WO[:2, 3].tolist()
            seen = start.inverse().compose(Pose2(x, y))
            for pose in stand_poses(np.array(seen[:2]), self._parts.params.stand_off):
                yield start.compose(Pose2(*pose))

        legs = legs_to(goals, base.outlines.around(state))
        if not legs:
            raise SkillFailed(
                f"no free drive to '{location}' without a detour was found", TaskCode.NO_DRIVE
            )
        for leg in legs:
            phase("drive")
            yield from base.drive(here.compose(leg))
        end = self._objects.now() + ARRIVED
        while self._objects.now() < end:
            yield
        phase("check")
        # The held object moved with the base: detections during the drive are outdated.
        yield from self._holding.measure()


class RobotSkills:
    """All skills of one robot, and the object that it holds."""

    def __init__(self, parts: SkillParts, reach: Reachability | None = None) -> None:
        """Create the skills.

        Args:
            parts: of the robot.
            reach: selects poses; None: by inverse kinematics of the arm.
        """
        self.parts, self.holding = parts, Holding(parts)
        self.reach = reach or Reachability(parts.motions, parts.world)
        arm = ArmSkills(parts, self.holding, self.reach)
        contact = ContactSkills(parts, self.holding, self.reach)
        self._works: dict[str, Callable[..., Work]] = {
            "home": arm.home,
            "locate": arm.locate,
            "pick": arm.pick,
            "place": arm.place,
            "pour": arm.pour,
            "push": arm.push,
            "wipe": contact.wipe,
            "open_drawer": contact.open_drawer,
            "handover": contact.handover,
        }
        if parts.base is not None:
            self._works["navigate"] = MobileSkills(parts, self.holding, parts.base).navigate

    def work_of(self, step: PlanStep, state: WorldState, phase: Phase) -> Work:
        """Return the work of a step.

        Args:
            step: the step.
            state: observed state.
            phase: called with the name of each phase.

        Raises:
            SkillFailed: the robot has no such skill.
        """
        skill = self._works.get(step.skill)
        if skill is None:
            raise SkillFailed(f"this robot cannot {step.skill}", TaskCode.UNSUPPORTED_SKILL)
        return self.holding.resumed(skill(state=state, phase=phase, **step.args), state, phase)


class WorkExecution:
    """An active skill."""

    def __init__(self, skills: RobotSkills, step: PlanStep, state: WorldState) -> None:
        """Begin.

        Raises:
            SkillFailed: the robot has no such skill.
        """
        self.phase = ""
        self._work: Work = skills.work_of(step, state, self._set_phase)
        self._cancel = skills.parts.cancel

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
        self, skills: RobotSkills, places: Mapping[str, tuple[float, float, float]] | None = None
    ) -> None:
        """Create it from its skills and the places that a mobile base can drive to."""
        self._skills, self._parts, self._holding = skills, skills.parts, skills.holding
        self._places = dict(places or {})

    def watch(self) -> str:
        """Watch the held object, in every cycle; return why it was lost in this one, if it was."""
        before = self._holding.lost
        self._holding.watch()
        return "" if self._holding.lost is before else self._holding.lost.text

    def begin(self) -> None:
        """Begin a task: what was lost before does not concern it."""
        self._holding.lost = NO_REASON

    def observe(self) -> WorldState:
        """Return the present state."""
        objects = self._parts.objects.states(self.now())
        held = self._parts.objects.held
        unsure = held is not None and self._holding.grip_unsure
        state = WorldState(objects, self._places, held, unsure)
        if self._parts.base is None:
            return state
        return replace(state, has_base=True, stand_off=self._parts.params.stand_off)

    def start(self, step: PlanStep, state: WorldState) -> WorkExecution:
        """Begin a step; see :class:`~motion_nodes.extras.tasks.task_runner.SkillRobot`."""
        return WorkExecution(self._skills, step, state)

    def now(self) -> float:
        """Return the current time of the node's clock, which may be simulated time [s]."""
        return self._parts.objects.now()
