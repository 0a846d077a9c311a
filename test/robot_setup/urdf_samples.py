# SPDX-License-Identifier: Apache-2.0
"""Small robots as URDF text, for tests of robot setup."""

INERTIAL = (
    '<inertial><origin xyz="0 0 0.1"/><mass value="2.0"/>'
    '<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial>'
)
BAR = (
    '<collision><origin xyz="0 0 0.1"/><geometry><cylinder radius="0.04" length="0.24"/>'
    "</geometry></collision>"
)
LIMIT = '<limit lower="-2.5" upper="2.5" velocity="2.0" effort="80"/>'


def link(name: str, inside: str = INERTIAL + BAR) -> str:
    """Return a link."""
    return f'<link name="{name}">{inside}</link>'


def joint(
    name: str,
    parent: str,
    child: str,
    *,
    kind: str = "revolute",
    xyz: str = "0 0 0.25",
    axis: str = "0 1 0",
    inside: str = LIMIT,
) -> str:
    """Return a joint."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{inside}</joint>'
    )


def robot(*parts: str, name: str = "sample") -> str:
    """Return a URDF."""
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def arm(count: int = 4, *more: str, name: str = "sample") -> str:
    """Return an arm of bars whose axes are z, y, y, x, y, z in turn, with a tool frame."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "0 0 1")
    links = [link(f"link_{k}") for k in range(count + 1)]
    joints = [
        joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}", axis=axes[(k - 1) % 6])
        for k in range(1, count + 1)
    ]
    tool = joint("tool_joint", f"link_{count}", "tool0", kind="fixed", xyz="0 0 0.3", inside="")
    return robot(*links, *joints, '<link name="tool0"/>', tool, *more, name=name)
