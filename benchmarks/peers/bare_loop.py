# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_control_loop.py: ``python peers/bare_loop.py RATE`` compiles and runs bare_loop.c.

The libraries of rcl are those of rclpy, which loads them; Python waits for the loop to end.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rclpy.serialization import serialize_message  # loads the middleware
from sensor_msgs.msg import JointState

SOURCE = Path(__file__).with_suffix(".c")
LIBRARIES = "librcl.so", "librmw_fastrtps_cpp.so", "libsensor_msgs__rosidl_typesupport_c.so"


def main() -> None:
    """Compile, and run until a signal."""
    prefix = Path(sys.prefix)
    serialize_message(JointState())
    for library in LIBRARIES:
        ctypes.CDLL(str(prefix / "lib" / library), ctypes.RTLD_GLOBAL)
    code = Path(tempfile.mkdtemp(prefix="motion_nodes-bench-")) / "bare_loop.so"
    folders = [f"-I{folder}" for folder in (prefix / "include").iterdir()]
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", *folders, SOURCE, "-o", code], check=True)
    path = os.environ.get("BENCH_TICKS", "/dev/null").encode()
    ctypes.CDLL(str(code)).bare_loop(ctypes.c_double(float(sys.argv[1])), path)


if __name__ == "__main__":
    main()
