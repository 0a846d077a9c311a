# SPDX-License-Identifier: Apache-2.0
"""PlanningScene and PlanningSceneWorld to and from scenes.

A message that changes a scene (``is_diff``) is carried out object by object: what is wrong with one
leaves the others. A message that holds a whole scene replaces everything, so it is taken whole or
not at all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    ObjectColor,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
    RobotState,
)

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.ros.messages.moveit_messages import fill_robot_state
from motion_nodes.ros.scene.allowed_collision_matrix import allowed_from, allowed_message
from motion_nodes.ros.scene.collision_objects import (
    ADD,
    attached_message,
    change_attached,
    change_object,
    detached_message,
    kept_note,
    moved_message,
    object_message,
    removed_message,
)
from motion_nodes.ros.scene.message_order import EarlyAttachments
from motion_nodes.ros.scene.scene_frames import SceneFrames
from motion_nodes.ros.scene.scene_update import SceneDraft
from motion_nodes.scene.allowed_collisions import AllowedCollisions, Pair, pair_of
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.scene.scene import Scene, SceneDiff
from motion_nodes.scene.scenery import Scenery

Components = PlanningSceneComponents
EVERYTHING = 2**32 - 1


@dataclass
class SceneWarnings:
    """What there is to say of a message."""

    refused: list[str] = field(default_factory=list)
    """What was not carried out, and why."""
    warnings: list[str] = field(default_factory=list)
    """What was carried out otherwise than a client may think."""

    @property
    def success(self) -> bool:
        """Whether all was carried out."""
        return not self.refused


class SceneMessages:
    """Reads and writes scene messages for one robot."""

    def __init__(
        self, robot: Robot, frames: SceneFrames, name: str = "", scenery: Scenery | None = None
    ) -> None:
        """Prepare for ``robot``.

        Args:
            robot: what the scene is around.
            frames: as messages name them.
            name: of the scene; the robot's where empty.
            scenery: stays when a message replaces or removes all objects.
        """
        self._robot = robot
        self._scenery = scenery or Scenery()
        self._name = name or robot.tree.name
        self._frames = frames
        bodies = link_bodies(robot)
        self.links = tuple(body.name for body in bodies)
        """The robot's links that can touch something."""
        checked = checked_pairs(robot, bodies, AllowedCollisions())
        self.never_checked: frozenset[Pair] = frozenset(
            pair_of(a, b)
            for i, a in enumerate(self.links)
            for j, b in enumerate(self.links[i + 1 :], start=i + 1)
            if (i, j) not in set(checked)
        )
        """Pairs of these links that the robot's model leaves out."""

    def standing(self, positions: Array) -> SceneMessages:
        """Return the same for a robot that stands somewhere, shape (n,): in a request, say."""
        other = copy.copy(self)
        other._frames = self._frames.standing(positions)
        return other

    # ---- messages in

    def apply(
        self, scene: Scene, *messages: Any, early: EarlyAttachments | None = None
    ) -> tuple[Scene, SceneWarnings]:
        """Return the scene that messages make of a scene, one after the other.

        The joint positions in them are not used: where the robot is, its driver tells.

        Args:
            scene: the scene before.
            messages: PlanningScene, PlanningSceneWorld, CollisionObject or AttachedCollisionObject.
            early: keeps those that attach an object which is not there yet; without it they are
                refused.

        Returns:
            The scene after, which is the same object if nothing is another, and what to say.
        """
        findings = SceneWarnings()
        draft = SceneDraft(scene, self._scenery)
        for message in messages:
            if isinstance(message, CollisionObject):
                _carry_out(draft, message, self._frames, change_object, findings)
            elif isinstance(message, AttachedCollisionObject):
                if early is None or not early.take(draft, message):
                    _carry_out(draft, message, self._frames, change_attached, findings)
                else:
                    name = message.object.id
                    findings.warnings.append(f"'{name}' is attached as soon as there is an object")
            elif isinstance(message, PlanningScene) and message.is_diff:
                self._scene(draft, message, findings)
            else:
                if early is not None and isinstance(message, PlanningScene):
                    early.clear()
                self._whole(draft, message, findings)
        for message in early.due(draft) if early is not None else ():
            _carry_out(draft, message, self._frames, change_attached, findings)
        draft.allow_scenery()
        return (draft.scene() if draft.changed else scene), findings

    # ---- messages out

    def message(
        self, scene: Scene, positions: Mapping[str, float], components: int = 0
    ) -> PlanningScene:
        """Return a whole scene.

        Args:
            scene: what to tell.
            positions: of the robot's joints [rad or m]; none where they are not known.
            components: bits of PlanningSceneComponents; 0 means everything.
        """
        wanted = components or EVERYTHING
        message = PlanningScene()
        if wanted & Components.SCENE_SETTINGS:
            message.name, message.robot_model_name = self._name, self._robot.tree.name
        if wanted & (Components.ROBOT_STATE | Components.ROBOT_STATE_ATTACHED_OBJECTS):
            self._fill_state(message.robot_state, positions)
        if wanted & Components.ROBOT_STATE_ATTACHED_OBJECTS:
            message.robot_state.attached_collision_objects = [
                attached_message(body) for body in scene.attached.values()
            ]
        shown = [item for item in scene.objects.values() if item.enabled]
        if wanted & Components.WORLD_OBJECT_GEOMETRY:
            message.world.collision_objects = [object_message(o, self._frames.base) for o in shown]
        elif wanted & Components.WORLD_OBJECT_NAMES:
            message.world.collision_objects = [CollisionObject(id=item.name) for item in shown]
        if wanted & Components.ALLOWED_COLLISION_MATRIX:
            message.allowed_collision_matrix = self._matrix(scene)
        if wanted & Components.OBJECT_COLORS:
            message.object_colors = _colours(scene, [*scene.objects, *scene.attached])
        return message

    def diff_message(self, after: Scene, diff: SceneDiff) -> PlanningScene:
        """Return what makes others' scenes become ``after``.

        Args:
            after: the scene now.
            diff: what differs from the one before; from :func:`motion_nodes.scene.scene.difference`
        """
        message = self.state_message({})
        base, objects = self._frames.base, message.world.collision_objects
        for name in diff.removed:
            # Those that were taken up are not removed: attaching them takes them out of the world.
            if name not in after.attached:
                objects.append(removed_message(name, base))
        for name in diff.detached:
            message.robot_state.attached_collision_objects.append(detached_message(name))
            if name not in after.objects:
                objects.append(removed_message(name, base))
        for name in diff.attached:
            message.robot_state.attached_collision_objects.append(
                attached_message(after.attached[name])
            )
        for name in (*diff.added, *diff.changed):
            item = after.objects[name]
            objects.append(
                object_message(item, base) if item.enabled else removed_message(name, base)
            )
        for name in diff.moved:
            if after.objects[name].enabled:
                objects.append(moved_message(after.objects[name], base))
        if diff.allowed:
            message.allowed_collision_matrix = self._matrix(after)
        named = [*diff.added, *diff.changed, *diff.attached, *diff.detached]
        message.object_colors = _colours(after, named)
        return message

    def state_message(self, positions: Mapping[str, float]) -> PlanningScene:
        """Return a change of nothing but where the robot's joints are."""
        message = PlanningScene(is_diff=True)
        message.name, message.robot_model_name = self._name, self._robot.tree.name
        message.robot_state.is_diff = True
        if positions:
            self._fill_state(message.robot_state, positions)
        return message

    # ---- inside

    def _whole(
        self,
        draft: SceneDraft,
        message: PlanningScene | PlanningSceneWorld,
        findings: SceneWarnings,
    ) -> None:
        """Replace all but scenery, or nothing if there is anything wrong with it."""
        fresh, own = SceneDraft(draft.scene(), self._scenery), SceneWarnings()
        kept = fresh.clear()
        if isinstance(message, PlanningScene):
            fresh.allowed = AllowedCollisions()
            if not message.robot_state.is_diff:
                fresh.attached.clear()
            self._scene(fresh, message, own)
        else:
            self._world(fresh, message, own)
        world = message.world if isinstance(message, PlanningScene) else message
        named = {item.id for item in world.collision_objects}
        own.warnings += kept_note(name for name in kept if name not in named)
        if own.success:
            draft.objects, draft.attached = fresh.objects, fresh.attached
            draft.allowed = fresh.allowed
        findings.refused += own.refused
        findings.warnings += own.warnings

    def _scene(self, draft: SceneDraft, message: PlanningScene, findings: SceneWarnings) -> None:
        findings.warnings += self._frames.fix(message.fixed_frame_transforms)
        self._change_allowed(draft, message, findings)
        # What is put down counts before what the world says of it.
        self._state(draft, message.robot_state, findings)
        self._world(draft, message.world, findings)
        for colour in message.object_colors:
            self._colour(draft, colour, findings)
        self._name_what_is_not_used(message, findings)

    def _state(self, draft: SceneDraft, state: RobotState, findings: SceneWarnings) -> None:
        """Attach and detach; a state that is no change tells all that is attached."""
        bodies = state.attached_collision_objects
        tells = bodies or state.joint_state.name or state.multi_dof_joint_state.joint_names
        if not state.is_diff and tells:
            if any(body.object.operation != ADD for body in bodies):
                findings.refused.append(
                    "a robot state that detaches or appends must be marked as a change "
                    "(robot_state.is_diff); nothing attached was touched"
                )
                return
            draft.attached.clear()
        for body in bodies:
            _carry_out(draft, body, self._frames, change_attached, findings)

    def _world(self, draft: SceneDraft, world: PlanningSceneWorld, findings: SceneWarnings) -> None:
        for item in world.collision_objects:
            _carry_out(draft, item, self._frames, change_object, findings)
        if world.octomap.octomap.data:
            findings.refused.append("octomaps are not supported; give obstacles as objects")

    def _change_allowed(
        self, draft: SceneDraft, message: PlanningScene, findings: SceneWarnings
    ) -> None:
        matrix = message.allowed_collision_matrix
        if not matrix.entry_names and not matrix.default_entry_names:
            return
        try:
            draft.allowed = allowed_from(matrix, self.never_checked)
        except InvalidCommand as error:
            findings.refused.append(str(error))

    def _colour(self, draft: SceneDraft, message: ObjectColor, findings: SceneWarnings) -> None:
        colour = message.color
        rgba = (float(colour.r), float(colour.g), float(colour.b), float(colour.a))
        if all(0.0 <= value <= 1.0 for value in rgba):
            draft.colour(message.id, rgba)
        else:
            findings.warnings.append(
                f"the colour of '{message.id}' is {rgba}; its parts must be from 0 to 1"
            )

    def _name_what_is_not_used(self, message: PlanningScene, findings: SceneWarnings) -> None:
        padded = [p.link_name for p in message.link_padding if p.padding != 0.0]
        padded += [s.link_name for s in message.link_scale if s.scale != 1.0]
        if padded:
            findings.refused.append(
                f"padding and scale of links are not supported (given for {', '.join(padded)})"
            )
        model = message.robot_model_name
        if model and model != self._robot.tree.name:
            findings.warnings.append(
                f"the scene is for the robot '{model}'; this is '{self._robot.tree.name}'"
            )

    def _fill_state(self, state: RobotState, positions: Mapping[str, float]) -> None:
        fill_robot_state(state, positions)
        state.joint_state.header.frame_id = self._frames.base

    def _matrix(self, scene: Scene) -> Any:
        return allowed_message(scene.allowed, self.links, self.never_checked)


def _carry_out(
    draft: SceneDraft,
    message: Any,
    frames: SceneFrames,
    change: Callable[[SceneDraft, Any, SceneFrames], list[str]],
    findings: SceneWarnings,
) -> None:
    try:
        findings.warnings += change(draft, message, frames)
    except MotionError as error:
        findings.refused.append(str(error))


def _colours(scene: Scene, names: list[str]) -> list[ObjectColor]:
    colours = []
    for name in names:
        item = scene.objects.get(name) or scene.attached.get(name)
        if item is not None and item.rgba is not None:
            colour = ObjectColor(id=name)
            c = colour.color
            c.r, c.g, c.b, c.a = map(float, item.rgba)
            colours.append(colour)
    return colours
