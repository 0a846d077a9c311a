# SPDX-License-Identifier: Apache-2.0
"""The nodes of a suite for a set of robots, with their names and parameters.

The single source for ``motion up`` and the launch files. Simulated arms with tasks get a few
objects within reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from motion_nodes.bringup.bringup_config import BringupConfig, HardwareOptions, prefixed
from motion_nodes.bringup.node_specs import NodeSpec
from motion_nodes.bringup.parameter_files import (
    KINDS,
    UserParameters,
    controllers_of,
    own_joints,
    read_parameter_files,
    sensor_settings,
    with_user_parameters,
)
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.robot.rmpflow_settings import RMPFLOW_FILE
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import CONTROLLERS
from motion_nodes.core.scene.scenery import floor_below
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.names import (
    BASE_NAVIGATOR,
    CONTROLLER_MANAGER,
    JOINT_CONTROLLER,
    OBJECT_DETECTOR,
    OCCUPANCY_MAPPER,
    PLANNER,
    POLICY_CONTROLLER,
    REACTIVE_POLICY,
    base_controller,
    under,
)
from motion_nodes.ros.parameter_words import Value

REACH_SHARE = 0.33
"""Distance of the objects from the base of the arm, as a share of its stretched length."""
LARGE_ARM = 0.8
"""Stretched length from which objects have their full size [m]."""
BASES_RATE = 100.0
"""[Hz] Rate of a simulation of wheeled bases alone, whose controllers run at 50 Hz."""
TASK_GROUPS = ("arm", "gripper")
"""Groups of a robot that executes tasks."""
BASE_EXECUTABLES = {
    "differential": "differential_base",
    "holonomic": "holonomic_base",
    "ackermann": "ackermann_base",
}


def table_objects(robot: Robot, floor_height: float) -> tuple[str, ...]:
    """Return the objects of a table scene, as ``motion up --object`` takes them.

    Two cubes, a can and a shelf stand before the arm, on the floor if it is at the height of the
    root link, else on a table.

    Args:
        robot: an arm with fingers, fixed, at the origin of the world.
        floor_height: height of the floor in the world [m].
    """
    group = robot.groups["arm"]
    length = _stretched(robot, group.joints, group.tip)
    scale = 1.0 if length >= LARGE_ARM else max(0.5, length / LARGE_ARM)
    d, edge = REACH_SHARE * length, round(0.04 * scale, 3)
    can, shelf = (round(0.025 * scale, 3), round(0.1 * scale, 3)), round(0.2 * scale, 3)
    words = [
        _word("red_cube", "box", (edge,) * 3, 0.1, (d, 0.33 * d), edge),
        _word("blue_cube", "box", (edge,) * 3, 0.1, (1.1 * d, 0.05 * d), edge),
        _word("can", "cylinder", can, 0.1, (0.85 * d, 0.6 * d), can[1]),
        _word("shelf", "box", (shelf, shelf, 0.5 * shelf), 20.0, (1.1 * d, -0.5 * d), 0.5 * shelf),
    ]
    if floor_height < 0.0:
        # Its top is at the height of the root link, beyond the mount of the arm.
        depth, width = 0.9 * d, 1.9 * d
        center = (1.05 * d, 0.05 * d)
        table = _word("table", "box", (depth, width, -floor_height), 200.0, center, floor_height)
        words.insert(0, table)
    return tuple(words)


def _word(
    name: str,
    shape: str,
    size: tuple[float, ...],
    mass: float,
    at: tuple[float, float],
    height: float,
) -> str:
    sizes = ",".join(f"{x:.4g}" for x in size)
    return f"{name}:={shape}:{sizes}:{mass:g}@{at[0]:.3f},{at[1]:.3f},{0.5 * height:.4f}"


def _stretched(robot: Robot, joints: tuple[str, ...], tip: str | None) -> float:
    """Return the sum of the distances between the joints of an arm, up to its tip [m]."""
    tree, length = robot.tree, 0.0
    link = tip or tree.joints[joints[-1]].child
    parents = {joint.child: joint for joint in tree.joints.values()}
    while link in parents:
        joint = parents[link]
        length += math.sqrt(float((joint.X_PJ[:3, 3] ** 2).sum()))
        if joint.name == joints[0]:
            break
        link = joint.parent
    return length


def nodes_for(config: BringupConfig) -> list[NodeSpec]:
    """Return the nodes of the suite, see :func:`suite_of`."""
    return suite_of(config)[0]


def suite_of(config: BringupConfig) -> tuple[list[NodeSpec], list[str]]:
    """Return the nodes of the suite, the simulation first, and notes on parameter files.

    Raises:
        RobotNotFound: an unknown robot.
        InvalidDescription: an unusable description, or a parameter file that is not YAML.
        InvalidConfig: object detection without a camera, or an unusable parameter file.
    """
    if config.detect and not config.cameras:
        raise InvalidConfig("detect needs a camera; add one (camera, cameras)", field="detect")
    placements = config.within_namespace
    robots = [load_description(place.robot) for place in placements]
    user = read_parameter_files(config.params_files)
    floor_height = config.floor_height or 0.0
    if config.floor_height is None and all(robot.kind == "arm" for robot in robots):
        floor_height = floor_below(robots)  # those with wheels or legs stand at 0
    words = [place.word for place in placements]
    specs: list[NodeSpec] = []
    if config.simulated:
        executable = f"{config.backend}_sim"
        cell: dict[str, Value] = {"robots": words, **config.control_settings}
        if config.control_rate is None and not any(robot.arm_joints for robot in robots):
            cell["update_rate"] = BASES_RATE
        if config.backend == "mujoco":
            cell["floor_height"] = floor_height
            cell["scene_bodies"] = config.scene_bodies
            objects = config.objects or _example_objects(config, placements, robots, floor_height)
            cell |= {"objects": objects} if objects else {}
            cell |= (
                {"surface_grippers": _suction_links(placements, robots)} if config.suction else {}
            )
            if config.cameras:
                cell["cameras"] = [prefixed(config.namespace, word) for word in config.cameras]
        specs.append(_spec(config, executable, executable, "", cell))
    for place, robot in zip(placements, robots, strict=True):
        own = robot.description.hardware
        if config.backend == "hardware" and (config.hardware.driver or (own and own.driver)):
            settings: dict[str, Value] = {"robot": place.robot, **config.hardware.parameters()}
            specs.append(_spec(config, "robot_driver", "robot_driver", place.namespace, settings))
        elif config.hardware != HardwareOptions():
            raise InvalidConfig(
                f"device, calibration, dry_run and speed are those of a driver, and robot "
                f"'{robot.name}' has none (hardware.driver of robot.yaml); name one as --backend",
                field="driver",
            )
        specs += _robot_nodes(config, place, robot, floor_height, user)
    if config.viewer == "browser":
        settings = {
            "robots": words,
            "port": config.viewer_port,
            "host": config.viewer_host,
        }
        walking = [
            place.namespace or robot.name
            for place, robot in zip(placements, robots, strict=True)
            if config.policy_of(place.namespace)
        ]
        if config.simulated:
            settings["simulation"] = f"/{config.backend}_sim"
        # An empty list has no parameter type in ROS.
        if walking:
            settings["policies"] = walking
        named = [
            f"{place.namespace}={name}"
            for place, robot in zip(placements, robots, strict=True)
            if robot.base is not None
            and (name := _controller_of_file(user, place.namespace, robot))
        ]
        if named:
            settings["base_controllers"] = named
        specs.append(_spec(config, "browser_viewer", "browser_viewer", "", settings))
    if not config.params_files:
        return specs, []
    spaces = [place.namespace for place in placements]
    return with_user_parameters(specs, user, dict(zip(spaces, robots, strict=True)))


def _example_objects(
    config: BringupConfig,
    placements: Sequence[Placement],
    robots: Sequence[Robot],
    floor_height: float,
) -> tuple[str, ...]:
    """Return objects for the tasks of a single fixed arm at the origin; none for other cells."""
    if not config.tasks or config.empty or len(robots) != 1:
        return ()
    (place,), (robot,) = placements, robots
    if robot.kind != "arm" or not robot.groups.keys() >= set(TASK_GROUPS):
        return ()
    if config.scene_bodies or (place.x, place.y, place.yaw) != (0.0, 0.0, 0.0):
        return ()
    return table_objects(robot, floor_height)


def omissions(config: BringupConfig) -> list[str]:
    """Return which nodes of robots with joints are not started, and why, a text for each robot."""
    found = []
    for place in config.within_namespace:
        robot, why = load_description(place.robot), list[str]()
        policy = config.policy_of(place.namespace)
        if not policy and robot.arm_joints:
            if not any(group.tip is not None for group in robot.groups.values()):
                why.append(f"ik_service and {PLANNER}: no group of robot.yaml has a base and a tip")
            if not (robot.directory / RMPFLOW_FILE).is_file():
                why.append(f"{REACTIVE_POLICY}: there is no {RMPFLOW_FILE}")
        lacking = [group for group in TASK_GROUPS if group not in robot.groups]
        if config.tasks and policy:
            why.append(f"task_server: it is moved by the policy {policy}")
        elif config.tasks and lacking:
            why.append(f"task_server: robot.yaml has no group {' and no group '.join(lacking)}")
        if why:
            found.append(f"{place.namespace or robot.name} has no {', no '.join(why)}")
    return found


def _suction_links(placements: Sequence[Placement], robots: Sequence[Robot]) -> tuple[str, ...]:
    """Return the tool of each arm, as [NAMESPACE/]LINK."""
    links = [
        under(place.namespace, robot.tool_frame)
        for place, robot in zip(placements, robots, strict=True)
        if robot.tool_frame is not None
    ]
    if not links:
        raise InvalidConfig("suction needs a robot with a tool frame (frames.tool in robot.yaml)")
    return tuple(links)


def _robot_nodes(
    config: BringupConfig, place: Placement, robot: Robot, floor_height: float, user: UserParameters
) -> list[NodeSpec]:
    settings: dict[str, Value] = {"robot": place.robot}
    framed = settings | {"tf_frame_prefix": "~" if place.namespace else ""}
    specs = [_spec(config, "robot_state", "robot_state", place.namespace, framed)]
    policy = config.policy_of(place.namespace)
    if policy:
        played = settings | {
            "policy": policy,
            "stamped_cmd_vel": config.stamped_cmd_vel,
            "odometry_topic": "ground_truth" if config.simulated else "odom",
        }
        return [
            *specs,
            _spec(config, POLICY_CONTROLLER, POLICY_CONTROLLER, place.namespace, played),
        ]
    if robot.arm_joints:
        # Drives of real arms compensate gravity; plain PD drives do not.
        physics = config.backend == "mujoco"
        led = framed | {
            **config.control_settings,
            "feed_forward": physics,
            "contact_detection": physics,
            "impedance.gravity_compensation": physics,
            "effort_commands": config.backend != "mock",
        }
        specs.append(
            _spec(config, "articulation_controller", JOINT_CONTROLLER, place.namespace, led)
        )
    if any(group.tip is not None for group in robot.groups.values()):
        specs.append(_spec(config, "ik_service", "ik_service", place.namespace, framed))
    if robot.arm_joints and (robot.directory / RMPFLOW_FILE).is_file():
        planner = any(group.tip is not None for group in robot.groups.values())
        reactive = framed | {"escape": "plan" if planner else "posture"}
        specs.append(_spec(config, "rmpflow_policy", REACTIVE_POLICY, place.namespace, reactive))
    if robot.arm_joints:
        specs.append(
            _spec(config, "trajectory_generator", "trajectory_generator", place.namespace, framed)
        )
    if robot.base is not None:
        driven = framed | {"stamped_cmd_vel": config.stamped_cmd_vel}
        named = _controller_of_file(user, place.namespace, robot)
        executable, name = BASE_EXECUTABLES[robot.kind], named or base_controller(robot)
        specs.append(_spec(config, executable, name, place.namespace, driven))
        settings |= {"base_controller": named} if named else {}
        # Tasks reverse from the place where the base stands.
        driving = dict(settings)
        if config.tasks and robot.groups.keys() >= set(TASK_GROUPS):
            driving["allow_reversing"] = True
        specs.append(_spec(config, "base_navigator", BASE_NAVIGATOR, place.namespace, driving))
    specs.append(_spec(config, "controller_manager", CONTROLLER_MANAGER, place.namespace, settings))
    if config.tasks and robot.groups.keys() >= set(TASK_GROUPS):
        tasks = framed | {"check_grasp": config.backend != "mock"}
        if config.detect and _depth_topics(config, place):
            # In the base frame of the robot, or in odom.
            tasks["detector"] = f"{OBJECT_DETECTOR}/objects"
        else:
            tasks["detector"] = "/mujoco_sim/objects" if config.backend == "mujoco" else ""
            tasks["placement"] = (place.x, place.y, place.yaw)
        specs.append(_spec(config, "task_server", "task_server", place.namespace, tasks))
    if any(group.tip is not None for group in robot.groups.values()):
        # Last, because it takes longest to configure.
        around = framed | {
            # The height of a floating base above the floor is unknown to planners.
            "floor": config.has_floor and robot.kind != "floating",
            "floor_height": floor_height,
            "cell": [each.word for each in config.within_namespace],
        }
        specs.append(_spec(config, "rrt_planner", PLANNER, place.namespace, around))
        images = _depth_topics(config, place)
        if images and config.detect:
            seen = framed | {"depth_images": images}
            if config.backend == "mujoco":
                seen["color_images"] = [
                    topic.replace("depth/image_rect_raw", "color/image_raw") for topic in images
                ]
            if robot.base is not None:
                odom = robot.description.frames.odom
                seen["detection_frame"] = under(place.namespace, odom)
            specs.append(_spec(config, "object_detector", OBJECT_DETECTOR, place.namespace, seen))
        elif sensed := sensor_settings(user, images):
            seen = framed | sensed
            specs.append(_spec(config, "occupancy_mapper", OCCUPANCY_MAPPER, place.namespace, seen))
    return specs


def _controller_of_file(user: UserParameters, namespace: str, robot: Robot) -> str:
    """Return the controller of a base that the parameter file configures, if not the usual one.

    A file written for another controller of ros2_controllers, such as omni_wheel_drive_controller,
    has a section of that name, which ROS gives to a node of that name only; or of another name,
    such as base_controller, with that controller's type and names of parameters.
    """
    names, found = CONTROLLERS[robot.kind], dict[str, Mapping[str, Any]]()
    for name, (given, values) in controllers_of(user, namespace).items():
        found.setdefault(KINDS.get(given, name), values)
    if base_controller(robot) in found:
        return ""
    # That of wheels which this robot does not have belongs to another one.
    return next((n for n in names if n in found and not own_joints(found[n], robot)[1]), "")


def _depth_topics(config: BringupConfig, place: Placement) -> list[str]:
    """Return the depth images of a robot's cameras, relative to its namespace."""
    found = []
    for word in config.cameras:
        space, _, name = prefixed(config.namespace, word).partition(":=")[0].rpartition("/")
        if place.namespace == space:
            found.append(f"{name}/depth/image_rect_raw")
    return found


def _spec(
    config: BringupConfig, executable: str, name: str, namespace: str, settings: Mapping[str, Value]
) -> NodeSpec:
    common: dict[str, Value] = {"autostart": config.autostart}
    # The simulation is the source of simulated time.
    common["use_sim_time"] = config.sim_time and not executable.endswith("_sim")
    return NodeSpec(executable, name, namespace, {**common, **settings}, log_level=config.log_level)
