# SPDX-License-Identifier: Apache-2.0
"""Bounds of messages of every type, checked on reception.

Subscriptions, services and actions of the suite's nodes check every message against its bounds
before any other code reads it. The check of a type is generated once, from its fields: magnitudes
of numbers, lengths of sequences and strings. NaN and infinity are left to the readers, since they
are valid in some messages. Large fields that are read as arrays (:data:`READ_ELSEWHERE`) are
checked there, by :meth:`motion_nodes.core.robot.bounds.Bound.check`, against the same bounds.

A request out of bounds is answered by a failure response of its type.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from typing import Any

from motion_nodes.core.robot import bounds
from motion_nodes.core.robot.bounds import Bound
from motion_nodes.errors import InvalidCommand

Check = Callable[[Any, str, Bound], None]
"""Checks a value, given its path in the message and the bound of lengths [m]."""
NUMBERS: dict[tuple[str, str], Bound] = {
    ("geometry_msgs/Quaternion", "*"): bounds.QUATERNION,
    ("geometry_msgs/Twist", "*"): bounds.VELOCITY,
    ("geometry_msgs/Accel", "*"): bounds.ACCELERATION,
    ("geometry_msgs/Wrench", "*"): bounds.EFFORT,
    ("shape_msgs/SolidPrimitive", "dimensions"): bounds.SIZE,
    ("shape_msgs/Plane", "coef"): bounds.COEFFICIENT,
    ("std_msgs/ColorRGBA", "*"): bounds.COLOUR,
    ("ackermann_msgs/AckermannDrive", "*"): bounds.VELOCITY,
    ("control_msgs/JointJog", "*"): bounds.VELOCITY,
    ("control_msgs/JointTolerance", "*"): bounds.TOLERANCE,
    ("control_msgs/JointComponentTolerance", "*"): bounds.TOLERANCE,
    ("control_msgs/GripperCommand", "position"): bounds.JOINT_POSITION,
    ("control_msgs/GripperCommand", "max_effort"): bounds.EFFORT,
    ("moveit_msgs/JointConstraint", "*"): bounds.JOINT_POSITION,
    ("moveit_msgs/OrientationConstraint", "*"): bounds.ANY,
    ("control_msgs/SetOdometry_Request", "*"): bounds.EARTH_LENGTH,
    ("std_msgs/Float64MultiArray", "data"): bounds.JOINT_POSITION,
    # Not used; unknown covariances are often given as large numbers.
    ("geometry_msgs/PoseWithCovariance", "covariance"): Bound(math.inf),
    ("geometry_msgs/TwistWithCovariance", "covariance"): Bound(math.inf),
}
"""(type, field) -> bound of its numbers; ``*`` is all fields, including nested messages."""
WHOLE = {("rcl_interfaces/ParameterValue", "type"): 9}
"""(type, field) -> max of an integer; rclpy raises on unknown types of parameters."""
COUNTS: dict[tuple[str, str], int] = {
    ("sensor_msgs/JointState", "*"): bounds.NAMES,
    ("trajectory_msgs/JointTrajectory", "joint_names"): bounds.NAMES,
    ("trajectory_msgs/JointTrajectory", "points"): bounds.POINTS,
    ("trajectory_msgs/MultiDOFJointTrajectory", "points"): bounds.POINTS,
    ("std_msgs/Float64MultiArray", "data"): bounds.NAMES,
    ("std_msgs/Int32MultiArray", "data"): bounds.NAMES,
    ("control_msgs/JointJog", "*"): bounds.NAMES,
    ("nav_msgs/Path", "poses"): bounds.POINTS,
    ("shape_msgs/Mesh", "*"): bounds.VERTICES,
    ("tf2_msgs/TFMessage", "transforms"): bounds.OBJECTS,
    ("moveit_msgs/PlanningSceneWorld", "collision_objects"): bounds.OBJECTS,
}
"""(type, field) -> max length; default :data:`motion_nodes.core.robot.bounds.ITEMS`."""
TEXTS = {
    "std_msgs/String": bounds.TEXT_LENGTH,
    "diagnostic_msgs/DiagnosticStatus": bounds.REPORT_LENGTH,
    "diagnostic_msgs/KeyValue": bounds.REPORT_LENGTH,
}
"""Type -> max characters; default :data:`motion_nodes.core.robot.bounds.NAME_LENGTH`."""
READ_ELSEWHERE = {
    ("sensor_msgs/JointState", "position"),
    ("sensor_msgs/JointState", "velocity"),
    ("sensor_msgs/JointState", "effort"),
    ("trajectory_msgs/JointTrajectory", "points"),
    ("sensor_msgs/LaserScan", "ranges"),
    ("sensor_msgs/LaserScan", "intensities"),
    ("shape_msgs/Mesh", "vertices"),
    ("shape_msgs/Mesh", "triangles"),
    # An invalid entry must not invalidate the other entries.
    ("tf2_msgs/TFMessage", "transforms"),
    ("moveit_msgs/PlanningSceneWorld", "collision_objects"),
    ("moveit_msgs/RobotState", "attached_collision_objects"),
}
"""Fields of which only the length is checked here; their readers check the values."""
EARTH = {
    "nav_msgs/Odometry",
    "nav_msgs/Path",
    "geometry_msgs/TransformStamped",
    "nav2_msgs/NavigateToPose_Goal",
    "nav2_msgs/FollowPath_Goal",
}
"""Types whose coordinates may be Earth-fixed."""
_LENGTHS = {"geometry_msgs/Point", "geometry_msgs/Point32", "geometry_msgs/Vector3"}
_FIELD = re.compile(r"^(?:sequence<(?P<item>.+?)(?:, \d+)?>|(?P<array>.+)\[\d+\]|(?P<one>.+))$")
_WHOLE = re.compile(r"^(u?int\d+|octet|byte|char|boolean|wstring.*)$")
_CHECKS: dict[tuple[type[Any], Bound | None], Check] = {}
CODES = ("INVALID_GOAL", "INVALID_GOAL_CONSTRAINTS", "UNKNOWN", "FAILURE")
"""Constants for a general failure, in types with an integer ``error_code``."""
UNKNOWN, INVALID_PATH = 100, 103
"""Codes of Nav2's FollowPath, which NavigateToPose passes on; its own type only has NONE."""
_TEXTS = ("message", "error_string", "error_msg", "reason", "error_message")


