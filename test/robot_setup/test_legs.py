# SPDX-License-Identifier: Apache-2.0
"""Legs are found, and a robot stands on them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from robot_setup.urdf_samples import BAR, INERTIAL, joint, link, robot

from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.extras.robot_setup.groups import guess_groups
from motion_nodes.extras.robot_setup.legs import GivenBase, find_legs, guess_kind
from motion_nodes.extras.robot_setup.link_shapes import link_geometries
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Notes, Question
from motion_nodes.extras.robot_setup.robot_source import search_from
from motion_nodes.extras.sim.robot_trial import try_robot


def quadruped(knee: float = -1.0) -> str:
    """Return a body on four legs of three joints, with spherical feet."""
    limits = '<limit lower="-1" upper="1" velocity="10" effort="40"/>'
    bent = f'<limit lower="-2.5" upper="{knee}" velocity="10" effort="40"/>'
    box = (
        '<inertial><mass value="{m}"/><inertia ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" '
        'iyz="0"/></inertial><collision><origin xyz="0 0 {z}"/><geometry><box size="{s}"/>'
        "</geometry></collision>"
    )
    parts = [link("trunk", box.format(m=6, i=0.1, z=0, s="0.4 0.2 0.1"))]
    for name, x, y in (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("hl", -0.2, 0.1), ("hr", -0.2, -0.1)):
        side = 0.06 if y > 0 else -0.06
        parts += [
            link(f"{name}_hip", box.format(m=0.5, i=1e-3, z=0, s="0.04 0.04 0.04")),
            link(f"{name}_thigh", box.format(m=0.5, i=2e-3, z=-0.1, s="0.03 0.02 0.18")),
            link(f"{name}_calf", box.format(m=0.2, i=1e-3, z=-0.1, s="0.02 0.02 0.2")),
            joint(f"{name}_hip_joint", "trunk", f"{name}_hip", xyz=f"{x} {y} 0", axis="1 0 0",
                  inside=limits),
            joint(f"{name}_thigh_joint", f"{name}_hip", f"{name}_thigh", xyz=f"0 {side} 0",
                  inside=limits),
            joint(f"{name}_calf_joint", f"{name}_thigh", f"{name}_calf", xyz="0 0 -0.2",
                  inside=bent),
        ]  # fmt: skip
    return robot(*parts, name="quad")


@pytest.mark.long
def test_a_body_on_four_legs_floats_and_stands(tmp_path: Path) -> None:
    """The URDF has visual geometry only."""
    file = tmp_path / "quad.urdf"
    file.write_text(quadruped().replace("collision", "visual"))
    made = new_robot(file, output=tmp_path / "quad", unique_name=False, spheres_accuracy=0.03)
    assert made.robot.kind == "floating"
    failed = [step for step in try_robot(made.robot) if not step.passed]
    assert failed == []


def test_an_arm_that_hangs_to_the_floor_is_no_leg_among_others() -> None:
    above, parts = "trunk", []
    for k in range(4):
        z = "0" if k == 0 else "-0.1"
        hanging = BAR.replace("0 0 0.1", "0 0 -0.05").replace("0.24", "0.1")
        parts += [link(f"arm_{k}", INERTIAL + hanging)]
        parts += [joint(f"arm_joint_{k}", above, f"arm_{k}", xyz=f"0 0 {z}")]
        above = f"arm_{k}"
    tree, findings = (
        read_urdf(quadruped().replace("</robot>", "".join(parts) + "</robot>")),
        Notes(),
    )
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups = guess_groups(tree, (), findings)
    assert groups.groups[0].name == "arm"
    names = [leg.group.name for leg in find_legs(tree, geometries, groups, "trunk")]
    assert sorted(names) == ["fl", "fr", "hl", "hr"]


@pytest.mark.parametrize(("hands", "count"), [(False, 2), (True, 0)])
def test_chains_that_carry_hands_are_no_legs(hands: bool, count: int) -> None:
    finger = '<limit lower="0" upper="0.04" velocity="0.2" effort="10"/>'
    parts = [link("trunk")]
    for side, y in (("l", 0.2), ("r", -0.2)):
        above = "trunk"
        for k, z in enumerate((0.0, -0.3, -0.3)):
            parts += [link(f"{side}{k}", INERTIAL + BAR.replace("0.1", "-0.1", 1))]
            parts += [joint(f"{side}{k}_joint", above, f"{side}{k}", xyz=f"0 {y * (not k)} {z}")]
            above = f"{side}{k}"
        for n in (1, -1) if hands else ():
            name = f"{side}_finger_{n}"
            parts += [link(name), joint(name, above, name, kind="prismatic", axis=f"0 {n} 0",
                                        xyz="0 0 -0.2", inside=finger)]  # fmt: skip
    tree, findings = read_urdf(robot(*parts)), Notes()
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups = guess_groups(tree, (), findings)
    assert len(find_legs(tree, geometries, groups, "trunk")) == count


def _spider(count: int, names: Callable[[int, int], str]) -> str:
    """Return a body with chains of three joints that lie beside it, as some files have them."""
    parts = [link("body")]
    for n in range(count):
        above = "body"
        for k in range(3):
            child = f"part_{n}_{k}"
            xyz = f"{0.3 * math.cos(n)} {0.3 * math.sin(n)} 0"
            parts += [link(child), joint(names(n, k), above, child, xyz=xyz)]
            above = child
    return robot(*parts)


@pytest.mark.parametrize(
    ("count", "names", "kind", "confidence"),
    [
        (4, lambda n, k: str(3 * n + k), "floating", "low"),
        (6, lambda n, k: f"motor_{3 * n + k}", "floating", "low"),
        (4, lambda n, k: f"{('hip', 'thigh', 'knee')[k]}_{n}", "floating", "medium"),
        (2, lambda n, k: f"{('l', 'r')[n]}_{('hip', 'knee', 'ankle')[k]}", "floating", "medium"),
        (2, lambda n, k: f"{('l', 'r')[n]}_{('shoulder', 'elbow', 'wrist')[k]}", "arm", "medium"),
        (1, lambda n, k: f"{('hip', 'knee', 'ankle')[k]}", "arm", "medium"),
    ],
)
def test_the_kind_is_a_guess_with_confidence(
    count: int, names: Callable[[int, int], str], kind: str, confidence: str
) -> None:
    tree, findings = read_urdf(_spider(count, names)), Notes()
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups, asked = guess_groups(tree, (), findings), []
    given = GivenBase("arm", floating=False, stated=False, has_wheels=False)

    def answer(question: Question) -> str:
        asked.append(question)
        return "arm"

    found, legs = guess_kind(tree, geometries, groups, "body", given, findings)
    assert (found, len(legs)) == (kind, count if kind == "floating" else 0)
    noted = [item for item in findings.of("guessed") if item.topic == "kind"]
    assert [item.confidence for item in noted] == [confidence]
    chosen, none = guess_kind(tree, geometries, groups, "body", given, Notes(answer))
    assert (chosen, none) == ("arm", ())
    assert len(asked) == (kind == "floating")


def test_a_trial_that_moves_nothing_fails(tmp_path: Path) -> None:
    still = '<limit lower="0" upper="0.0002" velocity="1" effort="80"/>'
    file = tmp_path / "still.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b", inside=still)))
    made = new_robot(file, output=tmp_path / "still", unique_name=False, picture=False)
    steps = {step.name: step.passed for step in try_robot(made.robot)}
    assert not any(passed for name, passed in steps.items() if name.startswith("moves"))
