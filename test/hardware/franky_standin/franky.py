# SPDX-License-Identifier: Apache-2.0
"""Stands for franky in the process of a driver's node, whose ``PYTHONPATH`` has this folder."""

import os
import sys

from hardware.fake_franky import FakeFranky

sys.modules[__name__] = FakeFranky(os.environ["FRANKY_HOST"], 1337)  # type: ignore[assignment]