def check_bounds(message: Any, what: str = "", lengths: Bound | None = None) -> None:
    """Check that all numbers, sequences and strings of a message are within bounds.

    Args:
        message: a message of any type.
        what: its name, for errors.
        lengths: bound of coordinates [m]; None for that of the type.

    Raises:
        InvalidCommand: names the field, its value and the allowed range.
    """
    kind = type(message)
    name = _name(kind)
    if lengths is None:
        lengths = bounds.EARTH_LENGTH if name in EARTH else bounds.LENGTH
    _checker(kind, None)(message, what, lengths)


def fault_of(message: Any, lengths: Bound | None = None) -> str:
    """Return the error text of :func:`check_bounds`, empty if a message is within bounds."""
    try:
        check_bounds(message, lengths=lengths)
    except InvalidCommand as error:
        return str(error)
    return ""


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__.split('.')[0]}/{kind.__name__}"


def _checker(kind: type[Any], inherited: Bound | None) -> Check:
    """Return the cached check of a type; ``inherited`` is the bound of the enclosing field."""
    check = _CHECKS.get((kind, inherited))
    if check is None:
        check = _CHECKS[kind, inherited] = _new_checker(kind, inherited)
    return check


def _new_checker(kind: type[Any], inherited: Bound | None) -> Check:
    name = _name(kind)
    if name in ("builtin_interfaces/Time", "std_msgs/Header"):
        return _header if name.endswith("Header") else _nothing
    if name == "builtin_interfaces/Duration":
        return _nothing  # "forever" is often the largest one
    checks: list[tuple[str, Check]] = []
    for field, form in kind.get_fields_and_field_types().items():
        check = _field_check(name, field, form, inherited)
        if check is not None:
            checks.append((field, check))
    if not checks:
        return _nothing

    def check_fields(message: Any, path: str, lengths: Bound) -> None:
        prefix = f"{path}." if path else ""
        for field, check in checks:
            check(getattr(message, field), prefix + field, lengths)

    return check_fields


