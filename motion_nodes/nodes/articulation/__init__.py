# SPDX-License-Identifier: Apache-2.0
"""Parts of the nodes ``articulation_controller`` and ``controller_manager``."""
