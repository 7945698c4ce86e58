"""For all rows at once: right rules hold, wrong ones do not, and each counterexample is one for the code."""

from fractions import Fraction as F

import numpy as np
import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import exact, verifiers
from specdecode.museum import EXHIBITS
from specdecode.proof import induced_from_dists
from specdecode.rule import acceptance, overlap, residual
from specdecode.sampling import draw
from specdecode.symbolic import Undecided, first_token, for_all_rows
from specdecode.worlds import table

RIGHT = [verifiers.token, verifiers.block, verifiers.one_hot, verifiers.sampler_match]
RIGHT_AT_FIRST = ["shifted-rows", "closed-coin", "goes-on", "bonus-from-q", "bonus-arg-maxed", "one-hot"]
WRONG = [
    "failed-coin",
    "coin-stuck",
    "subtracts-at-the-token",
    "replaces-from-p",
    "draws-again",
    "ratio-to-the-maximum",
    "floored-residual",
    "always-greedy",
    "samples-only-the-bonus",
]


def law_of_first(verifier, p, q):
    """The same question asked of `exact`, with numbers for rows."""
    p, q = np.array(p, dtype=object), np.array(q, dtype=object)
    bonus = np.array([F(1), *[F(0)] * (len(p) - 1)], dtype=object)

    def program(rng):
        x = draw(q, rng.random())
        return int(verifier(np.array([x]), np.array([q]), np.array([p, bonus]), rng)[0])

    law = exact.law(program)
    return [law.get(x, 0) for x in range(len(p))]


@pytest.mark.parametrize("vocab_size", [1, 2, 3])
def test_the_identity_holds_for_all_rows(vocab_size):
    assert for_all_rows(induced_from_dists, vocab_size).holds


@pytest.mark.parametrize("vocab_size", [4, 5])
def test_the_identity_holds_for_all_positive_rows(vocab_size):
    found = for_all_rows(induced_from_dists, vocab_size, positive=True)
    assert found.holds
    assert found.cases == 2**vocab_size - 1, "p ≤ q or not at each token, never p > q at all of them"


@pytest.mark.parametrize("verifier", RIGHT, ids=lambda v: v.__name__)
def test_verifiers_hold_for_all_rows(verifier):
    assert for_all_rows(first_token(verifier), 2).holds


@pytest.mark.parametrize("name", RIGHT_AT_FIRST)
def test_the_museums_first_tokens_that_are_right(name):
    assert for_all_rows(first_token(EXHIBITS[name].sampler), 2).holds


@pytest.mark.parametrize("name", WRONG)
def test_the_museums_first_tokens_that_are_wrong(name):
    sampler = EXHIBITS[name].sampler
    found = for_all_rows(first_token(sampler), 3, positive=True)
    assert not found.holds
    assert sum(found.p) == sum(found.q) == sum(found.emitted) == 1
    assert max(entry.denominator for entry in (*found.p, *found.q)) <= 5
    assert found.emitted != found.p
    assert law_of_first(sampler, found.p, found.q) == list(found.emitted), "not what the code does"


def test_two_tokens_hide_some():
    """As the museum says of V = 2: there is one replacement, and the others cannot be missed."""
    for name in ("failed-coin", "subtracts-at-the-token"):
        assert for_all_rows(first_token(EXHIBITS[name].sampler), 2).holds


def test_zeros_matter():
    sampler = EXHIBITS["nan-residual"].sampler
    assert for_all_rows(first_token(sampler), 2, positive=True).holds
    found = for_all_rows(first_token(sampler), 2)
    assert not found.holds
    assert 0 in found.q
    assert found.error.startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    "emits",
    [
        lambda p, q: q,
        lambda p, q: overlap(p, q),
        lambda p, q: q * acceptance(p, q) + (1 - overlap(p, q).sum()) * p,
        lambda p, q: overlap(p, q) + residual(p, q) * (1 - overlap(q, q * 1).sum()),
    ],
)
def test_wrong_formulas_do_not_hold(emits):
    assert not for_all_rows(emits, 3).holds


@pytest.mark.parametrize(
    "emits",
    [
        lambda p, q: p,
        lambda p, q: [*p],
        lambda p, q: overlap(p, q) + abs(p - q) / 2 + (p - q) / 2,
        lambda p, q: (2 * p + 1 - (1 - p * 0) / 1) / 2,
        lambda p, q: np.array([1 / (1 / x) if x > 0 else 0 for x in p]),
        lambda p, q: [x if x >= 0 and not x < 0 and x <= 1 and x != 2 else 5 for x in p],
    ],
)
def test_arithmetic_and_comparisons(emits):
    assert for_all_rows(emits, 3).holds


weights = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)


@settings(max_examples=30, deadline=None)
@given(weights, weights, st.sampled_from([*RIGHT, *(EXHIBITS[name].sampler for name in WRONG)]))
def test_the_first_token_is_that_of_exact(p, q, verifier):
    p, q = table(p, q, [1, 1, 1]).rows[:2]
    try:
        expected = law_of_first(verifier, p, q)
    except (ValueError, ArithmeticError) as error:
        with pytest.raises(type(error)):
            first_token(verifier)(p, q)
    else:
        assert first_token(verifier)(p, q) == expected


@pytest.mark.parametrize("name", ["softmaxed-residual", "typical"])
def test_what_cannot_be_followed_is_refused(name):
    with pytest.raises(Undecided, match="an unknown entry was turned into a float"):
        for_all_rows(first_token(EXHIBITS[name].sampler), 2)


def test_a_uniform_turned_into_a_float_is_refused():
    def verifier(draft_tokens, draft_dists, target_dists, rng):
        return [int(2 * float(rng.random()))]

    with pytest.raises(Undecided, match="a uniform was turned into a float"):
        for_all_rows(first_token(verifier), 2)


def test_a_solver_that_gives_up_is_not_believed(monkeypatch):
    monkeypatch.setattr(z3.Solver, "check", lambda solver: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda solver: "timeout")
    with pytest.raises(Undecided, match=r"the solver gave up \(timeout\)"):
        for_all_rows(induced_from_dists, 2)


def test_bad_input():
    with pytest.raises(ValueError, match="vocab_size is 0"):
        for_all_rows(induced_from_dists, 0)
