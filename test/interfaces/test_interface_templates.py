# SPDX-License-Identifier: Apache-2.0
"""Cached templates of the generators are expanded like by empy."""

import importlib.util
import subprocess
import sys

import pytest

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
