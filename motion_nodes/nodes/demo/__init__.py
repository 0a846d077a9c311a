# SPDX-License-Identifier: Apache-2.0
"""Shows of `motion demo`, which are clients of a starting suite."""
