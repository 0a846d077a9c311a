# SPDX-License-Identifier: Apache-2.0
"""All forms of a program give the same numbers, and batches use wide registers."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernels.compile_program import Compiled
from kernels.random_trees import random_tree

from motion_nodes.kernels import kinematics_codegen, native
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.simd import Lanes

KINDS = [
    Lanes("double", 1),
    Lanes("double", 2),
    Lanes("double", 4),
    Lanes("double", 8),
    Lanes("float", 8),
    Lanes("float", 16),
]
TOLERANCE = {"double": 1e-14, "float": 2e-6}


def both_program(seed: int, joints: int):
    tree = random_tree(seed, joints)
    arrays = pack(tree.packed, tree.joint_names, {})
    return kinematics_codegen.pose_and_jacobian_program(arrays, len(tree.frame_names) - 1)


@pytest.mark.long
@pytest.mark.parametrize("lanes", KINDS, ids=str)
@pytest.mark.parametrize("joints", [1, 7])
def test_all_forms_agree(lanes, joints):
    program = both_program(joints, joints)
    compiled = Compiled(program, lanes)
    Q = np.random.default_rng(4).uniform(-3, 3, (33, joints))
    reference = Compiled(program, Lanes("double", 1))
    exact = [np.array(rows) for rows in zip(*(reference.one(q) for q in Q), strict=True)]
    tolerance = {"rtol": 0.0, "atol": TOLERANCE[lanes.element]}
    for m in range(34):
        for result, want in zip(compiled.many(Q[:m]), exact, strict=True):
            np.testing.assert_allclose(result, want[:m], **tolerance)
    for k, want in enumerate(exact):
        np.testing.assert_allclose(compiled.one(Q[5])[k], want[5], **tolerance)
        full = compiled.side_by_side(Q[: lanes.count])[k]
        np.testing.assert_allclose(full, want[: lanes.count], **tolerance)


def on_x86() -> native.Cpu:
    cpu = native.host_cpu()
    if not cpu.triple.startswith(("x86_64", "amd64")):
        pytest.skip(f"for x86 only, this is {cpu.triple}")
    return cpu


@pytest.mark.parametrize("element", ["double", "float"])
@pytest.mark.parametrize(
    ("model", "features", "register"),
    [("host", "", ""), ("haswell", "+avx2,+fma", "ymm"), ("znver4", "+avx512f,+avx512vl", "zmm")],
)
def test_batches_use_the_widest_registers(element, model, features, register):
    cpu = on_x86()
    if model != "host":  # whatever this machine has, compile for that one
        cpu = native.Cpu(cpu.triple, model, features)
    elif cpu.register_bits < 256:
        pytest.skip(f"no AVX2 or AVX-512 on this CPU ({cpu.name})")
    register = register or {256: "ymm", 512: "zmm"}[cpu.register_bits]
    lanes = cpu.lanes(element)
    assert lanes.count * lanes.bits == cpu.register_bits
    text = module_text({"p": both_program(7, 7)}, {"p": ("one", "many")}, lanes)
    group = native.assembly(text, cpu).split("p_group:")[1].split("p_many:")[0]
    arithmetic = re.findall(r"\tv(?:fn?m(?:add|sub)\d*|mul|add|sub)[ps][sd]\t.*", group)
    wide = [line for line in arithmetic if register in line]
    assert len(wide) > 50
    assert len(wide) == len(arithmetic)  # none is left that does one lane at a time


@pytest.mark.parametrize(("element", "shape"), [("double", "2d"), ("float", "4s")])
def test_batches_use_neon_on_aarch64(element, shape):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu = native.Cpu("aarch64-unknown-linux-gnu", "cortex-a76", "+neon")
    text = module_text({"p": both_program(7, 7)}, {"p": ("one", "many")}, cpu.lanes(element))
    group = native.assembly(text, cpu).split("p_group:")[1].split("p_many:")[0]
    arithmetic = re.findall(r"\tf(?:mla|mls|mul|add|sub)\tv\d+\.(\w+), ", group)
    assert len(arithmetic) > 50
    assert set(arithmetic) == {shape}
    assert not re.findall(r"\tf(?:n?m(?:add|sub|ul)|add|sub)\t[ds]\d+, ", group)


@pytest.mark.long
@pytest.mark.parametrize("element", ["double", "float"])
def test_a_cpu_without_avx_and_fused_instructions_gets_the_same_numbers(element):
    old = native.Cpu(on_x86().triple, "x86-64", "")
    program, lanes = both_program(7, 7), old.lanes(element)
    assert lanes.count * lanes.bits == 128
    Q = np.random.default_rng(4).uniform(-3, 3, (9, 7))
    exact = Compiled(program, Lanes("double", 1)).many(Q)
    for result, want in zip(Compiled(program, lanes, old).many(Q), exact, strict=True):
        np.testing.assert_allclose(result, want, rtol=0.0, atol=TOLERANCE[element])


def test_generated_code_needs_nothing_from_outside():
    cpu = on_x86()
    if "+fma" not in cpu.features.split(","):
        pytest.skip("no fused multiply-add: the C library's is called")
    text = module_text({"p": both_program(5, 5)}, {"p": ("one", "many")}, cpu.lanes("double"))
    calls = set(re.findall(r"\tcall[q]?\t(\S+)", native.assembly(text, cpu)))
    assert {c.split("@")[0] for c in calls} <= {"p_one", "p_group"}
