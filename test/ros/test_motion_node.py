# SPDX-License-Identifier: Apache-2.0
"""The node base: lifecycle, parameters in the loop, crashes, and concurrent threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import wait_until
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros.probe import Probe, active, make, served
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Int64
from std_srvs.srv import Trigger

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.instance_lock import SecondInstance
from motion_nodes.ros.ros_time import Step

__all__ = ["make", "served"]


def test_a_life(make):
    node = make()
    assert node.state_label == "unconfigured"
    node.trigger_configure()
    assert node.state_label == "inactive"
    assert node.ticks == 0
    active(node)
    assert node.active
    node.trigger_deactivate()
    ticks = node.ticks
    time.sleep(0.05)
    assert node.ticks == ticks
    assert not node.active
    node.trigger_cleanup()
    assert node.happened() == ["configure", "activate", "halt", "release"]
    active(node)
    node.trigger_shutdown()
    assert node.state_label == "finalized"
    assert node.happened()[4:] == ["configure", "activate", "halt", "release"]


def test_one_instance(make):
    first = make()
    with pytest.raises(SecondInstance):
        Probe()
    make(name="other")
    first.destroy_node()
    make()


def test_wrong_autostart_is_one_clear_error_and_frees_the_name(make):
    with pytest.raises(InvalidConfig):
        Probe("autostart:=maybe")
    make()


@pytest.mark.parametrize("given", ["0.0", "-1.0", ".nan", ".inf", "1e9", "often"])
def test_a_period_of_reports_that_cannot_be_is_refused_by_name(make, given):
    with pytest.raises(InvalidConfig):
        Probe(f"diagnostic_updater.period:={given}")
    make()


def test_a_failed_configure_gives_everything_back(make):
    node = make()

    def refuse() -> None:
        raise InvalidConfig("no such thing")

    node.in_configure = refuse
    node.trigger_configure()
    assert node.state_label == "unconfigured"
    assert node.failure == "no such thing"
    assert node.happened() == ["configure", "release"]
    assert not node.has_parameter("gain")
    node.in_configure = lambda: None
    active(node)
    assert node.failure is None


def test_an_unforeseen_error_in_configure_is_told_with_its_place(make, capfd):
    node = make()
    node.in_configure = lambda: 1 / 0
    node.trigger_configure()
    assert node.state_label == "unconfigured"
    assert node.failure == "ZeroDivisionError: division by zero"
    assert "Traceback" in capfd.readouterr().err


def test_a_crash_in_the_loop_halts_and_is_reported(make, capfd):
    node = make()
    active(node)
    node.in_tick = lambda: 1 / 0
    wait_until(lambda: node.happened()[-1] == "halt", "the halt")
    assert not node.active
    assert "the loop stopped: ZeroDivisionError" in str(node.failure)
    assert "the loop stopped" in capfd.readouterr().err
    ticks = node.ticks
    time.sleep(0.05)
    assert node.ticks == ticks


def test_a_failure_in_a_repeated_cycle_leaves_none_to_the_next_loop(make, monkeypatch):
    node = make()
    cycles = node._repetition
    monkeypatch.setattr(cycles, "run", lambda: 1 / 0)
    active(node)
    cycles.armed = True
    wait_until(lambda: node.failure, "the failure")
    assert "the loop stopped: ZeroDivisionError" in str(node.failure)
    assert not cycles.armed


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(3), KeyboardInterrupt()])
def test_what_ends_a_process_still_does(make, error):
    node = make()
    crashed = threading.Event()
    node.on_crash = crashed.set
    active(node)

    def fail() -> None:
        raise error

    node.in_tick = fail
    assert crashed.wait(5.0)
    assert node.happened()[-1] == "halt"


def test_parameters_change_in_the_loop(make):
    from rclpy.parameter import Parameter

    node = active(make())
    assert node.set_parameters_atomically([Parameter("gain", value=2)]).successful
    assert node.gains == [2.0]
    assert node.calls[-1] == ("parameters", "probe")
    assert node.params.gain == 2.0


@pytest.mark.long
def test_parameters_that_a_blocked_loop_cannot_apply_are_applied_when_it_continues(make):
    """They were accepted, so clients rely on them."""
    from rclpy.parameter import Parameter

    node, blocked, released = active(make()), threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        released.wait(60.0)

    node.in_tick = block
    assert blocked.wait(60.0)
    assert node.set_parameters_atomically([Parameter("gain", value=5.0)]).successful
    assert node.gains == []
    released.set()
    wait_until(lambda: node.gains == [5.0], "the new gain in the loop")


def test_parameters_change_at_once_while_inactive(make):
    from rclpy.parameter import Parameter

    node = make()
    node.trigger_configure()
    assert node.set_parameters_atomically([Parameter("gain", value=3.0)]).successful
    assert node.gains == [3.0]
    assert node.calls[-1] == ("parameters", "MainThread")


def test_in_loop_runs_between_ticks_and_returns(make):
    node = active(make())
    assert node.in_loop(lambda: threading.current_thread().name) == "probe"
    with pytest.raises(ZeroDivisionError):
        node.in_loop(lambda: 1 / 0)
    assert node.active
    node.trigger_deactivate()
    assert node.in_loop(lambda: threading.current_thread().name) == "MainThread"


def test_a_job_that_was_given_up_is_not_done_later(make):
    node = active(make())
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait(5.0)

    node.in_tick = hang
    assert begun.wait(5.0)
    done = []
    with pytest.raises(TimeoutError):
        node.in_loop(lambda: done.append(1), timeout=0.1)
    go_on.set()
    ticks = node.ticks
    wait_until(lambda: node.ticks > ticks + 2, "ticks again")
    assert done == []


def test_inputs_are_not_newer_than_the_references_computed_from_them(make, monkeypatch):
    node = make()
    monkeypatch.setattr(node, "now_ns", lambda: 1_020_000_000)
    assert node.input_ns() == 1_020_000_000  # before the first cycle
    node.step = Step(0.99, 0.0, None, next_ns=1_000_000_000)
    assert node.input_ns() == 1_000_000_000  # /clock passed the deadline during the cycle
    node.step = Step(1.02, 0.0, None, next_ns=1_030_000_000)
    assert node.input_ns() == 1_020_000_000
    stamps = (1_000_000_000, 1_010_000_000)
    node.step = Step(1.02, 0.02, None, stamps, 1_000_000_000)
    assert node.input_ns() == 1_000_000_000


def test_what_came_while_inactive_is_dropped(make, client):
    node = make()
    node.trigger_configure()
    publisher = client.publisher(Int64, "/numbers")
    for i in range(3):
        publisher.publish(Int64(data=i))
    time.sleep(0.2)
    active(node)
    publisher.publish(Int64(data=7))
    wait_until(lambda: node.taken, "a message")
    assert node.taken == [7]


def test_stop_is_for_good(make):
    node = active(make())
    node.stop()
    assert node.happened()[-1] == "halt"
    node.trigger_deactivate()
    node.trigger_activate()
    assert not node.active
    assert node.failure == "the process is being stopped"
    assert node.happened().count("halt") == 1


def test_stop_while_transitions_run(make):
    """A signal may come at any moment of a transition; at most the current tick follows."""
    for i in range(15):
        node = make(name=f"probe_{i}")
        node.trigger_configure()
        begun = threading.Event()

        def toggle(node: Probe = node, begun: threading.Event = begun) -> None:
            for _ in range(3):
                begun.set()
                node.trigger_activate()
                node.trigger_deactivate() if node.state_label == "active" else None

        with ThreadPoolExecutor(1) as pool:
            toggling = pool.submit(toggle)
            begun.wait(5.0)
            time.sleep(0.001 * i)
            node.stop()
            assert not node.active
            ticks = node.ticks
            toggling.result(60.0)
        assert node.ticks <= ticks + 1
        assert not node.active
        ups = node.happened().count("activate")
        assert node.happened().count("halt") == ups


def test_a_tick_that_hangs_does_not_have_the_last_word(make, capfd):
    node = active(make())
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait(10.0)
        node.note("sent by the tick")

    node.in_tick = hang
    assert begun.wait(5.0)
    node.trigger_deactivate()
    assert "the loop did not stop within 2 s" in capfd.readouterr().err
    assert node.happened()[-1] == "halt"
    go_on.set()
    wait_until(lambda: node.happened()[-2:] == ["sent by the tick", "halt"], "the second halt")


def test_a_failing_halt_does_not_keep_the_process(make):
    node = active(make())
    node.in_halt = lambda: 1 / 0
    node.stop()
    assert not node.active


# ---- with an executor


def test_autostart(served):
    node = served()
    wait_until(lambda: node.ticks > 2, "ticks")
    assert [thread for _, thread in node.calls] == ["executor", "executor"]


def test_without_autostart_a_client_leads(served, client):
    node = served("autostart:=false")
    assert client.state("/probe") == "unconfigured"
    assert node.happened() == []
    assert client.change_state("/probe", "configure")
    assert client.state("/probe") == "inactive"
    assert client.change_state("/probe", "activate")
    wait_until(lambda: node.ticks > 2, "ticks")
    assert client.change_state("/probe", "deactivate")
    assert client.change_state("/probe", "cleanup")
    assert client.change_state("/probe", "unconfigured_shutdown")
    assert client.state("/probe") == "finalized"


@pytest.mark.parametrize("verb", ["activate", "cleanup", "configure"])
def test_a_transition_that_is_not_possible_is_refused(served, client, capfd, verb):
    node = served()
    wait_until(lambda: node.ticks > 2, "ticks")
    assert not client.change_state("/probe", verb)
    assert client.state("/probe") == "active"
    assert node.active
    assert "is not possible in state 'active'; possible: deactivate" in capfd.readouterr().err


def test_a_service_that_fails_answers_and_leaves_the_others_alive(served, client, capfd):
    node = served()
    wait_until(lambda: node.ticks > 2, "ticks")
    assert not client.call(Trigger, "/probe/fail").success
    assert "service ~/fail failed" in capfd.readouterr().err
    answer = client.call(Trigger, "/probe/ask")
    assert answer.success
    assert answer.message == "probe"
    assert client.state("/probe") == "active"


def test_a_callback_that_fails_does_not_end_the_executor(served, client, capfd):
    node = served()
    failed = threading.Event()

    def fail(_message: Int64) -> None:
        failed.set()
        raise ZeroDivisionError("on purpose")

    node.create_subscription(Int64, "trouble", fail, 10)
    client.publisher(Int64, "/trouble").publish(Int64())
    assert failed.wait(5.0)
    assert client.state("/probe") == "active"
    assert "a callback failed" in capfd.readouterr().err


def test_a_parameter_of_no_type_is_refused_in_words(served, client):
    node = served()
    wait_until(lambda: node.ticks > 2, "ticks")
    value = ParameterValue(type=77)
    request = SetParameters.Request(parameters=[ParameterMessage(name="gain", value=value)] * 2)
    answer = client.call(SetParameters, "/probe/set_parameters", request)
    assert [result.successful for result in answer.results] == [False, False]
    assert "type is 77; allowed is 0 to 9" in answer.results[0].reason


def test_a_clock_before_zero_is_no_time(make, client):
    node = active(make("use_sim_time:=true"))
    clock = client.publisher(Clock, "/clock")
    for seconds in (5, -7, -(2**31), 6):
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)
        ticks = node.ticks
        wait_until(lambda before=ticks: node.ticks > before + 20, "ticks")
        assert node.failure is None
    assert node.now() == 6.0


def test_nodes_of_a_process_share_a_reader_of_the_clock(make, client):
    first, second = active(make("use_sim_time:=true")), make("use_sim_time:=true", name="second")
    clock = client.publisher(Clock, "/clock")
    message = Clock()
    message.clock.sec = 8
    clock.publish(message)
    wait_until(lambda: first.now() == second.now() == 8.0, "the time of both")
    assert second.get_clock().now().nanoseconds == 8 * 10**9
    assert clock.get_subscription_count() == 1
    first.destroy_node()
    message.clock.sec = 9
    clock.publish(message)
    wait_until(lambda: second.now() == 9.0, "the time of the other node")
    second.set_parameters([Parameter("use_sim_time", value=False)])
    wait_until(lambda: clock.get_subscription_count() == 0, "the end of the subscription")
    assert second.now() > 1e9


def test_warnings_of_many_threads(make, capfd):
    node = make()
    stop = time.monotonic() + 0.3
    raised = []

    def warn(number: int) -> None:
        try:
            while time.monotonic() < stop:
                for letter in "abcdefghijklmnop":
                    node.warn(f"{number}{letter}", f"{letter} {number}")
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=warn, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised


def test_parameters_through_services(served, client):
    node = served()
    wait_until(lambda: node.ticks > 2, "ticks")
    assert client.set_parameters("/probe", gain=4).successful
    assert client.get_parameter("/probe", "gain") == 4.0
    refused = client.set_parameters("/probe", gain=44.0)
    assert not refused.successful
    assert "gain" in refused.reason
    read_only = client.set_parameters("/probe", gain=5.0, update_rate=10.0)
    assert not read_only.successful
    assert client.get_parameter("/probe", "gain") == 4.0
    assert node.gains == [4.0]
