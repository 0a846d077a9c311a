# SPDX-License-Identifier: Apache-2.0
"""Every module can be imported; libraries and message packages are dependencies."""

import ast
import functools
import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from motion_nodes.ros.environment import MESSAGE_PACKAGES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "motion_nodes"
KEYS = {
    "numpy": "python3-numpy",
    "scipy": "python3-scipy",
    "yaml": "python3-yaml",
    "lxml": "python3-lxml",
    "typer": "python3-typer",
    "rich": "python3-rich",
    "serial": "python3-serial",
    "urdf_parser_py": "urdfdom_py",
    "transforms3d": "python3-transforms3d",
    "mujoco": None, "viser": None, "websockets": None, "trimesh": None, "numba": None,
    "llvmlite": None, "msgspec": None, "ruckig": None, "mcap": None,
}  # fmt: skip
"""rosdep key of each library where it is not its name; None: only PyPI has it."""
OPTIONAL = {
    "franky", "xarm", "mcp", "mcp_types", "onnxruntime", "torch", "gymnasium", "threadpoolctl",
    "cv2", "PIL", "lerobot", "anyio", "distributed", "pyarrow", "daqp",
}  # fmt: skip
"""Libraries of extras for some robots and for learning, imported on use."""
OF_ROS = {"launch", "launch_ros"}
OF_WHEELS = re.compile("rosidl_.*|ament_index_python|setuptools|em")
"""What compiles message packages beside the ROS wheels; a ROS installation has them."""


def libraries():
    """Return the libraries that the package and the launch files import."""
    found = set()
    for file in [*PACKAGE.rglob("*.py"), *ROOT.glob("launch/*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).split(".")[0])
    return found - set(sys.stdlib_module_names) - {"motion_nodes"}


def test_package_xml_and_readme_name_every_library_that_is_imported():
    needed = {name for name in libraries() if not OF_WHEELS.fullmatch(name)} - OPTIONAL
    keys = {KEYS.get(name, name) for name in needed} - {None}
    tree = ET.parse(ROOT / "package.xml").getroot()
    named = {each.text for each in tree.iter("exec_depend")}
    assert keys - named == set()
    unused = named - keys - {"xacro", "builtin_interfaces", "ros2launch"}
    assert unused == set(), "named, but not imported"
    (recipe,) = re.findall(r"pip install (.*)  # not in rosdep", (ROOT / "README.md").read_text())
    listed = {re.split("[<>=]", word.strip('"'))[0] for word in recipe.split()}
    assert listed == {name for name in needed if KEYS.get(name, name) is None}


def test_every_module_can_be_imported():
    modules = sorted(
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in PACKAGE.rglob("*.py")
        if file.name != "__main__.py" and "packages" not in file.parts
    )
    program = (
        "import importlib, json, sys\n"
        "failed = {}\n"
        "for name in json.loads(sys.argv[1]):\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except ImportError as error: failed[name] = error.name or str(error)\n"
        "print(json.dumps(failed))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, json.dumps(modules)],
                          capture_output=True, text=True, check=True)  # fmt: skip
    failed = json.loads(done.stdout.splitlines()[-1])
    absent = {name for name in OPTIONAL | OF_ROS if not present(name)}
    assert {name: why for name, why in failed.items() if why.split(".")[0] not in absent} == {}


def present(name):
    spec = importlib.util.find_spec(name)  # our folder launch/ is no library
    return spec is not None and spec.origin is not None


_IMPORT = re.compile(r"^ *from (?!rclpy)(\w+)\.(?:msg|srv|action) import", re.MULTILINE)


@functools.cache
def imported() -> set[str]:
    """Return the packages of messages, services and actions that modules import."""
    files = (ROOT / "motion_nodes").rglob("*.py")
    return {package for file in files for package in _IMPORT.findall(file.read_text("utf-8"))}


def test_the_doctor_checks_every_message_package():
    assert set(MESSAGE_PACKAGES) == imported()


def test_rosdep_installs_every_message_package():
    xml = ET.parse(ROOT / "package.xml").getroot()
    assert imported() <= {entry.text for entry in xml.findall("exec_depend")}
