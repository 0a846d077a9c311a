# SPDX-License-Identifier: Apache-2.0
"""Seeds of inverse kinematics, as LLVM code.

First the seeds that were given. Then one from each block of a table of random configurations: the
one whose pose is closest to the target, by

    weight^2 |p - p_T|^2 - closeness * trace(R^T R_T),

the squared distance and (nearly) the squared angle. As a function of a configuration's features
(|p|^2, p, R) this is linear, so a block is searched with a dozen multiplications per SIMD register
of float32.
"""

from __future__ import annotations

from motion_nodes.kernels.ik.ik_memory import (
    BLOCK,
    FEATURES,
    LANES,
    FieldLayout,
    common_inputs,
    lane_inputs,
)

VECTOR = f"<{LANES} x double>"
INFINITY = "0x7FF0000000000000"
WIDE = 16
"""float32 values compared per instruction."""
WIDE_VECTOR = f"<{WIDE} x float>"


def place(at: FieldLayout, name: str) -> str:
    """Return the line that computes the address of a field, ``%<name>_at``."""
    return f"  %{name}_at = getelementptr i64, ptr %work, i64 {at[name]}"


def read(at: FieldLayout, name: str, kind: str = "i64") -> str:
    """Return the lines that load a field."""
    return f"{place(at, name)}\n  %{name} = load {kind}, ptr %{name}_at, align 8"


def copy(count: int, source: str, step: int, target: str) -> str:
    """Return the lines that copy numbers, ``step`` apart, to an array."""
    return "\n".join(
        f"""  %{target}_from{k} = getelementptr double, ptr %{source}, i64 {k * step}
  %{target}_value{k} = load double, ptr %{target}_from{k}
  %{target}_to{k} = getelementptr double, ptr %{target}, i64 {k}
  store double %{target}_value{k}, ptr %{target}_to{k}"""
        for k in range(count)
    )


def splat(name: str, value: str, kind: str) -> str:
    """Return the lines that broadcast a number to a wide vector."""
    vector, zeros = f"<{WIDE} x {kind}>", f"<{WIDE} x i32> zeroinitializer"
    return f"""  %{name}_0 = insertelement {vector} poison, {kind} {value}, i64 0
  %{name} = shufflevector {vector} %{name}_0, {vector} poison, {zeros}"""


def bits(name: str, flags: str) -> str:
    """Return the lines that pack each lane's flag (1 or 0) into bits: ``%<name>_bits``."""
    return f"""  %{name}_bools = fcmp ogt {VECTOR} {flags}, zeroinitializer
  %{name}_byte = bitcast <{LANES} x i1> %{name}_bools to i{LANES}
  %{name}_bits = zext i{LANES} %{name}_byte to i64"""


