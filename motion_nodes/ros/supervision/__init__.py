# SPDX-License-Identifier: Apache-2.0
"""How a process of the suite answers its supervisor: by pipes, and over DDS."""
