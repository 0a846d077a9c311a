# SPDX-License-Identifier: Apache-2.0
"""Plugin of pytest that checks that the package under test has no extras."""

from pathlib import Path

import motion_nodes


def pytest_configure() -> None:
    """Refuse to run with the whole package."""
    extras = Path(motion_nodes.__file__).parent / "extras"
    found = [folder.name for folder in extras.iterdir() if (folder / "__init__.py").exists()]
    assert not found, f"{extras} contains {found}"
