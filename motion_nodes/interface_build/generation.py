# SPDX-License-Identifier: Apache-2.0
"""Generates the code and the descriptions of message packages with rosidl, from Python.

Templates of the generators are scanned, and their code compiled, once: empy 3 scans a template
character by character and recompiles each piece of its code for each file that is generated from
it. With both kept, the code of all packages is generated in a tenth of the time; the result is the
same, byte by byte.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from motion_nodes.interface_build.declarations import BuildError, Package

_COMMENTS = re.compile(r'(@verbatim \(language="comment", text=)(?:\s*"(?:[^"\\]|\\.)*")+')
Progress = Callable[[str], None]
FAST, INTROSPECTION = "rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c"
# The libraries of a package, each linked to the ones before: module and function of the generator
# and its further arguments. Fast DDS describes types to others by the introspection type support.
LAYERS: dict[str, tuple[str, str, list[list[str]]]] = {
    "rosidl_generator_c": ("rosidl_generator_c", "generate_c", []),
    FAST: (FAST, "generate_typesupport_fastrtps_c", []),
    INTROSPECTION: (INTROSPECTION, "generate_c", []),
    "rosidl_typesupport_c": ("rosidl_typesupport_c", "generate_c", [[FAST, INTROSPECTION]]),
    "rosidl_generator_py": (
        "rosidl_generator_py.generate_py_impl",
        "generate_py",
        [["rosidl_typesupport_c"]],
    ),
}


@functools.cache  # once per process
def cache_templates() -> None:
    """Replace the parts of empy 3 that scan templates and compile their code."""
    em = importlib.import_module("em")

    @functools.cache
    def tokens_of(prefix: str, text: str) -> list[Any]:
        scanner = em.Scanner(prefix, text)
        tokens: list[Any] = []
        try:
            tokens += iter(scanner.one, None)
        except em.TransientParseError:
            # As empy does: a template may end without a newline.
            rest = scanner.rest()
            if rest and not rest.endswith("\n"):
                scanner.feed(f"{prefix}\n")
            tokens += iter(scanner.one, None)
        return tokens

    @functools.cache
    def compiled(code: str, mode: str) -> CodeType:
        return compile(code, "<string>", mode)

    def string(self: Any, data: str, name: str = "<string>", locals: Any = None) -> None:
        context = em.Context(name)
        self.contexts.push(context)
        context.bump()
        for token in tokens_of(self.prefix, data):
            token.run(self, locals)
        self.contexts.pop()

    def evaluate(code: str, *names: Any) -> Any:
        return eval(compiled(code.lstrip(" \t"), "eval"), *names)

    def execute(code: str, *names: Any) -> None:
        exec(compiled(code, "exec"), *names)

    em.Interpreter.string = string
    vars(em).update(eval=evaluate, _exec=execute)


@dataclass(frozen=True)
class Workplace:
    """Folders of one build and the compilers it uses."""

    work: Path  # generated code and objects
    data: Path  # becomes the prefix of the environment: share/, lib/
    platlib: Path  # becomes site-packages
    prefix: Path  # the environment that the packages are built on
    cc: str
    cxx: str


def generate(packages: list[Package], place: Workplace, progress: Progress) -> None:
    """Write share/<package> of all packages below place.data and their code below place.work.

    Args:
        packages: in build order.
        place: folders of the build.
        progress: called with a line of progress.

    Raises:
        BuildError: a generator failed.
    """
    progress("describing the types")
    _cache_parsed_files()
    cache_templates()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        _all(threads.submit(_write_idl, p, place) for p in packages)
    largest_first = sorted(packages, key=lambda p: -len(p.files))
    shares = [place.data / "share" / p.name for p in largest_first]
    paths = [
        folder / f"{s}.idl"
        for p, folder in zip(largest_first, shares, strict=True)
        for s in p.stems
    ]
    with _processes() as pool:
        _PARSED.update(zip(paths, pool.map(_parse, paths, chunksize=4), strict=True))
    for package in packages:
        _describe(package, place)
    progress("generating the code")
    with _processes() as pool:  # forked only now, so that it inherits the parsed files
        _all(pool.submit(_generate, p, layer, place) for p in largest_first for layer in LAYERS)


@contextlib.contextmanager
def _processes() -> Iterator[ProcessPoolExecutor]:
    """Return a pool of forked processes."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(mp_context=fork, initializer=_leave_signals_to_parent) as pool:
        try:
            yield pool
        except BrokenExecutor as error:
            raise BuildError("A generator process was killed; is the memory full?") from error
        except BaseException:
            for worker in multiprocessing.active_children():  # or they would finish their share
                worker.terminate()
            raise


