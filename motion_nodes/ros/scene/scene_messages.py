# SPDX-License-Identifier: Apache-2.0
"""PlanningScene and PlanningSceneWorld to and from scenes.

A diff (``is_diff``) is applied object by object: an invalid object does not affect the others. A
complete scene replaces everything, so it is applied as a whole or not at all.

Messages of several topics are applied in order of arrival, and attachments may arrive too early. A
client that adds an object on one topic and attaches it on another cannot control which message
arrives first: during discovery, the first messages are sent again later.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from moveit_msgs.msg import (
    AllowedCollisionEntry,
    AllowedCollisionMatrix,
    AttachedCollisionObject,
    CollisionObject,
    LinkPadding,
    LinkScale,
    ObjectColor,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
    RobotState,
)

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    LinkMargin,
    Pair,
    Scene,
    SceneDiff,
    checked_margin,
    pair_of,
)
from motion_nodes.core.scene.scenery import Scenery
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.moveit_messages import fill_robot_state
from motion_nodes.ros.scene.collision_objects import (
    ADD,
    REMOVE,
    attached_message,
    change_attached,
    change_object,
    detached_message,
    kept_note,
    moved_message,
    object_message,
    removed_message,
)
from motion_nodes.ros.scene.scene_update import SceneDraft, SceneFrames, change_octomap, fill_world
from motion_nodes.typing import Array

OBJECT_TIMEOUT = 1.0
"""[s] How long an attachment waits for its object."""
Components = PlanningSceneComponents
EVERYTHING = 2**32 - 1


def allowed_from(
    message: AllowedCollisionMatrix, never_checked: Collection[Pair] = ()
) -> AllowedCollisions:
    """Return the allowed collisions of a matrix; pairs that equal their defaults are omitted.

    Args:
        message: the matrix.
        never_checked: pairs of the robot's links that are never checked, also omitted.

    Raises:
        InvalidCommand: the matrix is not square, or numbers of names and values differ.
    """
    names, rows = message.entry_names, message.entry_values
    defaults = message.default_entry_names
    if len(defaults) != len(message.default_entry_values) or len(names) != len(rows):
        raise InvalidCommand(
            f"the allowed collision matrix has {len(names)} names with {len(rows)} rows and "
            f"{len(defaults)} default names with {len(message.default_entry_values)} values; there "
            "must be as many of each"
        )
    by_default = AllowedCollisions(
        defaults=MappingProxyType(dict(zip(defaults, message.default_entry_values, strict=True)))
    )
    pairs: dict[Pair, bool] = {}
    for i, (name, row) in enumerate(zip(names, rows, strict=True)):
        if len(row.enabled) != len(names):
            raise InvalidCommand(
                f"row '{name}' of the allowed collision matrix has {len(row.enabled)} entries; "
                f"there must be {len(names)}, one for each name"
            )
        for j in range(i + 1, len(names)):
            pair, allowed = pair_of(name, names[j]), bool(row.enabled[j])
            if allowed != by_default.allows(*pair) and not (allowed and pair in never_checked):
                pairs[pair] = allowed
    return AllowedCollisions(MappingProxyType(pairs), by_default.defaults)


def allowed_message(
    allowed: AllowedCollisions, links: Sequence[str], never_checked: Collection[Pair]
) -> AllowedCollisionMatrix:
    """Return allowed collisions as a matrix with a row for each of the robot's links.

    Clients allow collisions of an object with the robot in its row, so each link needs an entry.

    Args:
        allowed: the scene's allowed collisions.
        links: the robot's links with collision geometry.
        never_checked: pairs of them that are never checked, from :func:`pair_of`.
    """
    entries = {name for pair in allowed.pairs for name in pair} | set(allowed.defaults)
    names = [*links, *sorted(entries.difference(links))]
    message = AllowedCollisionMatrix(entry_names=names)
    for a in names:
        row = [a != b and (allowed.allows(a, b) or pair_of(a, b) in never_checked) for b in names]
        message.entry_values.append(AllowedCollisionEntry(enabled=row))
    message.default_entry_names = list(allowed.defaults)
    message.default_entry_values = list(allowed.defaults.values())
    return message


class Arrivals:
    """Merges the messages of several polled topics into one stream."""

    def __init__(self, topics: Sequence[PolledSubscription[Any]]) -> None:
        """Merge ``topics``, which their owner destroys."""
        self._topics = topics
        self._held: list[tuple[Any, int]] = []

    def take(self) -> list[Any]:
        """Return pending messages, oldest first.

        Topics are read one after another. Messages that arrive during the call are deferred to the
        next one, since older ones may have arrived on a topic that was already read.
        """
        begin = time.time_ns()
        pending, self._held = self._held, []
        for topic in self._topics:
            for message, _, arrived in topic.times():
                (pending if arrived <= begin else self._held).append((message, arrived))
        pending.sort(key=lambda pair: pair[1])
        return [message for message, _ in pending]


class EarlyAttachments:
    """Messages that attach an object by its id before that object is added."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty queue; ``clock`` returns the time for timeouts [s]."""
        self._clock = clock
        self._waiting: dict[str, tuple[AttachedCollisionObject, float]] = {}

    def take(self, draft: SceneDraft, message: AttachedCollisionObject) -> bool:
        """Queue a message whose object does not exist; return whether it was queued.

        A message that detaches removes the ones it applies to from the queue.
        """
        item = message.object
        if item.operation == REMOVE:
            self._waiting = {
                name: (kept, since)
                for name, (kept, since) in self._waiting.items()
                if item.id not in ("", name) or message.link_name not in ("", kept.link_name)
            }
            return False
        has_shapes = item.primitives or item.meshes or item.planes
        if item.operation != ADD or not item.id or has_shapes or self._known(draft, item.id):
            return False
        self._waiting[item.id] = (message, self._clock())
        return True

    def due(self, draft: SceneDraft) -> list[AttachedCollisionObject]:
        """Remove and return the messages whose objects now exist."""
        names = [name for name in self._waiting if self._known(draft, name)]
        return [self._waiting.pop(name)[0] for name in names]

    def given_up(self) -> list[AttachedCollisionObject]:
        """Remove and return the messages that have timed out."""
        end = self._clock() - OBJECT_TIMEOUT
        names = [name for name, (_, since) in self._waiting.items() if since < end]
        return [self._waiting.pop(name)[0] for name in names]

    def clear(self) -> None:
        """Clear the queue: the complete scene was replaced."""
        self._waiting.clear()

    @staticmethod
    def _known(draft: SceneDraft, name: str) -> bool:
        return name in draft.objects or name in draft.attached


