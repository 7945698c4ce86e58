"""Two programs: equal laws are found equal, others not, and what cannot be followed is sampled."""

import json
import time
from collections import Counter
from fractions import Fraction as F

import numpy as np
import pytest

from specdecode import generate_speculative, generate_target_only, verifiers
from specdecode.certify import compare_samples, same_law
from specdecode.certify.statistics import two_sample_test
from specdecode.certify.worlds import DENSE
from specdecode.exact import law
from specdecode.museum import EXHIBITS

ALPHA = 1e-6

TARGET, DRAFT = DENSE


def plain(rng):
    return tuple(generate_target_only(TARGET, [0], 2, rng))


def speculative(rng, verifier=verifiers.token):
    return tuple(generate_speculative(TARGET, DRAFT, [0], 2, 2, rng, verifier=verifier).tokens)


def wrong(rng):
    return speculative(rng, EXHIBITS["replaces-from-p"].sampler)


def unfollowed(program):
    """The same law by way of a draw that cannot be followed."""

    def run(rng):
        return program(np.random.default_rng(int(abs(rng.normal()) * 2**40)))

    run.__qualname__ = f"unfollowed {program.__qualname__}"
    return run


def test_speculation_on_and_off_have_one_law():
    found = same_law(plain, speculative, tolerance=0)
    assert (found.verdict, found.method, found.total_variation) == ("equal", "enumerated", 0)
    assert found.subjects == ("plain", "speculative")
    assert found.require_equal() is found


def test_a_wrong_verifier_is_told_apart_with_the_outcome_that_differs_most():
    found = same_law(plain, wrong)
    assert (found.verdict, found.method) == ("not equal", "enumerated")
    outcome, a, b = found.worst
    laws = law(plain), law(wrong)
    assert (a, b) == tuple(either[outcome] for either in laws)
    assert abs(a - b) == max(abs(laws[0].get(x, 0) - laws[1].get(x, 0)) for x in {*laws[0], *laws[1]})
    assert abs(a - b) > F(1, 100)
    with pytest.raises(AssertionError, match="differs most at"):
        found.require_equal()


def test_an_exception_is_an_outcome():
    def fails(rng):
        if rng.random() < 0.25:
            raise KeyError("a")
        return plain(rng)

    found = same_law(plain, fails)
    assert found.verdict == "not equal"
    assert found.total_variation == F(1, 4)
    assert "fails raised KeyError: 'a' with probability 2.5e-01" in found.notes[0]


def test_what_cannot_be_followed_is_sampled_and_says_why():
    right = same_law(plain, unfollowed(speculative), draws=3000)
    assert (right.verdict, right.method, right.total_variation) == ("no difference found", "sampled", None)
    assert "rng.normal" in right.reason
    assert 0 < right.resolution < 0.5
    refuted = same_law(plain, unfollowed(wrong), draws=3000)
    assert (refuted.verdict, refuted.method) == ("not equal", "sampled")
    with pytest.raises(AssertionError):
        right.require_equal()  # sampling proves nothing equal


def test_too_many_paths_are_sampled():
    found = same_law(plain, speculative, max_paths=10, draws=1000)
    assert found.method == "sampled"
    assert "more than 10 paths" in found.reason


def test_state_of_its_own_is_sampled():
    calls = []

    def counts(rng):
        calls.append(0)
        return len(calls), rng.random() < 0.5

    assert "state of its own" in same_law(counts, counts, draws=200).reason


def test_time_ends_in_no_answer():
    def slow(rng):
        time.sleep(0.01)
        return tuple(rng.random(20) < 0.5)

    for unfollowable in (False, True):  # while enumerating, and while sampling
        program = unfollowed(slow) if unfollowable else slow
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="not finished in the time allowed"):
            same_law(program, program, draws=10**6, seconds=1.0)
        assert time.monotonic() - began < 6


@pytest.mark.parametrize(
    ("setting", "said"),
    [({"tolerance": -1}, "tolerance is -1"), ({"alpha": 0}, "alpha is 0"), ({"draws": 10}, "draws is 10")],
)
def test_settings_out_of_range_are_refused(setting, said):
    with pytest.raises(ValueError, match=said):
        same_law(plain, speculative, **setting)


