# SPDX-License-Identifier: Apache-2.0
"""What runs for a robot: the one source of the launch files and of ``motion up``."""
