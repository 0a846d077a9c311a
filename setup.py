# SPDX-License-Identifier: Apache-2.0
"""Package of the suite, for pip and for colcon (ament_python) alike.

What both read the same stands in pyproject.toml; here is what only data_files can say: the files
that ROS tools look for in share/ and lib/. pip puts the ``motion`` command in bin/; the node
executables of scripts/ go to lib/motion_nodes, where ``ros2 run`` and ``ros2 launch`` find them.
"""

from glob import glob

from setuptools import setup

PACKAGE = "motion_nodes"

setup(
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/launch", glob("launch/*.launch.py")),
        (f"share/{PACKAGE}/config", glob("config/*.yaml")),
        *[
            (f"share/{PACKAGE}/{folder[len(PACKAGE) + 1 :]}".rstrip("/"), glob(f"{folder}*.*"))
            for folder in glob(f"{PACKAGE}/robots/*/")
        ],
        (f"lib/{PACKAGE}", glob("scripts/*")),
    ],
)
