# SPDX-License-Identifier: Apache-2.0
"""Link of a language model's functions to a running suite."""
