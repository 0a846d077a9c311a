# SPDX-License-Identifier: Apache-2.0
"""The loop around a step of inverse kinematics, and the selection of seeds, as LLVM code.

Each lane descends independently. The first one to converge ends the loop; a stalled lane restarts
from the next seed.

The functions take the address of the workspace of :mod:`motion_nodes.kernels.ik.ik_memory`.
``test/kernels/numpy_ik.py`` does the same in NumPy, and is easier to read.
"""

from __future__ import annotations

from motion_nodes.kernels.ik.ik_memory import (
    EXHAUSTED,
    FOUND,
    LANES,
    NO_POSE,
    PAUSED,
    REPORT,
    FieldLayout,
    work_layout,
)
from motion_nodes.kernels.ik.ik_seeds import (
    INFINITY,
    VECTOR,
    WIDE,
    WIDE_VECTOR,
    bits,
    copy,
    nearest_text,
    place,
    read,
    start_text,
)

_ALL = (1 << LANES) - 1
_DEFECT = "0x3EB0C6F7A0B5ED8D"  # 1e-6, the max sum of squared deviations of a valid pose


def loop_text(n: int) -> str:
    """Return the LLVM code around ``ik_restate(work)`` and ``ik_step(work)``, for n joints.

    ``ik_solve(work)`` begins with the target in the workspace, ``ik_resume(work)`` continues after
    a pause or a solution; both return an outcome. ``ik_many(work, m, targets, q, report)`` solves
    for m poses one after the other; with ``given`` = 1, ``starts`` holds a seed for each of them.
    """
    at = work_layout(n)
    parts = (nearest_text(at), start_text(n, at), _give_up(n, at), _replace(at), _answer(n, at))
    return "\n".join((_DECLARATIONS, *parts, _run(at), _entries(at), _many(n, at)))


_DECLARATIONS = f"""declare float @llvm.vector.reduce.fmin.v{WIDE}f32({WIDE_VECTOR})
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctpop.i64(i64)"""


def _give_up(n: int, at: FieldLayout) -> str:
    """Write the function that ends a lane's descent and stores the smallest error."""
    return f"""define internal void @ik_give_up(ptr %work, i64 %lane) nounwind {{
entry:
{read(at, "wait")}
  %bit = shl i64 1, %lane
  %others = xor i64 %bit, -1
  %still_waiting = and i64 %wait, %others
  store i64 %still_waiting, ptr %wait_at
  %lane_at = getelementptr double, ptr %work, i64 %lane
  %squared_at = getelementptr double, ptr %lane_at, i64 {at["squared"]}
  %squared = load double, ptr %squared_at
{read(at, "nearest", "double")}
  %nearer = fcmp olt double %squared, %nearest
  br i1 %nearer, label %keep, label %end
keep:
  store double %squared, ptr %nearest_at
  %kept = getelementptr double, ptr %nearest_at, i64 1
{copy(n, "lane_at", LANES, "kept")}
  br label %end
end:
  ret void
}}
"""


def _replace(at: FieldLayout) -> str:
    """Write the function that restarts lanes (a bit each) from new seeds, or deactivates them."""
    return f"""define internal void @ik_replace(ptr %work, i64 %lanes) nounwind {{
entry:
{read(at, "attempts")}
{place(at, "next")}
{place(at, "live")}
  br label %check
check:
  %left = phi i64 [%lanes, %entry], [%others, %rest], [%others, %start]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %end, label %one
one:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %below = sub i64 %left, 1
  %others = and i64 %left, %below
  %bit = xor i64 %left, %others
  %live = load i64, ptr %live_at
  %next = load i64, ptr %next_at
  %more = icmp ult i64 %next, %attempts
  br i1 %more, label %start, label %rest
rest:
  %all_but_it = xor i64 %bit, -1
  %fewer = and i64 %live, %all_but_it
  store i64 %fewer, ptr %live_at
  br label %check
start:
  %with_it = or i64 %live, %bit
  store i64 %with_it, ptr %live_at
  call void @ik_start(ptr %work, i64 %lane)
  br label %check
end:
  ret void
}}
"""


def _answer(n: int, at: FieldLayout) -> str:
    """Write the function that copies a lane's solution and errors to the results."""
    return f"""define internal void @ik_answer(ptr %work, i64 %lane) nounwind {{
{place(at, "answer")}
{place(at, "errors")}
  %lane_at = getelementptr double, ptr %work, i64 %lane
  %lane_errors_at = getelementptr double, ptr %errors_at, i64 %lane
  %answer_errors_at = getelementptr double, ptr %answer_at, i64 {n}
{copy(n, "lane_at", LANES, "answer_at")}
{copy(6, "lane_errors_at", LANES, "answer_errors_at")}
  ret void
}}
"""