def _leave_signals_to_parent() -> None:
    """Let Ctrl-C be answered once, by the process that started the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _all(tasks: Iterable[Future[Any]]) -> None:
    """Wait for all tasks; on a failure drop those not begun and raise it."""
    tasks = list(tasks)
    try:
        for task in tasks:
            task.result()
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


def run(*command: str | Path) -> None:
    """Run a command quietly.

    Raises:
        BuildError: it failed; the text has the command's name and its first words of complaint.
    """
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines[-1:]
        raise BuildError(
            f"{Path(command[0]).name} failed with code {done.returncode}: "
            f"{' | '.join(errors[:3]) or 'no output'}"
        )


_PARSED: dict[Path, Any] = {}
"""Contents of .idl files; each is parsed once instead of once per generator."""


def _parse(path: Path) -> Any:
    """Parse an .idl file, its comments shortened, without indentation: both take time.

    Comments remain, as rosidl takes equal constants of two parts of an action for one.
    """
    numbers = itertools.count()
    text = _COMMENTS.sub(lambda m: f'{m[1]}"{next(numbers)}"', path.read_text(encoding="utf-8"))
    text = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    parse = importlib.import_module("rosidl_parser.parser").parse_idl_string
    definition = importlib.import_module("rosidl_parser.definition")
    try:
        return definition.IdlFile(definition.IdlLocator(path.parent, path.name), parse(text))
    except Exception as error:  # any error of the parser
        raise BuildError(f"{path} cannot be parsed: {error}") from error


def _cache_parsed_files() -> None:
    """Let rosidl take what was parsed; generators bind the function when they are imported."""
    parser = importlib.import_module("rosidl_parser.parser")
    vars(parser)["parse_idl_file"] = lambda where: _PARSED[Path(where.get_absolute_path())]


def _arguments(
    package: Package, generator: str, output: Path, place: Workplace, **more: list[str]
) -> str:
    """Write the JSON file from which a rosidl generator reads its arguments; return its path."""
    path = place.work / f"{package.name}.{generator}.json"
    share = place.data / "share" / package.name
    content = {
        "package_name": package.name,
        "output_dir": str(output),
        "target_dependencies": [],
        "template_dir": str(place.prefix / "share" / generator / "resource"),
        "idl_tuples": [f"{share}:{s}.idl" for s in package.stems],
        **more,
    }
    path.write_text(json.dumps(content))
    return str(path)


def _write_idl(package: Package, place: Workplace) -> None:
    """Copy the declarations to share/<package> and translate them to .idl."""
    share = place.data / "share" / package.name
    for file in [package.root / "package.xml", *package.files]:
        target = share / file.relative_to(package.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    inputs = [f"{share}:{f.relative_to(package.root)}" for f in package.files]
    listing = place.work / f"{package.name}.idl_files"
    arguments = _arguments(package, "rosidl_adapter", share, place, non_idl_tuples=inputs)
    command = [sys.executable, "-m", "rosidl_adapter", "--package-name", package.name]
    run(*command, "--arguments-file", arguments, "--output-dir", share, "--output-file", listing)


def _describe(package: Package, place: Workplace) -> None:
    """Write type descriptions with their RIHS01 hashes, and the marks of the ament index."""
    share = place.data / "share" / package.name
    found = {p.name: p for p in (*(place.prefix / "share").iterdir(), *share.parent.iterdir())}
    generator = "rosidl_generator_type_description"
    paths = [f"{name}:{path}" for name, path in found.items()]
    arguments = _arguments(package, generator, share, place, include_paths=paths)
    for file in importlib.import_module(generator).generate_type_hash(arguments):
        if f"{file.parent.name}/{file.stem}" not in package.stems:
            file.unlink()  # a part of a service or an action, described with the whole
    pairs = zip(package.files, package.stems, strict=True)
    names = [stem + suffix for file, stem in pairs for suffix in (file.suffix, ".idl")]
    for resource, text in (("packages", ""), ("rosidl_interfaces", "\n".join(names))):
        index = place.data / "share/ament_index/resource_index" / resource
        index.mkdir(parents=True, exist_ok=True)
        (index / package.name).write_text(text)


def _generate(package: Package, layer: str, place: Workplace) -> None:
    """Generate the code of one library of a package."""
    module, function, extra = LAYERS[layer]
    output = place.work / layer / package.name
    share = place.data / "share" / package.name
    arguments = _arguments(
        package,
        layer,
        output,
        place,
        ros_interface_files=[str(f) for f in package.files],
        type_description_tuples=[f"{s}.idl:{share / s}.json" for s in package.stems],
    )
    try:
        getattr(importlib.import_module(module), function)(arguments, *extra)
    except Exception as error:  # any error in a template
        raise BuildError(f"{layer} failed on {package.name}: {error!r}") from error
    header = place.prefix / "share" / layer / "resource" / f"{layer}__visibility_control.h.in"
    if header.exists():  # what the generators leave to CMake
        text = header.read_text().replace("@PROJECT_NAME_UPPER@", package.name.upper())
        (output / "msg").mkdir(exist_ok=True)
        (output / "msg" / header.stem).write_text(text.replace("@PROJECT_NAME@", package.name))