def nearest_text(at: FieldLayout) -> str:
    """Write the function that returns the row of the closest configuration of a block."""
    factors, terms = [], []
    for i in range(FEATURES):
        factors.append(
            f"""  %factor_at{i} = getelementptr double, ptr %work, i64 {at["direction"] + i}
  %number{i} = load double, ptr %factor_at{i}
  %single{i} = fptrunc double %number{i} to float
{splat(f"factor{i}", f"%single{i}", "float")}"""
        )
        before = f"%sum{i - 1}" if i else "zeroinitializer"
        arguments = f"{WIDE_VECTOR} %feature{i}, {WIDE_VECTOR} %factor{i}, {WIDE_VECTOR} {before}"
        terms.append(
            f"""  %feature_at{i} = getelementptr float, ptr %group, i64 {i * BLOCK}
  %feature{i} = load {WIDE_VECTOR}, ptr %feature_at{i}, align 4
  %sum{i} = call {WIDE_VECTOR} @llvm.fma.v{WIDE}f32({arguments})"""
        )
    total = f"%sum{FEATURES - 1}"
    all_factors, all_terms = "\n".join(factors), "\n".join(terms)
    bools, indices = f"<{WIDE} x i1>", f"<{WIDE} x i64>"
    types = ", ".join([WIDE_VECTOR] * 3)
    return f"""declare {WIDE_VECTOR} @llvm.fma.v{WIDE}f32({types})
define internal i64 @ik_nearest(ptr %work, i64 %block) nounwind {{
entry:
{all_factors}
{read(at, "features", "ptr")}
  %rows = mul i64 %block, {BLOCK}
  %offset = mul i64 %rows, {FEATURES}
  %features_of_block = getelementptr float, ptr %features, i64 %offset
  br label %next
next:
  %first = phi i64 [0, %entry], [%after, %next]
  %least = phi {WIDE_VECTOR} [splat (float {INFINITY}), %entry], [%less, %next]
  %which = phi {indices} [zeroinitializer, %entry], [%which_less, %next]
  %group = getelementptr float, ptr %features_of_block, i64 %first
{all_terms}
  %nearer = fcmp olt {WIDE_VECTOR} {total}, %least
  %less = select {bools} %nearer, {WIDE_VECTOR} {total}, {WIDE_VECTOR} %least
{splat("firsts", "%first", "i64")}
  %which_less = select {bools} %nearer, {indices} %firsts, {indices} %which
  %after = add i64 %first, {WIDE}
  %done = icmp eq i64 %after, {BLOCK}
  br i1 %done, label %choose, label %next
choose:
  %minimum = call float @llvm.vector.reduce.fmin.v{WIDE}f32({WIDE_VECTOR} %less)
{splat("minima", "%minimum", "float")}
  %equal = fcmp ueq {WIDE_VECTOR} %less, %minima
  %equal_bits = bitcast {bools} %equal to i{WIDE}
  %wide_bits = zext i{WIDE} %equal_bits to i64
  %place = call i64 @llvm.cttz.i64(i64 %wide_bits, i1 true)
  %in_block = extractelement {indices} %which_less, i64 %place
  %row_of_group = add i64 %rows, %in_block
  %row = add i64 %row_of_group, %place
  ret i64 %row
}}
"""


def start_text(n: int, at: FieldLayout) -> str:
    """Write the function that loads the next seed into a lane, clamped to the joint limits."""
    own, common = lane_inputs(n), common_inputs(n)
    moved = "\n".join(
        f"""  %from{k} = getelementptr double, ptr %row, i64 {k}
  %given{k} = load double, ptr %from{k}
  %low_at{k} = getelementptr double, ptr %work, i64 {at["common"] + common["lower"] + k}
  %low{k} = load double, ptr %low_at{k}
  %high_at{k} = getelementptr double, ptr %work, i64 {at["common"] + common["upper"] + k}
  %high{k} = load double, ptr %high_at{k}
  %enough{k} = fcmp ogt double %given{k}, %low{k}
  %raised{k} = select i1 %enough{k}, double %given{k}, double %low{k}
  %within{k} = fcmp olt double %raised{k}, %high{k}
  %q{k} = select i1 %within{k}, double %raised{k}, double %high{k}
  %to{k} = getelementptr double, ptr %lane_at, i64 {k * LANES}
  store double %q{k}, ptr %to{k}"""
        for k in range(n)
    )
    return f"""define internal void @ik_start(ptr %work, i64 %lane) nounwind {{
entry:
{read(at, "next")}
{read(at, "given")}
  %after = add i64 %next, 1
  store i64 %after, ptr %next_at
  %is_given = icmp ult i64 %next, %given
  br i1 %is_given, label %from_given, label %from_table
from_given:
{read(at, "starts", "ptr")}
  br label %copy
from_table:
{read(at, "table", "ptr")}
  %block = sub i64 %next, %given
  %nearest = call i64 @ik_nearest(ptr %work, i64 %block)
  br label %copy
copy:
  %rows = phi ptr [%starts, %from_given], [%table, %from_table]
  %index = phi i64 [%next, %from_given], [%nearest, %from_table]
  %elements = mul i64 %index, {n}
  %row = getelementptr double, ptr %rows, i64 %elements
  %lane_at = getelementptr double, ptr %work, i64 %lane
{moved}
  %best_at = getelementptr double, ptr %lane_at, i64 {own["best"] * LANES}
  store double {INFINITY}, ptr %best_at
  %stalled_at = getelementptr double, ptr %lane_at, i64 {own["stalled"] * LANES}
  store double 0.0, ptr %stalled_at
  ret void
}}
"""
