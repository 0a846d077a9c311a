# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of some message packages, or finds it in the user's cache, and installs it.

The generated code of the packages is compiled and linked. The result is what a colcon build
installs for use from Python: the ament index, share/<package> with definitions, .idl and type
descriptions, lib/ with the type supports, and the Python packages.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from motion_nodes.interface_build import declarations, wheel
from motion_nodes.interface_build.declarations import (
    BuildError,
    Package,
    declared_files,
    package_names,
    read_packages,
)
from motion_nodes.interface_build.generation import (
    FAST,
    INTROSPECTION,
    LAYERS,
    Progress,
    Workplace,
    generate,
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
_OPTIMIZED = re.compile(r"/(rosidl_generator_py|rosidl_typesupport_fastrtps_c)/\w+/msg/")
"""Code that runs once per field: -O1 takes twice as long to compile and is four times faster.
Services and actions consist of messages; other code runs once per message or process."""
_STATIC = re.compile(r"^static (?:const )?\w+ (\w+)(?=\[| =)", re.MULTILINE)
PACKAGES = Path(__file__).resolve().parent / "packages"
"""Declarations of the suite's own packages."""
TOOLS = sorted(Path(__file__).resolve().parent.glob("*.py"))


def _own_names(description: Path, number: int) -> str:
    """Return the text of a type description, its static names made unique within the library.

    Each description repeats those of all types that it contains.
    """
    text = description.read_text()
    renamed = dict.fromkeys(_STATIC.findall(text))
    return re.sub(r"\w+", lambda m: f"{m[0]}__{number}" if m[0] in renamed else m[0], text)


def _units(package: Package, layer: str, place: Workplace) -> list[tuple[Path, str]]:
    """Return the files to compile with their optimization, by which they are merged.

    Headers and type descriptions dominate the time of single files. Of templates that are
    instantiated in several, the linker takes the first: optimized code comes first.
    """
    output = place.work / layer / package.name
    module = [*output.glob("*.ep.*")]
    sources = sorted({*output.rglob("*.c"), *output.rglob("*.cpp")} - {*module})
    merged: dict[str, list[str]] = {"-O1": [], "-O0": []}
    for number, path in enumerate(sources):
        described = path.name.endswith("__description.c")
        text = _own_names(path, number) if described else f'#include "{path}"\n'
        merged["-O1" if _OPTIMIZED.search(str(path)) else "-O0"].append(text)
    units = []
    for level, texts in merged.items():
        if texts:
            unit = output / f"unit{level}{sources[0].suffix}"
            unit.write_text("".join(texts))
            units.append((unit, level))
    return [*units, *((path, "-O0") for path in module)]


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

    def compile_unit(source: Path, level: str) -> Path:
        compiler = [place.cxx, "-std=c++17"] if source.suffix == ".cpp" else [place.cc]
        target = source.with_name(source.name + ".o")
        run(*compiler, level, "-fPIC", "-w", *includes, "-c", source, "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = {
            p.name: {
                layer: [pool.submit(compile_unit, *u) for u in _units(p, layer, place)]
                for layer in LAYERS
            }
            for p in sorted(packages, key=lambda p: -len(p.files))
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


def build(source: Path, version: str, target: Path, progress: Progress) -> Path:
    """Build the packages below source into a wheel, and return its path.

    Args:
        source: folder of the declarations.
        version: of the wheel.
        target: path of the wheel, which appears whole or not at all; a folder: the wheel may be
            published, and is named by the machines on which it runs.
        progress: called with a line of progress.

    Raises:
        BuildError: names what is missing or invalid.
    """
    cc, cxx = declarations.compilers(os.environ)
    declarations.check_python_headers()
    prefix = Path(sys.prefix)
    progress(f"reading {source}")
    packages = read_packages(source, prefix / "share")
    with tempfile.TemporaryDirectory(prefix="motion_nodes_interfaces_") as folder:
        work, data, platlib = (Path(folder) / name for name in ("work", "data", "platlib"))
        for path in (work, data, platlib):
            path.mkdir()
        place = Workplace(work, data, platlib, prefix, cc, cxx)
        generate(packages, place, progress)
        compile_and_link(packages, place, progress)
        progress("packing the wheel")
        needed = []
        if target.is_dir():
            name = wheel.release_name(wheel.distribution_name(source), version, Path(folder))
            target, needed = target / name, wheel.requirements()
        wheel.pack(data, platlib, version, target, needed)
    return target


def release(source: Path, folder: Path, progress: Progress) -> Path:
    """Build the wheel of the declarations for publication, and return its path.

    Args:
        source: folder of the declarations.
        folder: of the wheel; created if missing.
        progress: called with a line of progress.

    Raises:
        BuildError: it cannot be built; contains the reason.
    """
    declarations.check_no_sourced_ros(os.environ, package_names(source))
    declarations.check_wheels()
    folder.mkdir(parents=True, exist_ok=True)
    return build(source, wheel.plain_version(source), folder, progress)


def provide(source: Path, force: bool, progress: Progress) -> Path:
    """Return the wheel for the declarations, from the cache or newly built.

    Args:
        source: folder of the declarations.
        force: build even if the cache has it.
        progress: called with a line of progress.

    Raises:
        BuildError: it cannot be built; contains the reason.
    """
    declarations.check_no_sourced_ros(os.environ, package_names(source))
    declarations.check_wheels()
    facts = wheel.interpreter_facts()
    key = wheel.build_key(source, TOOLS, facts)
    version = wheel.wheel_version(source, key)
    folder = wheel.cache_folder(os.environ)
    target = folder / wheel.wheel_name(wheel.distribution_name(source), version)
    with wheel.locked(folder, progress):
        if not force and wheel.is_whole(target):
            progress(f"found in the cache: {target.name}")
            target.touch()
        else:
            begin = time.monotonic()
            build(source, version, target, progress)
            if wheel.build_key(source, TOOLS, facts) != key:
                target.unlink()
                raise BuildError(f"{source} or the tool changed during the build; run it again.")
            progress(f"built {target.name} in {time.monotonic() - begin:.0f} s")
        wheel.prune(folder)
    return target


def install(source: Path, built: Path, force: bool, progress: Progress) -> None:
    """Install a wheel of declarations in this interpreter, unless it is there already.

    Raises:
        BuildError: another distribution has one of its packages, or pip refuses.
    """
    if wheel.is_installed(built) and not force:
        progress("this build is already installed")
        return
    wheel.check_no_other_owner(wheel.distribution_name(source), package_names(source))
    with wheel.locked(wheel.cache_folder(os.environ), progress):
        wheel.install(built)
    importlib.invalidate_caches()
    progress(f"installed in {sys.prefix}")


def outdated_packages(source: Path = PACKAGES) -> list[str]:
    """Return the packages that are not installed in this environment as they are declared.

    The installed declarations themselves are compared: no hash or version can be forgotten.
    """
    share = Path(sys.prefix) / "share"
    outdated = set()
    for file in declared_files(source):
        try:
            same = (share / file.relative_to(source)).read_bytes() == file.read_bytes()
        except OSError:
            same = False
        if not same:
            outdated.add(file.relative_to(source).parts[0])
    return sorted(outdated)
