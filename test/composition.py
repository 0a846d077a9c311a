# SPDX-License-Identifier: Apache-2.0
"""composition_interfaces, which the ROS wheels do not have: compiled where it is not installed."""

import contextlib
import ctypes
import importlib
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from motion_nodes.interface_build.build import provide

SERVICES = {
    "LoadNode": "string package_name\nstring plugin_name\nstring node_name\nstring node_namespace\n"
    "uint8 log_level\nstring[] remap_rules\nrcl_interfaces/Parameter[] parameters\n"
    "rcl_interfaces/Parameter[] extra_arguments\n---\nbool success\nstring error_message\n"
    "string full_node_name\nuint64 unique_id\n",
    "UnloadNode": "uint64 unique_id\n---\nbool success\nstring error_message\n",
    "ListNodes": "---\nstring[] full_node_names\nuint64[] unique_ids\n",
}
PACKAGE = """<package format="3"><name>composition_interfaces</name><version>2.0.2</version>
<description>Services of containers.</description><license>Apache License 2.0</license>
<maintainer email="nobody@example.com">nobody</maintainer><depend>rcl_interfaces</depend></package>
"""


def composition_interfaces(folder: Path) -> tuple[Any, dict[str, str]]:
    """Return the services, and the environment variables with which other processes import them.

    After ROS is initialized, whose libraries those of the package need, and once in a process.

    Args:
        folder: an empty folder; its parts that other processes need remain.
    """
    with contextlib.suppress(ImportError):
        return importlib.import_module("composition_interfaces.srv"), {}
    declared = folder / "declared/composition_interfaces"
    (declared / "srv").mkdir(parents=True)
    (declared / "package.xml").write_text(PACKAGE)
    for name, text in SERVICES.items():
        (declared / f"srv/{name}.srv").write_text(text)
    built = provide(declared.parent, force=False, progress=lambda _text: None)
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(folder)
    (libraries,) = folder.glob("*.data/data/lib")
    for library in sorted(libraries.iterdir()):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    sys.path.append(str(folder))
    variables = {
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
        "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".strip(":"),
    }
    return importlib.import_module("composition_interfaces.srv"), variables
