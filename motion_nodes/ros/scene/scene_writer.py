# SPDX-License-Identifier: Apache-2.0
"""PlanningScene messages from scenes: complete ones and diffs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moveit_msgs.msg import (
    CollisionObject,
    LinkPadding,
    LinkScale,
    ObjectColor,
    PlanningScene,
    PlanningSceneComponents,
    RobotState,
)

from motion_nodes.model.robot import Robot
from motion_nodes.ros.messages.moveit_messages import fill_robot_state
from motion_nodes.ros.scene.allowed_collision_matrix import allowed_message
from motion_nodes.ros.scene.collision_objects import (
    attached_message,
    detached_message,
    moved_message,
    object_message,
    removed_message,
)
from motion_nodes.ros.scene.octomaps import fill_world
from motion_nodes.ros.scene.scene_frames import SceneFrames
from motion_nodes.scene.allowed_collisions import AllowedCollisions, Pair, pair_of
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.scene.scene import LinkMargin, Scene, SceneDiff
from motion_nodes.scene.voxels import OCTOMAP

Components = PlanningSceneComponents
EVERYTHING = 2**32 - 1


class SceneWriter:
    """Writes scene messages for one robot."""

    def __init__(self, robot: Robot, frames: SceneFrames, name: str = "") -> None:
        """Create the writer.

        Args:
            robot: the robot in the scene.
            frames: frames of scene messages.
            name: name of the scene; empty for the robot's name.
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
            diff: its differences, from :func:`motion_nodes.scene.scene.difference`.
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