def test_the_answer_is_plain_data():
    for found in (same_law(plain, wrong), same_law(plain, unfollowed(plain), draws=200)):
        told = json.loads(json.dumps(found.to_dict()))
        assert told["verdict"] == found.verdict
        assert set(told) == set(found.__dataclass_fields__)


# The two-sample test


def test_its_level_is_what_it_says():
    """At alpha = 1/20, 2000 pairs of equal laws: false alarms within what chance allows at 1e-6."""
    rng, alpha, n = np.random.default_rng(0), 0.05, 2000
    row = [0.5, 0.3, 0.15, 0.05]
    alarms = 0
    for _ in range(n):
        a, b = (dict(enumerate(rng.multinomial(size, row).tolist())) for size in (2000, 1500))
        alarms += two_sample_test(a, b)[0] < alpha
    bound = 4.9 * np.sqrt(alpha * (1 - alpha) / n)
    assert abs(alarms / n - alpha) < bound, f"{alarms} of {n}"


def test_the_resolution_is_seen():
    """Two laws as far apart as the resolution are told apart nearly always."""
    rng, n = np.random.default_rng(0), 4000
    row = np.array([0.4, 0.3, 0.2, 0.1])
    first = compare_samples(("a", "b"), {"": ({0: 1600, 1: 1200, 2: 800, 3: 400},) * 2}, ALPHA)
    moved = row + first.resolution * np.array([0.5, 0.5, -1, 0])
    assert moved.min() > 0
    told = 0
    for _ in range(100):
        counts = [dict(enumerate(rng.multinomial(n, law).tolist())) for law in (row, moved)]
        told += compare_samples(("a", "b"), {"": counts}, ALPHA).verdict == "not equal"
    assert told >= 95


def test_groups_share_the_level():
    even, skew = Counter(a=500, b=500), Counter(a=630, b=370)
    p_value, _ = two_sample_test(even, skew)
    alpha = 1.5 * p_value
    assert compare_samples(("x", "y"), {"one": (even, skew)}, alpha).verdict == "not equal"
    both = {"one": (even, skew), "two": (even, even)}
    assert compare_samples(("x", "y"), both, alpha).verdict == "no difference found"


def test_rare_outcomes_are_merged_and_few_say_nothing():
    assert two_sample_test(Counter(range(60)), Counter(range(60, 120))) == (1.0, 0)
    assert two_sample_test({}, {}) == (1.0, 0)


def test_one_outcome_every_time_is_noted():
    found = compare_samples(("x", "y"), {"a prompt": ({"t": 500}, {"t": 250, "u": 250})})
    assert found.verdict == "not equal"
    assert "x gave one outcome, every time, for a prompt" in found.notes[0]
    constant = compare_samples(("x", "y"), {"": ({"t": 500}, {"t": 500})}, reason="a draw cannot be followed")
    assert "x and y gave one outcome" in constant.notes[0]


@pytest.mark.parametrize("groups", [{}, {"one": ({}, {"a": 1})}])
def test_nothing_to_compare_is_refused(groups):
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_samples(("a", "b"), groups)


def test_two_programs_that_always_fail_are_no_pair():
    def broken(rng):
        raise NameError("engine")

    with pytest.raises(ValueError, match="broken raised NameError: engine, every time"):
        same_law(broken, broken)
    with pytest.raises(ValueError, match="every time"):
        same_law(unfollowed(plain), broken, draws=100)


def test_lists_and_arrays_are_outcomes_and_objects_are_not():
    found = same_law(lambda rng: list(plain(rng)), lambda rng: np.array(plain(rng)))
    assert (found.verdict, found.total_variation) == ("equal", 0)
    for outcome in ({}, object(), (1, {2})):
        with pytest.raises(ValueError, match="want token ids, numbers, text, or tuples of them"):
            same_law(lambda rng, outcome=outcome: outcome, plain)


def test_too_few_of_any_outcome_says_that_nothing_could_be_seen():
    found = compare_samples(("x", "y"), {"": (Counter(range(49)), Counter(range(50, 99)))})
    assert found.verdict == "no difference found"
    assert "nothing could be told apart" in found.notes[0]
    assert "would have been seen" not in str(found)
