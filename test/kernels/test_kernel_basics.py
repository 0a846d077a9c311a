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
from motion_nodes.kernels.llvm_builder import FunctionBuilder
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