def _run(at: FieldLayout) -> str:
    """Write the loop.

    Lanes that hold a solution do not move while another one is awaited.
    """
    return f"""define internal i64 @ik_run(ptr %work) nounwind {{
entry:
{place(at, "hopeless")}
{place(at, "solved")}
{place(at, "found")}
{place(at, "live")}
{place(at, "iterations")}
{read(at, "grant")}
  store i64 0, ptr %found_at
  br label %check
check:
  %steps = phi i64 [%grant, %entry], [%fewer, %look], [%fewer, %replace]
  %live = load i64, ptr %live_at
  %none_live = icmp eq i64 %live, 0
  br i1 %none_live, label %exhausted, label %check_steps
check_steps:
  %none_left = icmp sle i64 %steps, 0
  br i1 %none_left, label %paused, label %step
step:
  %fewer = sub i64 %steps, 1
  %found = call i64 @ik_step(ptr %work)
  %busy = call i64 @llvm.ctpop.i64(i64 %live)
  %before = load i64, ptr %iterations_at
  %iterations = add i64 %before, %busy
  store i64 %iterations, ptr %iterations_at
  %any_found = icmp ne i64 %found, 0
  br i1 %any_found, label %arrived, label %look
look:
  %hopeless = load {VECTOR}, ptr %hopeless_at, align 8
{bits("hopeless", "%hopeless")}
  %solved = load {VECTOR}, ptr %solved_at, align 8
{bits("solved", "%solved")}
  %unsolved = xor i64 %solved_bits, -1
  %failed_any = and i64 %hopeless_bits, %live
  %failed = and i64 %failed_any, %unsolved
  %none_failed = icmp eq i64 %failed, 0
  br i1 %none_failed, label %check, label %give_up
give_up:
  %left = phi i64 [%failed, %look], [%others, %give_up]
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  call void @ik_give_up(ptr %work, i64 %lane)
  %below = sub i64 %left, 1
  %others = and i64 %left, %below
  %none = icmp eq i64 %others, 0
  br i1 %none, label %replace, label %give_up
replace:
  call void @ik_replace(ptr %work, i64 %failed)
  br label %check
arrived:
  store i64 %found, ptr %found_at
  %lowest = call i64 @llvm.cttz.i64(i64 %found, i1 true)
  call void @ik_answer(ptr %work, i64 %lowest)
  ret i64 {FOUND}
paused:
  ret i64 {PAUSED}
exhausted:
  ret i64 {EXHAUSTED}
}}
"""


def _entries(at: FieldLayout) -> str:
    """Write the functions that begin and resume a solve."""
    return f"""define i64 @ik_solve(ptr %work) nounwind {{
entry:
  call void @ik_restate(ptr %work)
{read(at, "defect", "double")}
  %is_pose = fcmp olt double %defect, {_DEFECT}
  br i1 %is_pose, label %go, label %no_pose
go:
{place(at, "next")}
{place(at, "live")}
{place(at, "iterations")}
{place(at, "nearest")}
{place(at, "wait")}
{read(at, "prefer")}
  store i64 %prefer, ptr %wait_at
  store i64 0, ptr %next_at
  store i64 0, ptr %live_at
  store i64 0, ptr %iterations_at
  store double {INFINITY}, ptr %nearest_at
  call void @ik_replace(ptr %work, i64 {_ALL})
  %outcome = call i64 @ik_run(ptr %work)
  ret i64 %outcome
no_pose:
  ret i64 {NO_POSE}
}}
define i64 @ik_resume(ptr %work) nounwind {{
{read(at, "discard")}
  call void @ik_replace(ptr %work, i64 %discard)
  %outcome = call i64 @ik_run(ptr %work)
  ret i64 %outcome
}}
"""


def _many(n: int, at: FieldLayout) -> str:
    """Write the function for many poses, each with the step budget of the workspace."""
    arguments = "ptr %work, i64 %m, ptr %targets, ptr %q, ptr %report"
    return f"""define void @ik_many({arguments}) nounwind {{
entry:
{read(at, "given")}
{read(at, "starts", "ptr")}
{place(at, "target")}
{place(at, "answer")}
{place(at, "nearest")}
{place(at, "iterations")}
{place(at, "next")}
  %nearest_q = getelementptr double, ptr %nearest_at, i64 1
  %errors_at = getelementptr double, ptr %answer_at, i64 {n}
  br label %check
check:
  %pose = phi i64 [0, %entry], [%after, %write]
  %done = icmp uge i64 %pose, %m
  br i1 %done, label %end, label %begin
begin:
  %first = mul i64 %pose, 16
  %given_target = getelementptr double, ptr %targets, i64 %first
{copy(16, "given_target", 1, "target_at")}
  %skipped = mul i64 %pose, %given
  %offset = mul i64 %skipped, {n}
  %start = getelementptr double, ptr %starts, i64 %offset
  store ptr %start, ptr %starts_at
  %outcome = call i64 @ik_solve(ptr %work)
  %row = mul i64 %pose, {n}
  %q_row = getelementptr double, ptr %q, i64 %row
  %entry_of = mul i64 %pose, {REPORT}
  %line = getelementptr double, ptr %report, i64 %entry_of
  %line1 = getelementptr double, ptr %line, i64 1
  %line2 = getelementptr double, ptr %line, i64 2
  %line_errors = getelementptr double, ptr %line, i64 3
  %outcome_number = sitofp i64 %outcome to double
  store double %outcome_number, ptr %line
  %iterations = load i64, ptr %iterations_at
  %iterations_number = sitofp i64 %iterations to double
  store double %iterations_number, ptr %line1
  %next = load i64, ptr %next_at
  %next_number = sitofp i64 %next to double
  store double %next_number, ptr %line2
  %found = icmp eq i64 %outcome, {FOUND}
  %source = select i1 %found, ptr %answer_at, ptr %nearest_q
{copy(n, "source", 1, "q_row")}
{copy(6, "errors_at", 1, "line_errors")}
  br label %write
write:
  %after = add i64 %pose, 1
  br label %check
end:
  ret void
}}
"""
