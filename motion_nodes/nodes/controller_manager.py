# SPDX-License-Identifier: Apache-2.0
"""Controller manager: lists and switches a robot's controllers, like that of ros2_control.

The controllers are nodes, started by the bring-up; this node reads their lifecycle states and
triggers their transitions, for clients such as rqt_joint_trajectory_controller and ``ros2
control``. Unsupported requests, such as loading a controller from a library, get a response with
ok = false, and the reason is logged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from controller_manager_msgs.msg import ControllerState, HardwareComponentState, HardwareInterface
from controller_manager_msgs.srv import (
    CleanupController,
    ConfigureController,
    ListControllers,
    ListControllerTypes,
    ListHardwareComponents,
    ListHardwareInterfaces,
    LoadController,
    ReloadControllerLibraries,
    SetHardwareComponentState,
    SwitchController,
    UnloadController,
)
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.parameter import Parameter, parameter_value_to_python

from motion_nodes.core.control.controller_switch import ACTIVE, INACTIVE, SwitchPlan, plan_switch
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig, MotionError, UnknownGroup, did_you_mean
from motion_nodes.nodes.articulation.stream_inputs import forward_topics
from motion_nodes.ros.clients.client_node import NoAnswer, RemoteCalls
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.names import (
    BASE_CONTROLLER_DOC,
    CONTROLLER_MANAGER,
    CONTROLLER_TYPES,
    IMPEDANCE_CONTROLLER,
    IMPEDANCE_GROUP,
    JOINT_CONTROLLER,
    STATE_BROADCASTER,
    base_controller,
)
from motion_nodes.ros.node import RobotNode, RobotParams
from motion_nodes.ros.parameters import param

INTERFACE_PARAMETERS = (
    "joints", "control_modes", "command_interface", "command_interfaces", "update_rate",
    "forward_commands",
)  # fmt: skip
"""Parameters of the joint controller that define its interfaces."""
INACTIVE_CONTROLLERS = "inactive_controllers"
"""Parameter of the joint controller that names which of those that it serves are inactive."""
MODES = {IMPEDANCE_CONTROLLER: JOINT_CONTROLLER}
"""Controllers that are modes of another one, which must be active when they are."""
HARDWARE_STATE = State(id=State.PRIMARY_STATE_ACTIVE, label=ACTIVE)
BASE_CLASS = "controller_interface::ControllerInterface"
UNCONFIGURED = "unconfigured"
MAX_TIMEOUT = 60.0
"""Max timeout of a request to a controller [s]."""
TRANSITIONS = {
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "configure": Transition.TRANSITION_CONFIGURE,
    "clean up": Transition.TRANSITION_CLEANUP,
}
STATE_AFTER = {
    "activate": ACTIVE, "deactivate": INACTIVE, "configure": INACTIVE, "clean up": UNCONFIGURED
}  # fmt: skip
"""State after a transition."""


def hardware_interface(name: str, *, claimed: bool) -> HardwareInterface:
    """Return the HardwareInterface message of an interface ``joint/kind``."""
    return HardwareInterface(name=name, data_type="double", is_available=True, is_claimed=claimed)


def controllers_of(robot: Robot, base: str = "") -> tuple[str, ...]:
    """Return the names of a robot's controllers, which the bring-up starts.

    Args:
        robot: the robot.
        base: name of the controller of its base; empty: that of its description.
    """
    names = []
    if robot.base is not None:
        names.append(base or base_controller(robot))
    if robot.arm_joints:
        names[:0] = [JOINT_CONTROLLER]
        if impedance_joints(robot):
            names.insert(1, IMPEDANCE_CONTROLLER)
    return tuple(names)


def impedance_joints(robot: Robot) -> tuple[str, ...]:
    """Return the joints of a robot under impedance control; none without such a group."""
    try:
        return robot.group(IMPEDANCE_GROUP).joints
    except UnknownGroup:
        return ()


def interfaces_of(
    name: str, robot: Robot, params: dict[str, Any]
) -> tuple[list[str], Iterable[str]]:
    """Return the interfaces of a controller.

    Args:
        name: of the controller.
        robot: of the controller.
        params: see :data:`INTERFACE_PARAMETERS`; empty if it is unconfigured.

    Returns:
        Required command interfaces, and the joints of its state interfaces.
    """
    if name == STATE_BROADCASTER:
        return [], robot.joint_names
    for topic in forward_topics(params.get("forward_commands") or (), params.get("joints") or ()):
        if topic.name == name:
            return [f"{j}/{kind}" for kind in topic.interfaces for j in topic.joints], topic.joints
    if name == IMPEDANCE_CONTROLLER:
        joints = impedance_joints(robot)
        return [f"{j}/effort" for j in joints], joints
    if name != JOINT_CONTROLLER:
        return [f"{j}/{robot.drive(j).mode}" for j in robot.base_joints], robot.base_joints
    joints, modes = params.get("joints") or (), params.get("control_modes") or ()
    given = params.get("command_interfaces")
    if given:
        return [f"{j}/{interface}" for interface in given for j in joints], joints
    if params.get("command_interface") in ("velocity", "effort"):
        modes = (params["command_interface"],)
    per_joint = list(modes) * len(joints) if len(modes) == 1 else modes
    return [f"{j}/{mode}" for j, mode in zip(joints, per_joint, strict=False)], joints


class ControllerNode:
    """A controller that is a lifecycle node."""

    def __init__(self, calls: RemoteCalls, node: str) -> None:
        self._calls, self._node = calls, node
        calls.connect(GetState, f"{node}/get_state")
        calls.connect(ChangeState, f"{node}/change_state")
        calls.connect(GetParameters, f"{node}/get_parameters")
        calls.connect(SetParameters, f"{node}/set_parameters")

    def there(self) -> bool:
        """Return whether the node runs."""
        return self._calls.there(f"{self._node}/get_state")

    async def state(self) -> str:
        """Return the lifecycle state.

        Raises:
            NoAnswer: the node does not respond.
        """
        response = await self._calls.call(f"{self._node}/get_state", GetState.Request())
        return str(response.current_state.label)

    async def parameters(self, names: Sequence[str]) -> dict[str, Any]:
        """Return parameters by name.

        Raises:
            NoAnswer: the node does not respond.
        """
        # Impedance control is a mode of the joint controller, at its rate.
        service = f"{MODES.get(self._node, self._node)}/get_parameters"
        response = await self._calls.call(service, GetParameters.Request(names=list(names)))
        return dict(zip(names, map(parameter_value_to_python, response.values), strict=False))

    async def set_inactive(self, names: Sequence[str], timeout: float | None) -> bool:
        """Set the parameter :data:`INACTIVE_CONTROLLERS`; return whether it was accepted.

        Raises:
            NoAnswer: the node does not respond within the timeout [s].
        """
        value = Parameter(INACTIVE_CONTROLLERS, Parameter.Type.STRING_ARRAY, list(names))
        request = SetParameters.Request(parameters=[value.to_parameter_msg()])
        response = await self._calls.call(f"{self._node}/set_parameters", request, timeout)
        return all(result.successful for result in response.results)

    async def change(self, verb: str, timeout: float | None) -> bool:
        """Trigger a transition; return whether it succeeded.

        Raises:
            NoAnswer: the node does not respond within the timeout [s].
        """
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[verb]))
        response = await self._calls.call(f"{self._node}/change_state", request, timeout)
        return bool(response.success)


class StateBroadcaster:
    """The broadcaster of joint states: no node, as the driver or simulation publishes always."""

    def __init__(self, state: str) -> None:
        self._state = state

    def there(self) -> bool:
        """Return True."""
        return True

    async def state(self) -> str:
        """Return the lifecycle state that was requested last."""
        return self._state

    async def parameters(self, names: Sequence[str]) -> dict[str, Any]:
        """Return nothing: it has no parameters."""
        return {}

    async def change(self, verb: str, timeout: float | None) -> bool:
        """Take the state after a transition."""
        self._state = STATE_AFTER[verb]
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ControllerManagerParams(RobotParams):
    """Parameters of the controller manager."""

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {
        "update_rate": "controllers have their own update_rate",
        "*.type": "the bring-up starts the controllers that it has, and names others",
        "*.params_file": "give the file to the bring-up",
        "hardware_components_initial_state.*": "a driver starts with the suite",
    }

    update_rate: float = param(
        1.0, doc="Update rate of the node's loop, which is idle.", unit="Hz", gt=0.0, le=10.0,
        read_only=True,
    )  # fmt: skip
    aliases: tuple[str, ...] = param(
        (),
        doc="Names under which controllers are listed and switched, each as NAME=NODE; a node "
        "that is none of the robot's own controllers needs its type, as NAME=NODE:TYPE.",
        read_only=True,
    )
    forward_controllers: tuple[str, ...] = param(
        (),
        doc="Controllers of the joint controller's parameter forward_commands, each as NAME:TYPE. "
        "They and its trajectories have the joints by turns, and the node stays active.",
        read_only=True,
    )
    controller_timeout: float = param(
        5.0, doc="Timeout of requests to a controller, and default timeout of switch_controller "
            "requests that give none.", unit="s", gt=0.0, le=MAX_TIMEOUT,
    )  # fmt: skip
    base_controller: str = param("", doc=BASE_CONTROLLER_DOC, read_only=True)


class ControllerManagerNode(RobotNode[ControllerManagerParams]):
    """Manages the controllers of one robot."""

    params_type = ControllerManagerParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__(CONTROLLER_MANAGER, ros_args=ros_args)

    def configure(self) -> None:
        """Create the services, and clients of the controllers."""
        own = controllers_of(self.robot, self.params.base_controller)
        self._nodes = {name: name for name in own}
        self._nodes[STATE_BROADCASTER] = STATE_BROADCASTER
        self._types = {name: CONTROLLER_TYPES[name] for name in self._nodes}
        for entry in self.params.aliases:
            self._add(entry)
        self._forward = dict[str, str]()
        for entry in self.params.forward_controllers:
            name, _, kind = entry.partition(":")
            if not name or not kind or name in self._nodes:
                raise InvalidConfig(
                    f"forward_controllers has '{entry}'; each entry is NAME:TYPE, with a name that "
                    "no other controller has",
                    field="forward_controllers",
                )
            self._forward[name] = kind
        self._nodes |= dict.fromkeys(self._forward, JOINT_CONTROLLER)
        self._types |= self._forward
        self.controllers = tuple(self._nodes)
        self._modes = {mode: self._shown(of) for mode, of in MODES.items()}
        self._calls = RemoteCalls(self, lambda: self.params.controller_timeout)
        broadcaster = StateBroadcaster(ACTIVE if self.autostart else UNCONFIGURED)
        self._by_name: dict[str, ControllerNode | StateBroadcaster] = {
            name: broadcaster if node == STATE_BROADCASTER else ControllerNode(self._calls, node)
            for name, node in self._nodes.items()
        }
        # Coroutines: in the default group they would delay lifecycle and parameter services.
        changes, reports = MutuallyExclusiveCallbackGroup(), ReentrantCallbackGroup()
        for kind, name, report in (
            (ListControllers, "list_controllers", self._on_list),
            (ListControllerTypes, "list_controller_types", self._on_list_types),
            (ListHardwareInterfaces, "list_hardware_interfaces", self._on_hardware_interfaces),
            (ListHardwareComponents, "list_hardware_components", self._on_hardware_components),
            (LoadController, "load_controller", self._on_load),
            (UnloadController, "unload_controller", self._on_unload),
            (ReloadControllerLibraries, "reload_controller_libraries", self._on_reload),
            (SetHardwareComponentState, "set_hardware_component_state", self._on_set_hardware),
        ):
            self.serve(kind, f"~/{name}", report, reports)
        self.serve(SwitchController, "~/switch_controller", self._on_switch, changes)
        self.serve(ConfigureController, "~/configure_controller", self._on_configure, changes)
        self.serve(CleanupController, "~/cleanup_controller", self._on_cleanup, changes)

    def _add(self, entry: str) -> None:
        """Add an entry of the parameter ``aliases``."""
        name, _, rest = entry.partition("=")
        node, _, kind = rest.partition(":")
        if not name or not node or (node not in CONTROLLER_TYPES and not kind):
            raise InvalidConfig(
                f"aliases has '{entry}'; each entry is NAME=NODE or NAME=NODE:TYPE", field="aliases"
            )
        if self._nodes.pop(node, None) is not None:
            kind = kind or self._types.pop(node)
        others = {n: v for n, v in self._nodes.items() if n != name}
        self._nodes = {name: node} | others
        self._types[name] = kind or CONTROLLER_TYPES[node]

    def _shown(self, node: str) -> str:
        """Return the name under which a node is listed."""
        return next((name for name, own in self._nodes.items() if own == node), node)

    def release(self) -> None:
        """Destroy the clients."""
        calls = getattr(self, "_calls", None)
        if calls is not None:
            calls.destroy()

    def tick(self, dt: float) -> None:
        """Do nothing."""

    def waiting_for(self) -> str:
        """Return the names of missing controllers."""
        missing = [name for name in self.controllers if not self._by_name[name].there()]
        return f"no node {', '.join(missing)}" if missing else ""

    def diagnose(self, report: Report) -> None:
        """Report the controllers, and missing ones."""
        missing = self.waiting_for()
        if missing:
            report.note("WARN", missing)
        report.value("controllers", ", ".join(self.controllers))

    # ---- services

    async def _on_list(self, _request: Any, response: Any) -> Any:
        """List the controllers whose nodes are running."""
        for name, state in (await self._states()).items():
            response.controller.append(await self._entry(name, state))
        return response

    def _on_list_types(self, _request: Any, response: Any) -> Any:
        """List the types of this robot's controllers; others cannot be loaded."""
        response.types = [self._types[name] for name in self.controllers]
        response.base_classes = [BASE_CLASS] * len(response.types)
        return response

    async def _on_hardware_interfaces(self, _request: Any, response: Any) -> Any:
        """List the interfaces of all controllers: those of joint_command and joint_states."""
        response.command_interfaces, response.state_interfaces, _ = await self._hardware()
        return response

    async def _on_hardware_components(self, _request: Any, response: Any) -> Any:
        """List the robot as one system, reached through joint_command and joint_states."""
        commands, states, rate = await self._hardware()
        response.component = [
            HardwareComponentState(
                name=self.robot.name,
                type="system",
                plugin_name="joint_command and joint_states (topics)",
                state=HARDWARE_STATE,
                rw_rate=rate,
                command_interfaces=commands,
                state_interfaces=states,
            )
        ]
        return response

    async def _on_switch(self, request: Any, response: Any) -> Any:
        """Deactivate and activate controllers."""
        strict = request.strictness == SwitchController.Request.STRICT
        timeout = seconds(request.timeout)
        # Requests are processed one by one, so each needs a timeout.
        limited = min(timeout, MAX_TIMEOUT) if timeout > 0.0 else None
        entries = {n: await self._entry(n, s) for n, s in (await self._states()).items()}
        states = {n: entry.state for n, entry in entries.items() if n == self._first(n)}
        claims = {n: self._claims(n, entries[n].required_command_interfaces) for n in states}
        try:
            plan = plan_switch(
                states,
                claims,
                [self._first(name) for name in request.deactivate_controllers],
                [self._first(name) for name in request.activate_controllers],
                strict=strict,
                modes=self._modes,
            )
        except MotionError as error:
            response.ok, response.message = False, str(error)
        else:
            response.ok, response.message = await self._execute(plan, limited, strict=strict)
        if response.ok:
            self.get_logger().info(f"switch: {response.message}")
        else:
            self.warn("switch", f"switch: {response.message}")
        return response

    async def _on_configure(self, request: Any, response: Any) -> Any:
        """Configure a controller; as in ros2_control, an inactive one is cleaned up before."""
        name = request.name
        if (await self._states()).get(name) == INACTIVE:
            if name in MODES or await self._waits(name):  # it is configured with its node
                response.ok = True
                return response
            if not await self._transition(name, INACTIVE, "clean up"):
                return response
        response.ok = await self._transition(name, UNCONFIGURED, "configure")
        return response

    async def _on_cleanup(self, request: Any, response: Any) -> Any:
        response.ok = await self._transition(request.name, INACTIVE, "clean up")
        return response

    def _on_load(self, request: Any, response: Any) -> Any:
        known = request.name in self.controllers
        running = known and self._by_name[request.name].there()
        text = "its node is running already" if running else "the bring-up starts controllers"
        hint = "" if known else did_you_mean(request.name, self.controllers)
        self.warn("load", f"controller '{request.name}' is not loaded: {text}.{hint}")
        response.ok = False
        return response

    def _on_unload(self, request: Any, response: Any) -> Any:
        self.warn(
            "unload",
            f"controller '{request.name}' is not unloaded: controllers are nodes; deactivate it, "
            "or stop its node",
        )
        response.ok = False
        return response

    def _on_reload(self, _request: Any, response: Any) -> Any:
        self.warn("reload", "no libraries are reloaded: controllers are nodes")
        response.ok = False
        return response

    def _on_set_hardware(self, request: Any, response: Any) -> Any:
        """Accept the present state only: drivers and simulations are nodes."""
        known, target = request.name == self.robot.name, request.target_state
        if known:
            response.state = HARDWARE_STATE
        response.ok = known and HARDWARE_STATE.id == target.id
        if not known:
            self.warn(
                "hardware",
                f"hardware component '{request.name}' does not exist."
                f"{did_you_mean(request.name, [self.robot.name])}",
            )
        elif not response.ok:
            self.warn(
                "hardware",
                f"hardware component '{request.name}' stays {ACTIVE}, not "
                f"{target.label or target.id}: its driver is a node; deactivate the controllers, "
                "or the driver by ros2 lifecycle",
            )
        return response

    # ---- inside

    def _first(self, name: str) -> str:
        """Return the first one of the names of a controller."""
        other = name in self._forward or name not in self._nodes
        return name if other else self._shown(self._nodes[name])

    def _claims(self, name: str, interfaces: Sequence[str]) -> tuple[str, ...]:
        """Return what a controller has while it is active.

        Controllers that one node serves have joints: only one of them may move a joint, whatever
        its interface is. Without trajectories in the user's file these have none.
        """
        named = any(f"={JOINT_CONTROLLER}" in entry for entry in self.params.aliases)
        if self._served(name) and (named or name in self._forward):
            return tuple(interface.partition("/")[0] for interface in interfaces)
        return tuple(interfaces)

    def _served(self, name: str) -> bool:
        """Return whether a controller is one of several that the joint controller serves."""
        return bool(self._forward) and self._nodes.get(name) == JOINT_CONTROLLER

    async def _waits(self, name: str) -> bool:
        """Return whether a controller is inactive in a node that is active."""
        try:
            return self._served(name) and await self._by_name[name].state() == ACTIVE
        except NoAnswer:
            return False

    async def _inactive(self, name: str) -> list[str]:
        """Return the inactive ones of the controllers that a controller's node serves."""
        found = await self._by_name[name].parameters([INACTIVE_CONTROLLERS])
        return list(found[INACTIVE_CONTROLLERS] or ())

    def _kind(self, name: str) -> str:
        """Return the suite's name of a controller; those of fingers are joint controllers."""
        if name in self._forward:
            return name
        own = self._nodes[name]
        known = controllers_of(self.robot, self.params.base_controller)
        return own if own in (*known, STATE_BROADCASTER) else JOINT_CONTROLLER

    async def _states(self) -> dict[str, str]:
        """Return the lifecycle state of each controller whose node responds."""
        states = {}
        inactive: list[str] | None = None  # of the joint controller's, asked for once
        for name in self.controllers:
            try:
                state = await self._by_name[name].state()
                if state == ACTIVE and self._served(name):
                    own = name if name in self._forward else JOINT_CONTROLLER
                    inactive = await self._inactive(name) if inactive is None else inactive
                    state = INACTIVE if own in inactive else ACTIVE
                states[name] = state
            except NoAnswer as error:
                self.warn(f"state of {name}", f"{name} is omitted: {error}")
        return states

    async def _hardware(self) -> tuple[list[HardwareInterface], list[HardwareInterface], int]:
        """Return command and state interfaces of running controllers, and the max rate [Hz]."""
        entries = [await self._entry(name, state) for name, state in (await self._states()).items()]
        claimed = {name for entry in entries for name in entry.claimed_interfaces}
        commands = sorted({name for e in entries for name in e.required_command_interfaces})
        states = sorted({name for e in entries for name in e.required_state_interfaces})
        return (
            [hardware_interface(name, claimed=name in claimed) for name in commands],
            [hardware_interface(name, claimed=False) for name in states],
            max((entry.update_rate for entry in entries), default=0),
        )

    async def _entry(self, name: str, state: str) -> ControllerState:
        """Return the ControllerState message of a controller."""
        params = {}
        if state in (ACTIVE, INACTIVE):
            params = await self._interface_params(name)
        interfaces, joints = interfaces_of(self._kind(name), self.robot, params)
        return ControllerState(
            name=name,
            state=state,
            type=self._types[name],
            update_rate=round(params.get("update_rate") or 0.0),
            required_command_interfaces=interfaces,
            claimed_interfaces=interfaces if state == ACTIVE else [],
            required_state_interfaces=[
                f"{joint}/{kind}" for kind in ("position", "velocity") for joint in joints
            ],
        )

    async def _interface_params(self, name: str) -> dict[str, Any]:
        """Return the parameters that define a controller's interfaces; empty without a response."""
        jointed = self._kind(name) in (JOINT_CONTROLLER, *self._forward)
        names = INTERFACE_PARAMETERS if jointed else ("update_rate",)
        try:
            return await self._by_name[name].parameters(names)
        except NoAnswer as error:
            self.warn(f"parameters of {name}", str(error))
            return {}

    async def _execute(
        self, plan: SwitchPlan, timeout: float | None, *, strict: bool
    ) -> tuple[bool, str]:
        """Execute a plan; return whether it succeeded, and a summary."""
        done: list[tuple[str, str]] = []
        failed: list[str] = []
        steps = [(name, "deactivate") for name in plan.deactivate]
        steps += [(name, "activate") for name in plan.activate]
        for name, verb in steps:
            if await self._change(name, verb, timeout):
                done.append((name, verb))
                continue
            failed.append(f"{name} did not {verb} (its log has the reason)")
            if strict:
                undone = [await self._undo(*step, timeout) for step in reversed(done)]
                return False, "; ".join([*failed, *undone])
        # Best effort fails if no step of a kind succeeded.
        succeeded = {verb for _, verb in done} == {verb for _, verb in steps}
        texts = [f"{verb}d {name}" for name, verb in done] + failed + list(plan.skipped)
        return succeeded, "; ".join(texts) or "no change was required"

    async def _undo(self, name: str, verb: str, timeout: float | None) -> str:
        """Undo a transition; return a summary."""
        back = "activate" if verb == "deactivate" else "deactivate"
        undone = await self._change(name, back, timeout)
        return f"{name} is {back}d again" if undone else f"{name} could not be {back}d again"

    async def _transition(self, name: str, state: str, verb: str) -> bool:
        """Trigger a transition of a controller in a state; log why it is not possible."""
        states = await self._states()
        if name not in states:
            problem = f"it does not exist.{did_you_mean(name, states)}"
        elif states[name] != state:
            problem = f"it is {states[name]}, not {state}"
        elif await self._change(name, verb):
            return True
        else:
            problem = "it failed; see its log"
        self.warn(verb, f"cannot {verb} controller '{name}': {problem}")
        return False

    async def _change(self, name: str, verb: str, timeout: float | None = None) -> bool:
        """Trigger a transition; return whether it succeeded."""
        try:
            if self._served(name) and verb in ("activate", "deactivate"):
                return await self._change_served(name, verb, timeout)
            return await self._by_name[name].change(verb, timeout)
        except NoAnswer as error:
            self.warn(verb, str(error))
            return False

    async def _change_served(self, name: str, verb: str, timeout: float | None) -> bool:
        """Activate or deactivate a controller in the node that serves it, which is active then.

        Raises:
            NoAnswer: the node does not respond within the timeout [s].
        """
        own, node = name if name in self._forward else JOINT_CONTROLLER, self._by_name[name]
        assert isinstance(node, ControllerNode)
        sleeps = await node.state() != ACTIVE
        # In a node that is not active none of them was.
        before = (JOINT_CONTROLLER, *self._forward) if sleeps else await self._inactive(name)
        inactive = [each for each in before if each != own]
        if verb == "deactivate":
            inactive.append(own)
        done = await node.set_inactive(inactive, timeout)
        return done and (not sleeps or await node.change(verb, timeout))
