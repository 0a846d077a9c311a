# SPDX-License-Identifier: Apache-2.0
"""Functions for language models that control a suite: validation, dry runs, MCP server."""
