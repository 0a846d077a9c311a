# SPDX-License-Identifier: Apache-2.0
"""What the task server makes of detections, without DDS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.scene.world import World


def marker(name: str, x: float, number: int = 0) -> Marker:
    found = Marker(ns=name, id=number, type=Marker.CUBE)
    found.pose.position.x, found.pose.orientation.w = x, 1.0
    found.scale.x = found.scale.y = found.scale.z = 0.04
    found.header.stamp.sec = 100
    return found


class Observer:
    """Objects of a detector whose messages the test gives."""

    def __init__(self) -> None:
        self.warnings: dict[str, str] = {}
        self.message: MarkerArray | None = None
        ignored = SimpleNamespace(publish=lambda message: None)
        node: Any = SimpleNamespace(
            poll=lambda *args: SimpleNamespace(newest=lambda: self.message),
            advertise=lambda *args: ignored,
            now=lambda: 100.0,
            warn=self.warnings.__setitem__,
        )
        follower: Any = SimpleNamespace(world=World())
        robot: Any = SimpleNamespace(base_frame="base")
        self.objects = ObservedObjects(node, follower, robot, np.eye(4), "/objects")
        self.time = 0.0

    def see(self, *markers: Marker) -> set[str]:
        self.message, self.time = MarkerArray(markers=list(markers)), self.time + 1.0
        self.warnings.clear()
        self.objects.update(self.time)
        return set(self.objects.states(self.time))


def test_two_detections_of_one_name_are_both_refused_and_named() -> None:
    observer = Observer()
    assert observer.see(marker("cube", 0.3), marker("bowl", 0.5)) == {"cube", "bowl"}
    assert not observer.warnings
    seen = observer.see(marker("cube", 0.3), marker("bowl", 0.5), marker("cube", 0.4, 1))
    assert seen == {"bowl"}
    assert observer.objects.detected("cube") is None
    assert observer.objects.ambiguous == ("cube",)
    assert "'cube'" in observer.warnings["marker cube"]
    # Names that are new are refused, too, and one that is unique again is used.
    assert observer.see(marker("cube", 0.4), marker("cup", 0.3), marker("cup", 0.3, 1)) == {"cube"}
    assert observer.objects.ambiguous == ("cup",)
