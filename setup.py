# SPDX-License-Identifier: Apache-2.0
"""Package of the suite, for pip and for colcon (ament_python) alike.

pip puts the ``motion`` command in bin/; the node executables of scripts/ go to lib/motion_nodes,
where ``ros2 run`` and ``ros2 launch`` find them, and share/ holds what other ROS tools look for.
"""

import os
import platform
import re
from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "motion_nodes"
HERE = Path(__file__).resolve().parent  # colcon build --symlink-install links this file

version = re.search(r'__version__ = "(.+)"', (HERE / PACKAGE / "__init__.py").read_text("utf-8"))
assert version is not None


def requirements(kind: str) -> list[str]:
    """Return the lines of a requirements file."""
    lines = (HERE / "requirements" / f"{kind}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pypi_description() -> str:
    """Return the README without what only works beside the repository: its pictures and pages."""
    text = (HERE / "README.md").read_text("utf-8")
    text = re.sub(r"^!\[[^]]*\]\((?!https?:)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<!!)\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


NO_EXTRAS = ("run", "constraints", "bench", "docs", "noble")
EXTRAS = {
    file.stem: requirements(file.stem)
    for file in sorted((HERE / "requirements").glob("*.txt"))
    if file.stem not in NO_EXTRAS
}
# ROS 2 Jazzy as wheels, for a machine without ROS. Never install this beside an apt ROS.
EXTRAS["ros"] += [*EXTRAS["sim"], *EXTRAS["viewer"]]
# Compiled message packages, for which tools/release.py builds wheels; else the first use does.
if interfaces := os.environ.get("MOTION_NODES_INTERFACES"):
    machine = f"platform_machine == '{platform.machine()}' and python_version < '3.14'"
    EXTRAS["ros"].append(f"motion-nodes-interfaces=={interfaces}; {machine}")
EXTRAS["learn"] += [*EXTRAS["sim"], *EXTRAS["policy"]]

setup(
    name=PACKAGE,
    version=version[1],
    description="Joint control, wheeled bases, kinematics and simulation for ROS 2, in Python",
    long_description=pypi_description(),
    long_description_content_type="text/markdown",
    author="motion_nodes contributors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="ROS 2, robotics, motion planning, inverse kinematics, MoveIt, ros2_control, RMPflow",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)),
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=[f"{PACKAGE}*"]),
    package_data={
        PACKAGE: ["py.typed", "*.pyi", "ros/*.xml", "robots/*/*", "robots/*/meshes/*"],
        f"{PACKAGE}.interface_build": [
            "packages/*",
            "packages/*/package.xml",
            "packages/*/*/*.msg",
            "packages/*/*/*.srv",
            "packages/*/*/*.action",
        ],
    },
    zip_safe=False,
    # Why each is here, and what was passed over: docs/dependencies.md
    install_requires=requirements("run"),
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["motion = motion_nodes.cli.main:main"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/launch", glob("launch/*.launch.py")),
        (f"share/{PACKAGE}/config", glob("config/*.yaml")),
        (f"share/{PACKAGE}/config/example_arm", glob("config/example_arm/*")),
        (f"share/{PACKAGE}/config/rviz", glob("config/rviz/*.rviz")),
        (f"share/{PACKAGE}/config/foxglove", glob("config/foxglove/*.json")),
        *[
            (f"share/{PACKAGE}/robots/{Path(folder).name}", glob(f"{folder}*.*"))
            for folder in glob(f"{PACKAGE}/robots/*/")
        ],
        *[
            (f"share/{folder.rstrip('/')}", glob(f"{folder}*.*"))
            for folder in glob(f"{PACKAGE}/robots/*/meshes/")
        ],
        (f"lib/{PACKAGE}", glob("scripts/*")),
    ],
)
