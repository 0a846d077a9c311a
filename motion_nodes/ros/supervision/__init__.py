# SPDX-License-Identifier: Apache-2.0
"""Interface of a process to the supervisor of the suite: pipes and DDS."""
