# SPDX-License-Identifier: Apache-2.0
"""The URScript program that moves the arm from RTDE registers, at the period of its controller.

Registers, all in the range that is reserved for external clients:

    input  double  24 to 29   positions [rad]
    input  double  30 to 35   velocities [rad/s]
    input  double  36         time of the command on the sender's clock [s]
    input  int     24         counter; another value is a new command
    input  int     25         1: follow, else stop
    output int     24         counter of the last accepted command
    output int     25         why the program ended: 0 (it did not), 2 silence, 3 jump, 4 no command

The target of each period is the last command, extrapolated by its velocity from its stamp to now,
on a clock that is slowly aligned with the sender's: commands may arrive early or late. The
difference of a new command to the previous one decays, to avoid steps. After a timeout of the
commands, which is short while the arm moves, or a jump, the program brakes the arm and ends,
independently of the computer and the cable.

Source: Universal Robots, "The URScript Programming Language".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

JOINTS = 6
FIRST_REGISTER = 24
PATIENCE = 2.0
"""Timeout of the first command, and of commands at rest [s]."""
JUMP = 0.02
"""Max step of the commands beyond twice the velocity limits (norm) [rad]."""
BLENDING = 0.02
"""Time constant with which the difference to a previous command decays [s]."""
ALIGNMENT = 0.005
"""Fraction of the clock offset that is corrected per command."""
FOLLOW, STOP = 1, 0
ENDS = {
    2: "no command for longer than max_silence",
    3: "a command jumped",
    4: "no command arrived after the start",
}
"""Why the program ended, by the code in its output register."""

INPUTS = (
    *(f"input_double_register_{FIRST_REGISTER + i}" for i in range(2 * JOINTS + 1)),
    f"input_int_register_{FIRST_REGISTER}",
    f"input_int_register_{FIRST_REGISTER + 1}",
)
TAKEN = f"output_int_register_{FIRST_REGISTER}"
ENDED = f"output_int_register_{FIRST_REGISTER + 1}"


@dataclass(frozen=True, kw_only=True)
class ServoSettings:
    """Limits of the program, and arguments of ``servoj`` and ``stopj``."""

    lookahead_time: float
    """[s]"""
    gain: float
    deceleration: float
    """Deceleration after the last command [rad/s^2]."""
    max_silence: float
    """Time without commands after which the program brakes a moving arm and ends [s]."""
    max_velocity: Sequence[float]
    """Velocity limits of the joints [rad/s]."""


def servo_program(settings: ServoSettings) -> str:
    """Return the text of the program."""
    positions = _registers(FIRST_REGISTER, JOINTS)
    velocities = _registers(FIRST_REGISTER + JOINTS, JOINTS)
    stamp = _registers(FIRST_REGISTER + 2 * JOINTS, 1)
    aim = _each("q[{i}] + qd[{i}] * (clock - sent)")
    apart = _each("q[{i}] - previous[{i}]")
    added = _each("offset[{i}] + before[{i}] - aim[{i}]")
    target = _each("aim[{i}] + offset[{i}]")
    decayed = _each("offset[{i}] * decay")
    fastest = 2.0 * float(np.linalg.norm(settings.max_velocity))
    counter, mode = FIRST_REGISTER, FIRST_REGISTER + 1
    return f"""def motion_nodes():
  step = get_steptime()
  decay = 1.0 - step / {BLENDING}
  q = get_actual_joint_positions()
  qd = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
  offset = qd
  silent = 0.0
  patience = {PATIENCE}
  ended = 0
  following = True
  taken = read_input_integer_register({counter})
  write_output_integer_register({mode}, 0)
  write_output_integer_register({counter}, taken)
  while following and taken == read_input_integer_register({counter}):
    silent = silent + step
    if silent > {PATIENCE}:
      ended = 4
      following = False
    end
    sync()
  end
  silent = 0.0
  sent = {stamp}
  clock = sent
  while following:
    aim = [{aim}]
    if taken != read_input_integer_register({counter}):
      taken = read_input_integer_register({counter})
      before = aim
      previous = q
      since = sent
      q = [{positions}]
      qd = [{velocities}]
      sent = {stamp}
      clock = clock + {ALIGNMENT} * (sent - clock)
      patience = {PATIENCE}
      if norm(qd) > 0.0:
        patience = {settings.max_silence}
      end
      aim = [{aim}]
      offset = [{added}]
      if norm([{apart}]) > {fastest:.4f} * (sent - since + step) + {JUMP}:
        ended = 3
        following = False
      end
      silent = 0.0
    end
    if read_input_integer_register({mode}) != {FOLLOW}:
      following = False
    elif silent > patience:
      ended = 2
      following = False
    end
    if following:
      write_output_integer_register({counter}, taken)
      servoj([{target}], t=step, lookahead_time={settings.lookahead_time}, gain={settings.gain})
      offset = [{decayed}]
      clock = clock + step
      silent = silent + step
    end
  end
  write_output_integer_register({mode}, ended)
  stopj({settings.deceleration})
end
"""


def _each(form: str) -> str:
    return ", ".join(form.format(i=i) for i in range(JOINTS))


def _registers(first: int, count: int) -> str:
    return ", ".join(f"read_input_float_register({first + i})" for i in range(count))
