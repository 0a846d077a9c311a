# SPDX-License-Identifier: Apache-2.0
"""Journey A: twists move two JetBots in MuJoCo, over DDS between processes."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from ros_client import RosClient
from ros_processes import SuiteProcess
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.nodes.demo.base import SquareDrive

pytestmark = pytest.mark.timeout(900)


class JetBot:
    """A client of one robot."""

    def __init__(self, client: RosClient, namespace: str) -> None:
        self.client = client
        self.node = f"/{namespace}/diff_drive_controller"
        self.odom = client.listen(Odometry, f"{self.node}/odom")
        self.truth = client.listen(Odometry, f"/{namespace}/ground_truth")
        self.states = client.listen(JointState, f"/{namespace}/joint_states")
        self.commands = client.listen(JointState, f"/{namespace}/joint_command")
        self.stamped = client.publisher(TwistStamped, f"{self.node}/cmd_vel")
        self.plain = client.publisher(Twist, f"{self.node}/cmd_vel_unstamped")

    def heard(self) -> bool:
        return bool(self.odom and self.truth and self.states and self.commands)

    def drive(self, vx: float, wz: float = 0.0, stamp: float = 0.0) -> None:
        message = TwistStamped()
        message.twist.linear.x, message.twist.angular.z = vx, wz
        seconds = math.floor(stamp)
        message.header.stamp.sec = seconds
        message.header.stamp.nanosec = int((stamp - seconds) * 1e9)
        self.stamped.publish(message)

    def drive_plain(self, vx: float, wz: float = 0.0) -> None:
        message = Twist()
        message.linear.x, message.angular.z = vx, wz
        self.plain.publish(message)

    @property
    def now(self) -> float:
        """Simulated time of the newest state [s]."""
        return time_of(self.states.newest)

    @property
    def speed(self) -> float:
        """Speed of the fastest wheel [rad/s]."""
        return max(map(abs, self.states.newest.velocity))

    def stands(self) -> bool:
        return self.speed < 0.2

    def told_to_stand(self) -> bool:
        return not any(self.commands.newest.velocity)

    def clear(self) -> None:
        for heard in (self.odom, self.truth, self.states, self.commands):
            heard.clear()

    def halt(self) -> None:
        """Bring it to rest."""
        self.client.wait(self.heard, "all topics")
        self.client.wait(self.stands, "the robot to stand")

    def comes_to_rest(self) -> None:
        """Wait until it stands with zero commands; clear the recorded ones."""
        self.halt()
        self.client.wait(lambda: self.commands and self.told_to_stand(), "the command to stand")
        self.commands.clear()

    def roll(self, vx: float = 0.2) -> None:
        """Bring it to a steady speed."""
        self.client.repeat(
            lambda: self.drive(vx),
            lambda: abs(pose_speed(self.truth.newest) - vx) < 0.02,
            f"{vx} m/s",
        )


def time_of(message: Any) -> float:
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


def pose_speed(message: Odometry) -> float:
    return message.twist.twist.linear.x


def pose(message: Odometry) -> tuple[float, float, float]:
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))


def moved(start: Odometry, end: Odometry) -> tuple[float, float]:
    """Return the displacement in the frame of the start [m]."""
    (x0, y0, yaw), (x1, y1, _) = pose(start), pose(end)
    dx, dy = x1 - x0, y1 - y0
    c, s = math.cos(yaw), math.sin(yaw)
    return c * dx + s * dy, c * dy - s * dx


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """Two JetBots, three metres apart, in one simulation."""
    robots = ("a:=jetbot@0,0,0", "b:=jetbot@0,3,0.5")
    processes = module_suite.bring_up(*robots, rate=100.0)
    a, b = JetBot(module_client, "a"), JetBot(module_client, "b")
    module_client.wait(lambda: a.heard() and b.heard(), "both robots")
    for robot in (a, b):
        module_client.wait_for_diagnosis(robot.node, "no command yet")

    def bring_back(which: str) -> None:
        """Restart a process that has ended, with the same command line."""
        processes[which] = module_suite.run(processes[which].command)

    return SimpleNamespace(a=a, b=b, client=module_client, processes=processes, again=bring_back)


@pytest.fixture
def a(cell):
    """The first robot, at rest."""
    cell.a.halt()
    return cell.a


def container(cell: SimpleNamespace) -> SuiteProcess:
    return cell.processes["container"]


@pytest.mark.long
def test_square_comes_back_to_where_the_odometry_says(cell):
    """Robot a is driven with TwistStamped, robot b with Twist, both at 20 Hz."""
    robots = ((cell.a, cell.a.drive), (cell.b, cell.b.drive_plain))
    runs = [
        SimpleNamespace(
            robot=robot,
            send=send,
            tour=SquareDrive(0.6, speed=0.5, turn_rate=3.0),
            odom=robot.odom.newest,
            truth=robot.truth.newest,
        )
        for robot, send in robots
    ]

    def send() -> None:
        for run in runs:
            twist = run.tour.step(*pose(run.robot.odom.newest))
            run.send(twist.vx, twist.wz)

    cell.client.repeat(send, lambda: all(r.tour.done for r in runs), "two squares", within=60.0)
    for run in runs:
        run.robot.halt()
        claimed = moved(run.odom, run.robot.odom.newest)
        true = moved(run.truth, run.robot.truth.newest)
        assert math.hypot(claimed[0] - true[0], claimed[1] - true[1]) < 0.05
        assert math.hypot(*true) < 0.15
        path = [moved(run.truth, m) for m in run.robot.truth.messages]
        assert max(x for x, _ in path) > 0.5
        assert max(y for _, y in path) > 0.5


def test_robots_do_not_hear_each_other(cell, a):
    cell.b.halt()
    cell.b.clear()
    cell.client.wait(
        lambda: cell.b.commands and not any(cell.b.commands.newest.velocity), "b told to stand"
    )
    cell.b.clear()
    before = cell.client.wait(lambda: cell.b.truth.newest, "ground truth of b")
    a.roll(0.2)
    after = cell.b.truth.newest
    assert math.hypot(*moved(before, after)) < 1e-3
    assert not any(any(m.velocity) for m in cell.b.commands.messages)


def test_stands_when_time_stands(cell, a):
    """With simulated time paused, no timeout in it could end a command."""
    a.roll(0.2)
    pause = SetBool.Request(data=True)
    assert cell.client.call(SetBool, "/mujoco_sim/pause", pause).success
    try:
        cell.client.repeat(lambda: a.drive(0.2), a.told_to_stand, "the wheels to be told to stop")
        cell.client.wait_for_diagnosis(a.node, "/clock does not advance", DiagnosticStatus.WARN)
        a.commands.clear()
        cell.client.repeat_for(lambda: a.drive(0.2), 0.3)
        assert not any(any(m.velocity) for m in a.commands.messages)
        container(cell).wait_for("command refused: /clock does not advance")
    finally:
        pause.data = False
        assert cell.client.call(SetBool, "/mujoco_sim/pause", pause).success
    a.commands.clear()
    a.halt()
    assert not any(any(m.velocity) for m in a.commands.messages)
    a.roll(0.2)


def test_reset_of_the_simulation(cell, a):
    a.roll(0.1)  # less than 0.1 m until the timeout, if the reset is late
    before = a.odom.newest
    a.clear()
    assert cell.client.call(Trigger, "/mujoco_sim/reset").success
    cell.client.wait(lambda: a.states and a.now < 5.0, "time to begin anew")
    a.halt()
    cell.client.wait(lambda: len(a.odom) > 5, "odometry")
    for message in a.odom.messages:
        assert all(map(math.isfinite, pose(message)))
        # The wheels jumped to zero, which must not move odometry.
        assert math.hypot(*moved(before, message)) < 0.1
    a.roll(0.2)
    a.halt()


@pytest.mark.long
def test_killed_controller(cell, a):
    """The robot's own watchdog stops the wheels when commands cease."""
    a.roll(0.3)
    container(cell).kill()
    a.states.clear()
    cell.client.wait(lambda: a.states and a.stands(), "the watchdog", within=5.0)
    cell.again("container")
    cell.client.wait(lambda: a.stamped.get_subscription_count() > 0, "the controller's return")
    a.commands.clear()
    cell.client.wait(lambda: a.commands, "commands")
    a.roll(0.2)


