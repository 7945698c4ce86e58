"""Exhibits are refuted by their detectors, lossy rules never called exact.

The innocents are certified with the other right rules, in `test_certify.py`.
"""

from fractions import Fraction as F
from functools import cache

import pytest

from specdecode import museum, verifiers
from specdecode.certify import certify, certify_generator
from specdecode.museum import EXHIBITS, USUAL_TESTS, usual_tests
from specdecode.worlds import generator_worlds, verifier_worlds

certificate = cache(museum.certificate)  # several tests look at one


def of_kind(kind):
    return [pytest.param(exhibit, id=exhibit.name) for exhibit in EXHIBITS.values() if exhibit.kind == kind]


def test_the_museum_is_as_large_as_it_should_be():
    kinds = [exhibit.kind for exhibit in EXHIBITS.values()]
    assert kinds.count("quiet bug") >= 28
    assert kinds.count("innocent") == 2
    assert kinds.count("lossy") == 3
    assert all(exhibit.difference and exhibit.title for exhibit in EXHIBITS.values())


@pytest.mark.parametrize("exhibit", of_kind("quiet bug"))
def test_no_bug_escapes_its_detector(exhibit):
    found = certificate(exhibit)
    assert found.verdict == "not exact", found
    assert found.method == "enumerated"
    if exhibit.detector == "extreme coins":
        assert found.total_variation < 1e-12
        assert "every coin exactly" in found.witness.how
    else:
        assert exhibit.detector == "joint law"
        assert found.total_variation > found.tolerance
        assert found.witness.probability != found.witness.expected


@pytest.mark.parametrize("exhibit", of_kind("lossy"))
def test_lossy_rules_are_never_exact(exhibit):
    found = certificate(exhibit)
    assert found.verdict == "not exact"
    assert found.total_variation > F(1, 100)


def test_the_loose_form_of_the_right_rule_is_right():
    """What the exhibits change must be exact before they change it."""
    assert certify(museum._verify, worlds=[w for w in verifier_worlds() if w.k <= 2]).verdict == "exact"
    assert certify_generator(museum._generate, worlds=generator_worlds()[:14]).verdict == "exact"


@pytest.mark.parametrize(
    ("name", "distance"),
    [("draws-again", None), ("replaces-from-p", F(25, 144)), ("soft-q", None), ("always-greedy", F(1, 2))],
)
def test_distances_on_the_fixed_worlds(name, distance):
    found = certificate(EXHIBITS[name]).total_variation
    assert found > F(1, 10)
    if distance is not None:
        assert abs(found - distance) < 1e-12, float(found)


def test_the_usual_tests_have_holes_and_the_joint_law_has_none():
    caught = {
        name: usual_tests(EXHIBITS[name]) for name in ("failed-coin", "goes-on", "nan-residual", "few-bits")
    }
    assert all(tuple(row) == USUAL_TESTS for row in caught.values())
    assert all(row["joint law"] for row in caught.values())
    assert not caught["failed-coin"]["acceptance rate"]
    assert not caught["failed-coin"]["V = 2"]
    assert not caught["goes-on"]["first token"]
    assert [test for test, seen in caught["nan-residual"].items() if seen] == ["zero support", "joint law"]
    assert not any(caught["few-bits"][test] for test in USUAL_TESTS[:-1])


def test_a_right_rule_is_caught_by_no_test_at_all():
    """The matrix must not raise alarms of its own."""
    from dataclasses import replace

    right = replace(EXHIBITS["replaces-from-p"], sampler=verifiers.token)
    assert not any(usual_tests(right).values())
