# SPDX-License-Identifier: Apache-2.0
"""Requests to switch controllers: strict ones all or nothing, best effort in part."""

import pytest

from motion_nodes.core.control.controller_switch import plan_switch
from motion_nodes.errors import InvalidCommand

STATES = {"arm": "active", "grip": "inactive", "base": "active", "raw": "unconfigured"}
CLAIMS = {"arm": ["a/position"], "grip": ["a/position", "b/effort"], "base": ["w/velocity"],
          "raw": []}  # fmt: skip


def plan(deactivate=(), activate=(), *, strict=False):
    return plan_switch(STATES, CLAIMS, deactivate, activate, strict=strict)


def test_one_takes_over_the_interfaces_of_another():
    found = plan(["arm"], ["grip"], strict=True)
    assert (found.deactivate, found.activate, found.skipped) == (("arm",), ("grip",), ())


def test_nobody_takes_an_interface_that_is_in_use():
    with pytest.raises(InvalidCommand):
        plan(activate=["grip"], strict=True)
    found = plan(["base"], ["grip"])
    assert (found.deactivate, found.activate) == (("base",), ())
    assert "which arm has" in found.skipped[0]


def test_two_newcomers_do_not_share_an_interface():
    states = {"one": "inactive", "two": "inactive"}
    claims = {"one": ["x/position"], "two": ["x/position"]}
    found = plan_switch(states, claims, [], ["one", "two"], strict=False)
    assert found.activate == ("one",)
    assert "which one has" in found.skipped[0]


def test_a_controller_in_both_lists_starts_anew():
    found = plan(["arm"], ["arm"], strict=True)
    assert (found.deactivate, found.activate) == (("arm",), ("arm",))


@pytest.mark.parametrize(
    ("deactivate", "activate", "text"),
    [(["grip"], [], "'?grip"), ([], ["arm"], "arm"),
     ([], ["raw"], "raw"), (["bass"], [], "'base'"),
     (["base", "nobody"], [], "'nobody'")],
)  # fmt: skip
def test_a_strict_request_is_refused_whole(deactivate, activate, text):
    with pytest.raises(InvalidCommand, match=text):
        plan(deactivate, activate, strict=True)


def test_best_effort_does_what_it_can_and_says_what_not():
    found = plan(["grip", "base", "base"], ["arm", "nobody"])
    assert (found.deactivate, found.activate) == (("base",), ())
    assert len(found.skipped) == 3


def test_a_list_of_unknown_names_alone_fails_with_best_effort_too():
    with pytest.raises(InvalidCommand):
        plan(["base"], ["nobody"])


def test_nothing_asked_nothing_done():
    for strict in (False, True):
        found = plan(strict=strict)
        assert (found.deactivate, found.activate, found.skipped) == ((), (), ())


def test_a_mode_follows_its_controller():
    modes = {"mode": "arm"}
    claims = {"arm": ["a/position"], "mode": ["a/effort"]}

    def plan_modes(states, deactivate, activate, *, strict=True):
        given = dict(zip(("arm", "mode"), states, strict=True))
        return plan_switch(given, claims, deactivate, activate, strict=strict, modes=modes)

    on, off = "active", "inactive"
    assert plan_modes((on, off), [], ["mode"]).activate == ("mode",)
    assert plan_modes((off, off), [], ["mode", "arm"]).activate == ("arm", "mode")
    assert plan_modes((on, on), ["arm", "mode"], []).deactivate == ("mode", "arm")
    with pytest.raises(InvalidCommand, match="arm"):
        plan_modes((off, off), [], ["mode"])
    # The arm would be left without a controller.
    for strict in (False, True):
        with pytest.raises(InvalidCommand, match="arm"):
            plan_modes((on, off), ["arm"], ["mode"], strict=strict)
