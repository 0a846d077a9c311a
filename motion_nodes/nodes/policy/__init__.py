# SPDX-License-Identifier: Apache-2.0
"""Parts of the nodes of policies: ``rmpflow_policy`` and ``policy_controller``."""