def _field_check(owner: str, field: str, form: str, inherited: Bound | None) -> Check | None:
    bound = NUMBERS.get((owner, field)) or NUMBERS.get((owner, "*")) or inherited
    match = _FIELD.match(form)
    assert match is not None
    many = match["item"] or match["array"]
    inner = many or match["one"]
    max_count = COUNTS.get((owner, field), COUNTS.get((owner, "*"), bounds.ITEMS))
    if (owner, field) in READ_ELSEWHERE:
        return _counted(None, max_count)
    if inner in ("double", "float"):
        if bound is None and owner not in _LENGTHS:
            bound = bounds.ANY
        return _numbers(bound, max_count) if many else _number(bound)
    if inner.startswith("string"):
        max_length = TEXTS.get(owner, bounds.NAME_LENGTH)
        names = min(max_count, bounds.OBJECTS)
        return _texts(max_length, names) if many else _text(max_length)
    if (owner, field) in WHOLE:
        return _number(Bound(WHOLE[owner, field], min=0.0))
    if _WHOLE.match(inner):
        return (
            _counted(None, max_count if inner not in ("octet", "byte", "uint8", "int8") else None)
            if many
            else None
        )
    check = _checker(_class(inner), bound)
    if check is _nothing:
        return _counted(None, max_count) if many else None
    return _counted(check, max_count) if many else check


def _class(name: str) -> type[Any]:
    package, _, kind = name.partition("/")
    module = importlib.import_module(f"{package}.msg")
    found: type[Any] = getattr(module, kind.rpartition("/")[2])
    return found


def _nothing(_value: Any, _path: str, _lengths: Bound) -> None:
    """Accept any value."""


def _header(header: Any, path: str, _lengths: Bound) -> None:
    _check_text(header.frame_id, f"{path}.frame_id", bounds.NAME_LENGTH)


def _number(bound: Bound | None) -> Check:
    if bound is None:
        return _length

    def check(value: float, path: str, _lengths: Bound) -> None:
        if not bound.allows(value):
            raise _beyond(path, value, bound)

    return check


def _length(value: float, path: str, lengths: Bound) -> None:
    if not -lengths.max <= value <= lengths.max and math.isfinite(value):
        raise _beyond(path, value, lengths)


def _numbers(bound: Bound | None, max_count: int) -> Check:
    def check(values: Any, path: str, lengths: Bound) -> None:
        bounds.check_count(len(values), max_count, path)
        (bound or lengths).check(values, path)

    return check


def _text(max_length: int) -> Check:
    return lambda value, path, _lengths: _check_text(value, path, max_length)


def _texts(max_length: int, max_count: int) -> Check:
    def check(values: Any, path: str, _lengths: Bound) -> None:
        bounds.check_count(len(values), max_count, path)
        for index, value in enumerate(values):
            if len(value) > max_length:
                _check_text(value, f"{path}[{index}]", max_length)

    return check


def _counted(item: Check | None, max_count: int | None) -> Check:
    def check(values: Any, path: str, lengths: Bound) -> None:
        if max_count is not None:
            bounds.check_count(len(values), max_count, path)
        if item is not None:
            for index, value in enumerate(values):
                item(value, f"{path}[{index}]", lengths)

    return check


def _check_text(value: str, path: str, max_length: int) -> None:
    if len(value) > max_length:
        raise InvalidCommand(
            f"{path} has {len(value)} characters ('{value[:40]}...'); allowed are {max_length}"
        )


def _beyond(path: str, value: float, bound: Bound) -> InvalidCommand:
    return InvalidCommand(f"{path} is {value:.6g}; allowed is {bound.text()}")


def fill_failure(response: Any, text: str, *, rejected: bool = False) -> Any:
    """Mark a response or result as a failure, in the fields that its type has.

    Args:
        response: response of a service, or result of an action.
        text: the reason.
        rejected: whether the request was invalid, as opposed to a fault of the node.

    Returns:
        The same response.
    """
    fields = response.get_fields_and_field_types()
    for name in ("success", "ok", "successful", "valid"):
        if fields.get(name) == "boolean":
            setattr(response, name, False)
    for name in _TEXTS:
        if fields.get(name, "").startswith("string"):
            setattr(response, name, text)
    code: Any = getattr(response, "error_code", None)
    if hasattr(code, "val"):
        code.val = code.INVALID_GOAL_CONSTRAINTS if rejected else code.FAILURE
        code.message = text
    elif isinstance(code, int):
        constant = next((c for c in CODES if hasattr(type(response), c)), None)
        if constant is not None:
            response.error_code = getattr(type(response), constant)
        elif hasattr(type(response), "NONE"):
            response.error_code = INVALID_PATH if rejected else UNKNOWN
    for name in ("motion_plan_response", "response", "result"):
        inner = getattr(response, name, None)
        if hasattr(inner, "get_fields_and_field_types"):
            fill_failure(inner, text, rejected=rejected)
    return response