@pytest.mark.long
def test_killed_simulation(cell, a):
    a.roll(0.2)
    cell.processes["mujoco_sim"].kill()
    cell.client.wait_for_diagnosis(a.node, "wheels stopped", DiagnosticStatus.ERROR)
    cell.client.wait(a.told_to_stand, "zero speeds")
    cell.client.repeat(
        lambda: a.drive(0.2),
        lambda: "command refused: no joint_states" in container(cell).output,
        "the refusal",
    )
    assert a.told_to_stand()
    before = a.odom.newest
    a.clear()
    cell.again("mujoco_sim")
    cell.client.wait(a.heard, "the robot's return")
    assert not any(any(m.velocity) for m in a.commands.messages)
    assert math.hypot(*moved(before, a.odom.messages[0])) < 0.1
    a.roll(0.2)
    cell.client.repeat(
        lambda: a.drive(0.2),
        lambda: "driving" in cell.client.diagnostics(a.node).message,
        "the diagnosis 'driving'",
    )


def test_sigterm_stops_the_wheels(cell, a):
    """Even while commands arrive."""
    a.roll(0.3)
    process = container(cell)
    process.send(15)
    cell.client.repeat(lambda: a.drive(0.3), lambda: not process.running, "the end")
    assert process.exit_code() == 0
    cell.client.wait(a.stands, "the wheels to stand")
    cell.client.wait(a.told_to_stand, "zero speeds as the last command")
