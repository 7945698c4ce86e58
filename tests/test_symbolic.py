"""For all rows at once: right rules hold, wrong ones do not, and each counterexample is one for the code."""

from fractions import Fraction as F
from itertools import product

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
from specdecode.symbolic import Undecided, certify_for_all_rows, completed_round, for_all_rows
from specdecode.worlds import table

RIGHT = [verifiers.token, verifiers.block, verifiers.one_hot, verifiers.sampler_match]
WRONG_AT_FIRST = [
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
WRONG_LATER = ["shifted-rows", "reseeded-coin", "goes-on"]


def identity(p, q):
    return induced_from_dists(p, q), p


def law_of_round(verifier, k, rows):
    """The law of a completed round, asked of `exact`, with numbers for rows."""
    size, half = len(rows[0]), len(rows) // 2
    short = [text for length in range(k) for text in product(range(size), repeat=length)]
    target, draft = (dict(zip(short, part)) for part in (rows[:half], rows[half:]))
    bonus = np.array([F(1), *[F(0)] * (size - 1)], dtype=object)

    def program(rng):
        drafted = ()
        for _ in range(k):
            drafted = (*drafted, draw(draft[drafted], rng.random()))
        draft_dists = np.array([draft[drafted[:i]] for i in range(k)])
        target_dists = np.array([*(target[drafted[:i]] for i in range(k)), bonus])
        text = tuple(map(int, verifier(np.array(drafted), draft_dists, target_dists, rng)))[:k]
        while len(text) < k:
            text = (*text, draw(target[text], rng.random()))
        return text

    law = exact.law(program)
    return [law.get(text, 0) for text in product(range(size), repeat=k)]


def as_rows(rows):
    return [np.array(row, dtype=object) for row in rows]


# --- what holds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [1, 2, 3])
def test_the_identity_holds_for_all_rows(vocab_size):
    assert for_all_rows(identity, vocab_size).holds


@pytest.mark.parametrize("vocab_size", [4, 5])
def test_the_identity_holds_for_all_positive_rows(vocab_size):
    found = for_all_rows(identity, vocab_size, positive=True)
    assert found.holds
    assert found.cases == 2**vocab_size - 1, "p > q or not at each token, never p > q at all of them"


@pytest.mark.parametrize("verifier", RIGHT, ids=lambda v: v.__name__)
def test_verifiers_hold_for_all_rows(verifier):
    assert certify_for_all_rows(verifier, 3).holds
    assert certify_for_all_rows(verifier, 2, k=2, positive=True).holds


@pytest.mark.parametrize("name", [*WRONG_LATER, "closed-coin", "bonus-from-q", "bonus-arg-maxed", "one-hot"])
def test_the_museums_first_tokens_that_are_right(name):
    assert certify_for_all_rows(EXHIBITS[name].sampler, 3, positive=True).holds


# --- what does not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRONG_AT_FIRST)
def test_the_museums_first_tokens_that_are_wrong(name):
    sampler = EXHIBITS[name].sampler
    found = certify_for_all_rows(sampler, 3, positive=True)
    assert not found.holds
    assert found.expected == found.rows[0] != found.found
    assert all(sum(row) == 1 for row in (*found.rows, found.found))
    assert max(entry.denominator for row in found.rows for entry in row) <= 5
    assert law_of_round(sampler, 1, as_rows(found.rows)) == list(found.found), "not what the code does"


@pytest.mark.parametrize("name", WRONG_LATER)
def test_the_museums_later_tokens_that_are_wrong(name):
    sampler = EXHIBITS[name].sampler
    found = certify_for_all_rows(sampler, 2, k=2, positive=True)
    assert not found.holds
    assert law_of_round(sampler, 2, as_rows(found.rows)) == list(found.found) != list(found.expected)


def test_two_tokens_hide_some():
    """As the museum says of V = 2: there is one replacement, and the others cannot be missed."""
    for name in ("failed-coin", "subtracts-at-the-token"):
        assert certify_for_all_rows(EXHIBITS[name].sampler, 2).holds


def test_zeros_matter():
    sampler = EXHIBITS["nan-residual"].sampler
    assert certify_for_all_rows(sampler, 3, positive=True).holds
    found = certify_for_all_rows(sampler, 2)
    assert not found.holds
    assert 0 in found.rows[1]
    assert found.error.startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    "emits",
    [
        lambda p, q: q,
        lambda p, q: overlap(p, q),
        lambda p, q: q * acceptance(p, q) + (1 - overlap(p, q).sum()) * p,
        lambda p, q: overlap(p, q) + residual(p, q) * overlap(p, q).sum(),
    ],
)
def test_wrong_formulas_do_not_hold(emits):
    assert not for_all_rows(lambda p, q: (emits(p, q), p), 3).holds


