# SPDX-License-Identifier: Apache-2.0
"""Compiles and links the generated code of message packages.

The result is what a colcon build installs for use from Python: the ament index, share/<package>
with definitions, .idl and type descriptions, lib/ with the type supports, and the Python packages.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sysconfig
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from motion_nodes.interface_build.declarations import Package
from motion_nodes.interface_build.generation import (
    FAST,
    INTROSPECTION,
    LAYERS,
    Progress,
    Workplace,
    run,
)
from motion_nodes.interface_build.wheel import library_path

_RUNTIME = [
    "rosidl_typesupport_c",
    FAST,
    f"{FAST}pp",
    INTROSPECTION,
    "rosidl_runtime_c",
    "fastcdr",
    "rcutils",
]
# Measured on six packages, 2 cores: -O0 compiles in half the time of -O1 (22 against 45 s of
# processor) but serialises a controller's state four times slower (75 against 18 us); -O2 takes
# 65 s and gains nothing more.
OPTIMISATION = "-O1"


def _units(package: Package, layer: str, place: Workplace) -> list[Path]:
    """Return the files to compile: one that includes most others, as headers dominate the time."""
    output = place.work / layer / package.name
    alone = [*output.rglob("*__description.c"), *output.glob("*.ep.*")]  # their names clash
    sources = sorted({*output.rglob("*.c"), *output.rglob("*.cpp")} - {*alone})
    unit = output / f"unit{sources[0].suffix}"
    unit.write_text("".join(f'#include "{f}"\n' for f in sources))
    return [unit, *alone]


def compile_and_link(packages: list[Package], place: Workplace, progress: Progress) -> None:
    """Compile all packages side by side and link each one when it is complete.

    Args:
        packages: in build order, their code generated.
        place: folders and compilers; fills data/lib and platlib.
        progress: called with a line of progress.

    Raises:
        BuildError: the compiler or the linker failed.
    """
    numpy_include = importlib.import_module("numpy").get_include()
    folders = [place.work / layer for layer in LAYERS]
    folders += [*(place.prefix / "include").iterdir(), place.prefix / "include"]
    includes = [f"-I{d}" for d in (*folders, numpy_include, sysconfig.get_path("include"))]

    def compile_unit(source: Path) -> Path:
        compiler = [place.cxx, "-std=c++17"] if source.suffix == ".cpp" else [place.cc]
        target = source.with_name(source.name + ".o")
        run(*compiler, OPTIMISATION, "-fPIC", "-w", *includes, "-c", source, "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = {
            p.name: {
                layer: [pool.submit(compile_unit, u) for u in _units(p, layer, place)]
                for layer in LAYERS
            }
            for p in packages
        }
        try:
            for number, package in enumerate(packages, 1):
                progress(f"compiling {package.name} ({number} of {len(packages)})")
                of_package = tasks[package.name].items()
                objects = {layer: [t.result() for t in units] for layer, units in of_package}
                _link(package, objects, place)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _link(package: Package, objects: Mapping[str, list[Path]], place: Workplace) -> None:
    """Link the libraries and the extension module of a package; collect its Python files."""
    lib, python = place.data / "lib", place.platlib / package.name
    lib.mkdir(exist_ok=True)
    generated = place.work / "rosidl_generator_py" / package.name
    shutil.copytree(generated, python, ignore=shutil.ignore_patterns("*.c", "*.o"))
    (python / "__init__.py").touch()
    libraries = [f"-l{needed}__{layer}" for needed in sorted(package.needs) for layer in LAYERS]
    libraries += [f"-l{name}" for name in _RUNTIME]
    search = f"-rpath-link,{lib}:{place.prefix / 'lib'}"

    def shared(path: Path, inputs: list[Path], rpath: str) -> None:
        flags = f"-Wl,--as-needed,-soname,{path.name},-rpath,{rpath},{search}"
        folders = [f"-L{lib}", f"-L{place.prefix / 'lib'}"]
        run(place.cxx, "-shared", "-s", "-o", path, *inputs, *folders, flags, *libraries)

    *rest, module = objects["rosidl_generator_py"]  # the last unit is the extension module
    for layer in LAYERS:
        inputs = rest if layer == "rosidl_generator_py" else objects[layer]
        shared(lib / f"lib{package.name}__{layer}.so", inputs, "$ORIGIN")
        libraries.insert(0, f"-l{package.name}__{layer}")
    name = f"{package.name}_s__rosidl_typesupport_c{sysconfig.get_config_var('EXT_SUFFIX')}"
    shared(python / name, [module], f"$ORIGIN/{library_path(place.prefix)}")
