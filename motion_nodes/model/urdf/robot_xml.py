# SPDX-License-Identifier: Apache-2.0
"""Safe XML reading of URDF and SRDF files, without external entities."""

from __future__ import annotations

from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.errors import InvalidDescription


def robot_root(text: str | bytes, where: str, kind: str = "a URDF") -> Any:
    """Return the root element, <robot>.

    Args:
        text: XML.
        where: the file, for errors.
        kind: what the file is, for errors.

    Raises:
        InvalidDescription: it is not XML, or has another root element.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(text.encode() if isinstance(text, str) else text, parser)
    except etree.XMLSyntaxError as error:
        raise InvalidDescription(f"{where}: is not XML that can be read: {error.msg}.") from None
    if root is None or root.tag != "robot":
        found = "nothing" if root is None else f"<{root.tag}>"
        raise InvalidDescription(f"{where}: {kind} starts with <robot>, this starts with {found}.")
    return root
