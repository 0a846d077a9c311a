# SPDX-License-Identifier: Apache-2.0
"""xArm 5, 6 and 7 of UFACTORY, by the vendor's Python SDK."""
