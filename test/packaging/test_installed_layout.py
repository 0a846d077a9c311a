# SPDX-License-Identifier: Apache-2.0
"""Files installed by pip and colcon: the package, its data, and those of ROS tools."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from motion_nodes.nodes.registry import NODES

ROOT = Path(__file__).parents[2]
EXECUTABLES = sorted([*NODES, "container"])


def run(*command, **settings):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          **settings)  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a copy of the tracked files, so that builds leave no files in the tree."""
    target = tmp_path_factory.mktemp("source") / "motion_nodes"
    listed = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def check_layout(prefix):
    share = prefix / "share"
    assert (share / "ament_index/resource_index/packages/motion_nodes").is_file()
    assert (share / "motion_nodes/package.xml").is_file()
    for launch in ("bringup", "multi_robot", "view", "moveit_rviz"):
        assert (share / f"motion_nodes/launch/{launch}.launch.py").is_file()
    assert (share / "motion_nodes/config/rviz/arm.rviz").is_file()
    assert (share / "motion_nodes/config/foxglove/base.json").is_file()
    assert (share / "motion_nodes/config/params_example.yaml").is_file()
    assert (share / "motion_nodes/config/example_arm/robot.yaml").is_file()
    for robot in ("franka", "jetbot"):
        assert (share / f"motion_nodes/robots/{robot}/robot.yaml").is_file()
    assert (share / "motion_nodes/robots/franka/meshes/panda_link0.obj").is_file()
    programs = prefix / "lib/motion_nodes"
    assert set(EXECUTABLES) <= {path.name for path in programs.iterdir()}
    assert all(os.access(programs / name, os.X_OK) for name in EXECUTABLES)


def test_every_executable_has_a_script():
    assert sorted(path.name for path in (ROOT / "scripts").iterdir()) == EXECUTABLES


def test_pip_installs_package_data_and_ros_files(source, tmp_path):
    builder = venv.EnvBuilder(with_pip=False)
    builder.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    quiet = ["-q", "--no-deps", "--no-index"]
    run(*pip, "wheel", *quiet, "--no-build-isolation", "-w", tmp_path, source)
    run(*pip, "--python", python, "install", *quiet, next(tmp_path.glob("*.whl")))
    check_layout(tmp_path / "env")
    package = next((tmp_path / "env/lib").glob("python*/site-packages/motion_nodes"))
    assert (package / "py.typed").is_file()
    assert (package / "robots/franka/franka.urdf").is_file()
    assert (package / "robots/franka/meshes/panda_link0.obj").is_file()
    assert (tmp_path / "env/bin/motion").is_file()


def test_colcon_builds_the_same_layout_and_its_nodes_run(source, tmp_path):
    colcon = shutil.which("colcon", path=str(Path(sys.executable).parent))
    if colcon is None:
        pytest.skip("colcon not installed")
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    shutil.copytree(source, workspace / "src" / "motion_nodes")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "ignore",
    }
    quiet = ("--packages-select", "motion_nodes", "--event-handlers", "console_direct-")
    for bases in (("linked", "--symlink-install"), ("install",)):
        run(colcon, "--log-base", "log", "build", "--build-base", f"build_{bases[0]}",
            "--install-base", *bases, *quiet, cwd=workspace, env=environment)  # fmt: skip
        prefix = workspace / bases[0] / "motion_nodes"
        check_layout(prefix)
    run(colcon, "--log-base", "log", "test", "--build-base", "build_install", *quiet,
        "--pytest-args", "test/packaging/test_every_import.py", cwd=workspace,
        env=environment)  # fmt: skip
    told = run(colcon, "test-result", "--test-result-base", "build_install", cwd=workspace)
    assert re.search(r"[1-9]\d* tests, 0 errors, 0 failures", told)
    # A node of the workspace runs the workspace's code.
    shell = (
        f". {workspace}/install/setup.sh && python -c 'import motion_nodes; "
        "print(motion_nodes.__file__)' && command -v motion && motion version && "
        f"timeout -s INT 90 {prefix}/lib/motion_nodes/robot_state --ros-args -p robot:=nobody"
    )
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False,
                          env=environment, cwd=tmp_path)  # fmt: skip
    assert str(prefix) in done.stdout
    assert str(prefix / "bin/motion") in done.stdout
    assert done.returncode == 1
    assert "robot 'nobody' is not known" in done.stderr + done.stdout
