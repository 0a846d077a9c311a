# SPDX-License-Identifier: Apache-2.0
"""Messages to numbers of the core, and back."""
