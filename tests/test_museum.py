"""Exhibits are refuted, innocents certified, lossy rules never exact; what each usual test sees of them."""

from dataclasses import replace
from fractions import Fraction as F
from functools import cache

import pytest

from specdecode import generate_speculative, museum, verifiers
from specdecode.certify import certify, certify_generator, distance_on
from specdecode.certify.worlds import generator_worlds, verifier_worlds
from specdecode.drafts import NGramDraft
from specdecode.museum import EXHIBITS, SEEN, USUAL_TESTS, WORLDS, grid, usual_tests

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
    assert certify(museum.verify, worlds=[w for w in verifier_worlds() if w.k <= 2]).verdict == "exact"
    assert certify_generator(museum.generate, worlds=generator_worlds()[:14]).verdict == "exact"


@pytest.mark.parametrize(
    ("name", "distance"),
    [("draws-again", None), ("replaces-from-p", F(25, 144)), ("soft-q", None), ("always-greedy", F(1, 2))],
)
def test_distances_on_the_fixed_worlds(name, distance):
    found = certificate(EXHIBITS[name]).total_variation
    assert found > F(1, 10)
    if distance is not None:
        assert abs(found - distance) < 1e-12, float(found)


# --- the grid: every test on every world, at one threshold ----------------------------------------------

ROUNDING = 1e-12
BUGS = [name for name, exhibit in EXHIBITS.items() if exhibit.kind == "quiet bug"]
RIGHT = [
    replace(EXHIBITS["replaces-from-p"], sampler=verifiers.token),
    replace(EXHIBITS["raw-q"], sampler=generate_speculative),
]


@pytest.fixture(scope="module", params=[SEEN, ROUNDING], ids=["seen", "rounding"])
def verdicts(request):
    return grid(request.param)


def on_its_own_world(caught):
    return {name: caught[name][EXHIBITS[name].world.name] for name in BUGS}


def count(rows):
    rows = list(rows)
    tests = [sum(row[test] for row in rows) for test in USUAL_TESTS]
    return (*tests, sum(any(row[test] for test in USUAL_TESTS[:-1]) for row in rows))


def test_the_grid_is_whole(verdicts):
    names = [world.name for world in WORLDS]
    assert list(verdicts) == list(EXHIBITS)
    assert all(list(row) == names for row in verdicts.values())
    assert all(tuple(tests) == USUAL_TESTS for row in verdicts.values() for tests in row.values())
    assert {exhibit.world.name for exhibit in EXHIBITS.values()} == set(names)


def test_a_row_of_the_grid_is_what_one_exhibit_is_asked():
    caught = grid()
    for name, row in on_its_own_world(caught).items():
        assert usual_tests(EXHIBITS[name]) == row
    assert usual_tests(EXHIBITS["goes-on"], WORLDS[0]) == caught["goes-on"]["dense"]


def test_counts_of_the_grid():
    """In the order of the tests, and how many at least one of the six usual ones catches."""
    caught = grid()
    assert len(BUGS) == 31
    assert count(caught[name]["dense"] for name in BUGS) == (11, 4, 16, 19, 14, 0, 25, 25)
    assert count(on_its_own_world(caught).values()) == (11, 4, 16, 20, 16, 2, 28, 28)
    anywhere = [
        {test: any(row[test] for row in caught[name].values()) for test in USUAL_TESTS} for name in BUGS
    ]
    assert count(anywhere) == (11, 5, 17, 20, 17, 5, 28, 28)
    assert count(on_its_own_world(grid(ROUNDING)).values()) == (13, 4, 18, 23, 17, 2, 30, 30)


@pytest.mark.parametrize("name", BUGS)
def test_the_joint_law_of_the_grid_is_that_of_the_certificate(name):
    exhibit = EXHIBITS[name]
    world = exhibit.world if exhibit.is_generator else replace(exhibit.world, n_tokens=exhibit.world.k + 1)
    distance = distance_on(exhibit.sampler, world, exhibit.is_generator)
    assert usual_tests(exhibit, world, distance - F(1, 10**12))["joint law"]
    assert not usual_tests(exhibit, world, distance + F(1, 10**12))["joint law"]


@pytest.mark.parametrize("test", USUAL_TESTS)
def test_each_test_catches_something_and_misses_something(test, verdicts):
    seen = [row[test] for row in on_its_own_world(verdicts).values()]
    assert any(seen)
    assert not all(seen)


def test_the_tests_have_the_holes_that_their_worlds_and_statistics_leave():
    caught = {
        name: usual_tests(EXHIBITS[name]) for name in ("failed-coin", "goes-on", "nan-residual", "few-bits")
    }
    assert all(usual_tests(EXHIBITS[name], threshold=ROUNDING)["joint law"] for name in caught)
    assert not caught["failed-coin"]["acceptance rate"]
    assert not caught["failed-coin"]["V = 2"]
    assert not caught["goes-on"]["first token"]
    assert [test for test, seen in caught["nan-residual"].items() if seen] == ["zero support", "joint law"]
    assert not any(caught["few-bits"].values())


def test_what_looks_at_a_part_of_the_text_sees_no_more_than_the_joint_law(verdicts):
    for row in verdicts.values():
        for tests in row.values():
            assert tests["joint law"] >= max(tests["first token"], tests["zero support"])


def test_the_closed_coin_has_the_right_law_everywhere(verdicts):
    assert not any(any(tests.values()) for tests in verdicts["closed-coin"].values())
    assert [name for name, row in on_its_own_world(grid(ROUNDING)).items() if not any(row.values())] == [
        "closed-coin"
    ]


@pytest.mark.parametrize("exhibit", of_kind("innocent"))
def test_an_innocent_is_accused_by_its_acceptance_rate_alone(exhibit, verdicts):
    for world, tests in verdicts[exhibit.name].items():
        assert [test for test, seen in tests.items() if seen] == ["acceptance rate"], world


@pytest.mark.parametrize("exhibit", of_kind("lossy"))
def test_a_lossy_rule_is_caught_by_the_joint_law(exhibit):
    assert usual_tests(exhibit)["joint law"]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("right", RIGHT, ids=["verifier", "generator"])
def test_a_right_sampler_is_caught_by_no_test_on_any_world(right, world):
    """The grid must not raise alarms of its own."""
    assert not any(usual_tests(right, world, ROUNDING).values())


def test_a_draft_that_looks_up_is_refused():
    world = replace(WORLDS[0], draft=NGramDraft(3))
    with pytest.raises(ValueError, match="'dense' has a draft that looks up; want a model"):
        usual_tests(EXHIBITS["goes-on"], world)