@dataclass
class SceneWarnings:
    """Result of applying messages."""

    refused: list[str] = field(default_factory=list)
    """Changes that were not applied, and why."""
    warnings: list[str] = field(default_factory=list)
    """Changes that were applied with a restriction."""

    @property
    def success(self) -> bool:
        """Whether everything was applied."""
        return not self.refused


class SceneMessages:
    """Reads and writes scene messages for one robot."""

    def __init__(
        self, robot: Robot, frames: SceneFrames, name: str = "", scenery: Scenery | None = None
    ) -> None:
        """Create the converter.

        Args:
            robot: the robot in the scene.
            frames: frames of scene messages.
            name: name of the scene; empty for the robot's name.
            scenery: objects that remain when a message replaces or removes all objects.
        """
        self._robot = robot
        self._name = name or robot.tree.name
        self._frames = frames
        bodies = link_bodies(robot)
        self.links = tuple(body.name for body in bodies)
        """The robot's links that have collision geometry."""
        checked = set(checked_pairs(robot, bodies, AllowedCollisions(), exact=True))
        self.never_checked: frozenset[Pair] = frozenset(
            pair_of(a, b)
            for i, a in enumerate(self.links)
            for j, b in enumerate(self.links[i + 1 :], start=i + 1)
            if (i, j) not in checked
        )
        """Pairs of these links that the robot's description excludes from checks."""
        self._scenery = scenery or Scenery()
        self.refuses_unknown: Callable[[], bool] = lambda: False
        """Returns whether REMOVE of an object that is not in the world fails, as in MoveIt."""

    def message(
        self, scene: Scene, positions: Mapping[str, float], components: int = 0
    ) -> PlanningScene:
        """Return a complete scene.

        Args:
            scene: the scene.
            positions: the robot's joint positions [rad or m]; empty if unknown.
            components: bits of PlanningSceneComponents; 0 for all.
        """
        requested = components or EVERYTHING
        message = PlanningScene()
        if requested & Components.SCENE_SETTINGS:
            message.name, message.robot_model_name = self._name, self._robot.tree.name
        if requested & (Components.ROBOT_STATE | Components.ROBOT_STATE_ATTACHED_OBJECTS):
            self._fill_state(message.robot_state, positions)
        if requested & Components.ROBOT_STATE_ATTACHED_OBJECTS:
            message.robot_state.attached_collision_objects = [
                attached_message(body) for body in scene.attached.values()
            ]
        shown = [o for o in scene.objects.values() if o.enabled and o.name != OCTOMAP]
        if requested & Components.WORLD_OBJECT_GEOMETRY:
            message.world.collision_objects = [object_message(o, self._frames.base) for o in shown]
        elif requested & Components.WORLD_OBJECT_NAMES:
            message.world.collision_objects = [CollisionObject(id=item.name) for item in shown]
        if requested & Components.OCTOMAP and OCTOMAP in scene.objects:
            fill_world(message.world, scene.objects[OCTOMAP], self._frames.base)
        if requested & Components.ALLOWED_COLLISION_MATRIX:
            message.allowed_collision_matrix = self._matrix(scene)
        if requested & Components.LINK_PADDING_AND_SCALING:
            self._fill_margins(message, scene)
        if requested & Components.OBJECT_COLORS:
            message.object_colors = _colours(scene, [*scene.objects, *scene.attached])
        return message

    def diff_message(self, after: Scene, diff: SceneDiff) -> PlanningScene:
        """Return the diff that turns the previous scene into ``after``.

        Args:
            after: the current scene.
            diff: its differences, from :func:`motion_nodes.core.scene.scene.difference`.
        """
        message = self.state_message({})
        base, objects = self._frames.base, message.world.collision_objects
        attached = message.robot_state.attached_collision_objects
        if OCTOMAP in (*diff.removed, *diff.added, *diff.changed, *diff.moved):
            fill_world(message.world, after.objects.get(OCTOMAP), base)
        for name in _but_octomap(diff.removed):
            # Attaching an object already removes it from the world.
            if name not in after.attached:
                objects.append(removed_message(name, base))
        for name in diff.detached:
            attached.append(detached_message(name))
            if name not in after.objects:
                objects.append(removed_message(name, base))
        for name in diff.attached:
            attached.append(attached_message(after.attached[name]))
        for name in _but_octomap(diff.added + diff.changed):
            item = after.objects[name]
            objects.append(
                object_message(item, base) if item.enabled else removed_message(name, base)
            )
        for name in _but_octomap(diff.moved):
            if after.objects[name].enabled:
                objects.append(moved_message(after.objects[name], base))
        if diff.allowed:
            message.allowed_collision_matrix = self._matrix(after)
        if diff.margins:
            self._fill_margins(message, after)
        named = [*diff.added, *diff.changed, *diff.attached, *diff.detached]
        message.object_colors = _colours(after, named)
        return message

    def state_message(self, positions: Mapping[str, float]) -> PlanningScene:
        """Return a diff that contains only joint positions [rad or m]."""
        message = PlanningScene(is_diff=True)
        message.name, message.robot_model_name = self._name, self._robot.tree.name
        message.robot_state.is_diff = True
        if positions:
            self._fill_state(message.robot_state, positions)
        return message

    def standing(self, positions: Array) -> SceneMessages:
        """Return a converter for fixed joint positions [rad or m], shape (n,)."""
        other = copy.copy(self)
        other._frames = self._frames.standing(positions)
        return other

    def apply(
        self, scene: Scene, *messages: Any, early: EarlyAttachments | None = None
    ) -> tuple[Scene, SceneWarnings]:
        """Apply messages to a scene, in order.

        Joint positions in them are ignored, since the robot's driver reports these.

        Args:
            scene: the scene before.
            messages: PlanningScene, PlanningSceneWorld, CollisionObject or AttachedCollisionObject.
            early: keeps messages that attach an unknown object until it is added; None to refuse
                them.

        Returns:
            The scene after, which is the same object if nothing changed, and warnings.
        """
        findings = SceneWarnings()
        draft = self._draft(scene)
        for message in messages:
            if isinstance(message, CollisionObject):
                _apply(draft, message, self._frames, change_object, findings)
            elif isinstance(message, AttachedCollisionObject):
                if early is None or not early.take(draft, message):
                    _apply(draft, message, self._frames, change_attached, findings)
                else:
                    name = message.object.id
                    findings.warnings.append(f"'{name}' is attached as soon as it is added")
            elif isinstance(message, PlanningScene) and message.is_diff:
                self._apply_scene(draft, message, findings)
            else:
                if early is not None and isinstance(message, PlanningScene):
                    early.clear()
                self._replace(draft, message, findings)
        for message in early.due(draft) if early is not None else ():
            _apply(draft, message, self._frames, change_attached, findings)
        draft.allow_scenery()
        return (draft.scene() if draft.changed else scene), findings

    def _fill_state(self, state: RobotState, positions: Mapping[str, float]) -> None:
        fill_robot_state(state, positions)
        state.joint_state.header.frame_id = self._frames.base

    def _fill_margins(self, message: PlanningScene, scene: Scene) -> None:
        """Write padding and scale of all links, so that receivers remove earlier ones."""
        margins = [(link, scene.margins.get(link, LinkMargin())) for link in self.links]
        message.link_padding = [LinkPadding(link_name=n, padding=m.padding) for n, m in margins]
        message.link_scale = [LinkScale(link_name=n, scale=m.scale) for n, m in margins]

    def _matrix(self, scene: Scene) -> object:
        return allowed_message(scene.allowed, self.links, self.never_checked)

    def _draft(self, scene: Scene) -> SceneDraft:
        draft = SceneDraft(scene, self._scenery)
        draft.refuses_unknown = self.refuses_unknown()
        return draft

    def _replace(
        self,
        draft: SceneDraft,
        message: PlanningScene | PlanningSceneWorld,
        findings: SceneWarnings,
    ) -> None:
        """Replace everything but scenery, or nothing if the message is invalid."""
        fresh, own = self._draft(draft.scene()), SceneWarnings()
        kept = fresh.clear()
        if isinstance(message, PlanningScene):
            fresh.allowed = AllowedCollisions()
            fresh.margins.clear()
            if not message.robot_state.is_diff:
                fresh.attached.clear()
            self._apply_scene(fresh, message, own)
        else:
            self._apply_world(fresh, message, own)
        world = message.world if isinstance(message, PlanningScene) else message
        named = {item.id for item in world.collision_objects}
        own.warnings += kept_note(name for name in kept if name not in named)
        if own.success:
            draft.objects, draft.attached = fresh.objects, fresh.attached
            draft.allowed, draft.margins = fresh.allowed, fresh.margins
        findings.refused += own.refused
        findings.warnings += own.warnings

    def _apply_scene(
        self, draft: SceneDraft, message: PlanningScene, findings: SceneWarnings
    ) -> None:
        findings.warnings += self._frames.fix(message.fixed_frame_transforms)
        self._apply_allowed(draft, message, findings)
        self._apply_margins(draft, message, findings)
        # Detached objects are in the world before its changes are applied.
        self._apply_state(draft, message.robot_state, findings)
        taken = {body.object.id for body in message.robot_state.attached_collision_objects}
        self._apply_world(draft, message.world, findings, taken.intersection(draft.attached))
        for colour in message.object_colors:
            _apply_colour(draft, colour, findings)
        self._check_model(message, findings)

    def _apply_state(self, draft: SceneDraft, state: RobotState, findings: SceneWarnings) -> None:
        """Attach and detach; a complete state contains all attached objects."""
        bodies = state.attached_collision_objects
        complete = bodies or state.joint_state.name or state.multi_dof_joint_state.joint_names
        if not state.is_diff and complete:
            if any(body.object.operation != ADD for body in bodies):
                findings.refused.append(
                    "a robot state that detaches or appends must be a diff "
                    "(robot_state.is_diff); attached objects are unchanged"
                )
                return
            draft.attached.clear()
        for body in bodies:
            _apply(draft, body, self._frames, change_attached, findings)

    def _apply_world(
        self,
        draft: SceneDraft,
        world: PlanningSceneWorld,
        findings: SceneWarnings,
        taken: Set[str] = frozenset(),
    ) -> None:
        """Apply the world's changes; objects that the same message attached have left it."""
        for item in world.collision_objects:
            if item.operation == REMOVE and item.id in taken:
                continue
            _apply(draft, item, self._frames, change_object, findings)
        try:
            change_octomap(draft, world, self._frames)
        except MotionError as error:
            findings.refused.append(f"octomap: {error}")

    def _apply_allowed(
        self, draft: SceneDraft, message: PlanningScene, findings: SceneWarnings
    ) -> None:
        matrix = message.allowed_collision_matrix
        if not matrix.entry_names and not matrix.default_entry_names:
            return
        try:
            draft.allowed = allowed_from(matrix, self.never_checked)
        except InvalidCommand as error:
            findings.refused.append(str(error))

    def _apply_margins(
        self, draft: SceneDraft, message: PlanningScene, findings: SceneWarnings
    ) -> None:
        """Set padding and scale of the named links; others keep theirs."""
        given = [("padding", p.link_name, p.padding) for p in message.link_padding]
        given += [("scale", s.link_name, s.scale) for s in message.link_scale]
        for what, name, value in given:
            try:
                link = self._frames.link(name)
                margin = replace(draft.margins.get(link, LinkMargin()), **{what: float(value)})
                draft.set_margin(link, checked_margin(link, margin.padding, margin.scale))
            except MotionError as error:
                findings.refused.append(f"link_{what}: {error}")

    def _check_model(self, message: PlanningScene, findings: SceneWarnings) -> None:
        model = message.robot_model_name
        if model and model != self._robot.tree.name:
            findings.warnings.append(
                f"robot_model_name of the scene is '{model}'; this is '{self._robot.tree.name}'"
            )


def _apply_colour(draft: SceneDraft, message: ObjectColor, findings: SceneWarnings) -> None:
    colour = message.color
    rgba = (float(colour.r), float(colour.g), float(colour.b), float(colour.a))
    if all(0.0 <= value <= 1.0 for value in rgba):
        draft.colour(message.id, rgba)
    else:
        findings.warnings.append(
            f"the colour of '{message.id}' is {rgba}; its components must be from 0 to 1"
        )


def _apply(
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


def _but_octomap(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != OCTOMAP]


def _colours(scene: Scene, names: Iterable[str]) -> list[ObjectColor]:
    colours = []
    for name in names:
        item = scene.objects.get(name) or scene.attached.get(name)
        if name != OCTOMAP and item is not None and item.rgba is not None:
            colour = ObjectColor(id=name)
            c = colour.color
            c.r, c.g, c.b, c.a = map(float, item.rgba)
            colours.append(colour)
    return colours