# --- the numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "emits",
    [
        lambda p, q: p,
        lambda p, q: [*p],
        lambda p, q: overlap(p, q) + abs(p - q) / 2 + (p - q) / 2,
        lambda p, q: (2 * p + 1 - (1 - p * 0) / 1) / 2,
        lambda p, q: np.array([1 / (1 / x) if x > 0 else 0 for x in p]),
        lambda p, q: [x if x >= 0 and not x < 0 and x <= 1 and x != 2 else 5 for x in p],
        lambda p, q: np.where(p > q, p, np.minimum(p, q)),
        lambda p, q: p[np.argsort(np.argsort(p))][: len(p)] * 0 + p,
        lambda p, q: np.cumsum(p) - np.array([0, *np.cumsum(p)[:-1]], dtype=object),
    ],
)
def test_arithmetic_and_comparisons(emits):
    assert for_all_rows(lambda p, q: (emits(p, q), p), 3).holds


weights = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)
museum = [EXHIBITS[name].sampler for name in (*WRONG_AT_FIRST, *WRONG_LATER)]


@settings(max_examples=30, deadline=None)
@given(weights, weights, st.sampled_from([*RIGHT, *museum]))
def test_one_position_is_that_of_exact(p, q, verifier):
    rows = table(p, q, [1, 1, 1]).rows[:2]
    try:
        expected = law_of_round(verifier, 1, rows)
    except (ValueError, ArithmeticError) as error:
        with pytest.raises(type(error)):
            completed_round(verifier)(*rows)
    else:
        assert completed_round(verifier)(*rows)[0] == expected


pairs = st.lists(st.integers(1, 4), min_size=2, max_size=2)


@settings(max_examples=30, deadline=None)
@given(st.lists(pairs, min_size=6, max_size=6), st.sampled_from([*RIGHT, *museum]))
def test_two_positions_are_those_of_exact(weights, verifier):
    rows = [np.array([F(w, sum(row)) for w in row], dtype=object) for row in weights]
    found, expected = completed_round(verifier, 2)(*rows)
    assert found == law_of_round(verifier, 2, rows)
    if verifier in RIGHT:
        assert found == expected


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmaxed-residual", "typical"])
def test_what_cannot_be_followed_is_refused(name):
    with pytest.raises(Undecided, match="an unknown entry was turned into a float"):
        certify_for_all_rows(EXHIBITS[name].sampler, 2)


def test_a_uniform_turned_into_a_float_is_refused():
    def verifier(draft_tokens, draft_dists, target_dists, rng):
        return [int(2 * float(rng.random()))]

    with pytest.raises(Undecided, match="a uniform was turned into a float"):
        certify_for_all_rows(verifier, 2)


def test_a_solver_that_gives_up_is_not_believed(monkeypatch):
    monkeypatch.setattr(z3.Solver, "check", lambda solver: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda solver: "timeout")
    with pytest.raises(Undecided, match=r"the solver gave up \(timeout\)"):
        for_all_rows(identity, 2)


def test_bad_input():
    with pytest.raises(ValueError, match="vocab_size is 0"):
        for_all_rows(identity, 0)
    with pytest.raises(ValueError, match="k is 0"):
        certify_for_all_rows(verifiers.token, 2, k=0)
    with pytest.raises(Undecided, match="the claim equates 2 numbers with 1"):
        for_all_rows(lambda p, q: (p, p[:1]), 2)
