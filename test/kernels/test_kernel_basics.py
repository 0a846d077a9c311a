# SPDX-License-Identifier: Apache-2.0
"""What all kernels build on: operands, memory layouts, digests of sources, private files."""

import ctypes
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from motion_nodes.kernels import cache, native
from motion_nodes.kernels.cache import is_private, lock, open_private
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.simd import Lanes

INTEGERS = """declare i64 @llvm.cttz.i64(i64, i1)
declare double @llvm.rint.f64(double)
declare double @llvm.ceil.f64(double)
"""


def run(flow, *arrays):
    """Compile a function of addresses and call it."""
    text = flow.function("compute", linkage="") + INTEGERS
    lanes = flow.lanes or Lanes("double", 1)
    text += "\n".join(line for line in declarations(lanes) if line not in INTEGERS)
    if lanes.count > 1:
        for name in ("fmin", "fmax"):
            text += f"\ndeclare double @llvm.vector.reduce.{name}.{lanes.suffix}({lanes.type})"
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(text, cpu), cpu)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))
    kind(code.address("compute"))(*(a.ctypes.data for a in arrays))


def test_integers_shift_compare_and_combine_as_in_python():
    flow = FunctionBuilder(x="ptr", out="ptr")
    a, b = (flow.pointer("x", "i64").load(k) for k in range(2))
    results = [a + b, a - b, a * b, a // b, a / b, a & b, a | b, a ^ b, a << 3, a >> 2, ~a]
    results += [(a < b).choose(a, b), (a >= 37).choose(1, b), a.equals(37).choose(5, b)]
    results += [a.differs(b).choose(6, b), a.below(b).choose(7, b), b.lowest()]
    for k, result in enumerate(results):
        flow.pointer("out", "i64").store(result, k)
    flow.ret()
    x, y = 37, 12
    out = np.zeros(len(results), np.int64)
    run(flow, np.array([x, y]), out)
    expected = [x + y, x - y, x * y, x // y, x // y, x & y, x | y, x ^ y, x << 3, x >> 2, ~x]
    assert out.tolist() == [*expected, y, 1, 5, 6, y, 2]


def test_conversions_rounding_and_reductions():
    n = 4
    flow = FunctionBuilder(Lanes("double", n), x="ptr", out="ptr", whole="ptr")
    x = flow.pointer("x").load(lanes=n)
    one, whole = flow.pointer("x").load(1), flow.pointer("whole", "i64")
    numbers = [one.rounded(), one.rounded_up(), one.size().root(), x.smallest(), x.largest()]
    numbers += [x.lane(2), one, -one]
    for k, result in enumerate(numbers):
        flow.pointer("out").store(result, k)
    counts = [one.to("i64"), (x > 0.0).bits(), one.to("i64").to("double").to("i64")]
    for k, result in enumerate(counts):
        whole.store(result, k)
    flow.pointer("out").store(one.splat(n), len(numbers))
    with flow.when((x > 2.0).any()):
        whole.store(1, len(counts))
    with flow.when((x > 9.0).any()):
        whole.store(2, len(counts))
    flow.ret()
    given, out = np.array([1.5, -2.7, 3.25, -0.5]), np.zeros(len(numbers) + n)
    found = np.zeros(len(counts) + 1, np.int64)
    run(flow, given, out, found)
    expected = [-3.0, -2.0, 2.7**0.5, -2.7, 3.25, 3.25, -2.7, 2.7, *[-2.7] * n]
    assert out == pytest.approx(expected)
    assert found.tolist() == [-2, 0b0101, -2, 1]


def test_operands_know_their_types():
    flow = FunctionBuilder(Lanes("float", 8), p="ptr")
    lanes = IrValue(flow, "<8 x float>", "%x")
    assert (lanes.element, lanes.lane_count, (lanes < 0.0).kind) == ("float", 8, "<8 x i1>")
    pointer = flow.pointer("p", "i32")
    assert isinstance(pointer, Pointer)
    assert pointer.of("float").target == "float"
    assert pointer.at(0) is pointer
    assert pointer.load(3).kind == "i32"


def test_fields_are_where_numpy_sees_them():
    at = FieldLayout(count=1, values=3, address=1, rest=2)
    assert dict(at) == {"count": 0, "values": 1, "address": 4, "rest": 5}
    assert at.size == 7
    memory, other = np.zeros(at.size), np.array([5.0, 6.0, 7.0])
    whole = memory.view(np.int64)
    whole[at["count"]], whole[at["address"]] = 2, other.ctypes.data
    memory[1:4] = 10.0, 20.0, 30.0
    flow = FunctionBuilder(memory="ptr")
    fields = Fields(flow.pointer("memory"), at)
    picked = fields.pointer("address").load(fields.whole("count"))
    fields.set(rest=fields.real("values", 1) + picked)
    fields.at("rest", 1).of("i64").store(fields.whole("count") + 40)
    flow.ret()
    run(flow, memory)
    assert memory[5] == 27.0
    assert whole[6] == 42


def test_the_digest_of_sources_is_that_of_their_bytes():
    names = ("cache", "ik.ik_codegen")
    paths = [cache.ROOM / "cache.py", cache.ROOM / "ik" / "ik_codegen.py"]
    data = b"".join(path.read_bytes() for path in paths)
    assert cache.source_digest(names) == hashlib.sha256(data).hexdigest()
    with pytest.raises(FileNotFoundError):
        cache.source_digest(("no_such_module",))


def test_only_folders_that_others_cannot_write_to_are_private(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    assert is_private(folder)
    folder.chmod(0o720)
    assert not is_private(folder)
    folder.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not is_private(link)
    assert not is_private(tmp_path / "missing")
    tmp_path.chmod(0o770)
    assert not is_private(folder)  # its group could exchange it
    tmp_path.chmod(0o1770)
    assert is_private(folder)  # sticky, as /tmp


def test_private_files_belong_to_this_user_alone(tmp_path):
    path = tmp_path / "file"
    descriptor = open_private(path)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert path.stat().st_mode & 0o777 == 0o600
    descriptor = open_private(path)
    assert os.read(descriptor, 9) == b"x"
    os.close(descriptor)
    second = tmp_path / "second"
    second.hardlink_to(path)
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(tmp_path / "elsewhere")
    os.mkfifo(fifo)
    for refused in (second, link, fifo, tmp_path):
        with pytest.raises(OSError):
            open_private(refused)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_of_a_file_is_exclusive_and_ends_with_its_descriptor(tmp_path):
    first, second = (open_private(tmp_path / "file") for _ in range(2))
    assert lock(first, 0.0)
    assert lock(first, 0.0)  # it has it
    assert not lock(second, 0.0)
    assert not lock(second, 0.05)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lock, second, 60.0)
        os.close(first)
        assert waiting.result()
    os.close(second)
    with pytest.raises(OSError):
        lock(second, 0.0)
