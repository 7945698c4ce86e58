"""For all rows at once: right rules hold, wrong ones do not, and each counterexample is one for the code."""

import copy
import sys
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import exact, verifiers
from specdecode.certify.worlds import table
from specdecode.museum import EXHIBITS
from specdecode.proof import (
    Undecided,
    certify_for_all_rows,
    completed_round,
    for_all_rows,
    induced_from_dists,
)
from specdecode.proof import all_rows as symbolic
from specdecode.rule import acceptance, overlap, residual
from specdecode.sampling import draw

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


def test_a_counterexample_is_the_first_of_the_smallest():
    found = for_all_rows(lambda p, q: (q, p), 2)
    assert found.rows == ((0, 1), (1, 0))
    found = for_all_rows(lambda p, q: (q, p), 3, positive=True)
    assert found.rows == ((F(1, 4), F(1, 4), F(1, 2)), (F(1, 4), F(1, 2), F(1, 4)))


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
    with pytest.raises(Undecided, match="an unknown entry went into more than"):
        certify_for_all_rows(EXHIBITS[name].sampler, 2)


def swallows_the_comparison(p, q):
    try:
        bad = p[0] > q[0]
    except BaseException:
        return p
    return q if bad else p


def swallows_the_refusal(p, q):
    try:
        float(p[0])
    except Exception:
        return p
    return q


def needs_a_power(p, q):
    try:
        p[0] ** 2
    except TypeError:
        return p
    return q


def looks_at_the_type(p, q):
    return q if isinstance(p[0], F) else p


def keeps_an_entry(p, q, memo={}):  # noqa: B006
    first, _ = memo.setdefault(len(p), (p, q))
    return p if first[0] > q[0] else [*p]


@pytest.mark.parametrize(
    ("emits", "why"),
    [
        (swallows_the_refusal, "an unknown entry went into more than"),
        (needs_a_power, "an unknown entry went into more than"),
        (looks_at_the_type, "the code looks at more than values"),
        (keeps_an_entry, "an entry was kept from an earlier run|in Fractions|more than"),
        (lambda p, q: [], "the claim equates 0 numbers with 2"),
        (lambda p, q: [*p, 5], "the claim equates 3 numbers with 2"),
        (lambda p, q: np.log(p), "an unknown entry went into more than"),
        (lambda p, q: p * float("inf"), "inf went into arithmetic"),
        (lambda p, q: q if 2 * p[0] * p[0] == 1 else p, "irrational"),
        (lambda p, q: [hash(p[0]), *p[1:]], "it cannot be followed|is none in Fractions"),
    ],
)
def test_code_that_could_deceive(emits, why):
    with pytest.raises(Undecided, match=why):
        for_all_rows(lambda p, q: (emits(p, q), p), 2)


def test_a_swallowed_comparison_splits_all_the_same():
    assert not for_all_rows(lambda p, q: (swallows_the_comparison(p, q), p), 2).holds


def test_a_loop_over_cases_ends(monkeypatch):
    monkeypatch.setattr(symbolic, "_MOST_CASES", 50)

    def counts(p, q):
        k = 1
        while p[0] * k < 1:
            k += 1
        return p

    with pytest.raises(Undecided, match="more than 50 cases"):
        for_all_rows(lambda p, q: (counts(p, q), p), 2)


@pytest.mark.parametrize("beyond", [float("inf"), -float("inf"), float("nan")])
def test_infinities_compare_as_they_do_with_numbers(beyond):
    def emits(p, q):
        same = [(x < beyond, x <= beyond, x > beyond, x >= beyond, x == beyond) for x in (p[0], 0.5)]
        return p if same[0] == same[1] else q

    assert for_all_rows(lambda p, q: (emits(p, q), p), 2).holds


right = verifiers.token


@pytest.mark.parametrize(
    "verifier",
    [
        lambda d, q, p, rng: [right(d, q, p, rng)[0] - 2],
        lambda d, q, p, rng: [right(d, q, p, rng)[0] + 0.5],
        lambda d, q, p, rng: [right(d, q, p, rng)[0] + 2],
        lambda d, q, p, rng: [],
        lambda d, q, p, rng: right(d, q, p, rng) if p[1][0] == 1 else [0],
        lambda d, q, p, rng: right(d, q, p, rng) if rng.random() < p[1][0] else [0],
        lambda d, q, p, rng: [int(np.flatnonzero(p[0] > q[0])[0])],
    ],
)
def test_verifiers_that_could_deceive(verifier):
    assert not certify_for_all_rows(verifier, 2).holds


def in_other_words(u_below):
    def verifier(d, q, p, rng):
        x = d[0]
        if u_below(rng, p[0][x], q[0][x]):
            return [x, draw(p[1], rng.random())]
        return [draw(verifiers.replacement(p[0], q[0]), rng.random())]

    return verifier


@pytest.mark.parametrize(
    "u_below",
    [
        lambda rng, p, q: rng.random() * q < p,
        lambda rng, p, q: 1 - rng.random() <= p / q,
        lambda rng, p, q: (rng.random(1) < p / q)[0],
        lambda rng, p, q: rng.random() - p / q < 0,
        lambda rng, p, q: p / q > (rng.random() + 1) / 2 * 2 - 1,
        lambda rng, p, q: rng.random(size=(2, 1))[1, 0] < min(1, p / q) and rng.random() < float("inf"),
    ],
)
def test_coins_in_other_words(u_below):
    assert certify_for_all_rows(in_other_words(u_below), 2).holds
    assert not certify_for_all_rows(in_other_words(lambda *row: not u_below(*row)), 2).holds


@pytest.mark.parametrize(
    ("uses", "why"),
    [
        (lambda rng: int(2 * float(rng.random())), "a uniform went into more than"),
        (lambda rng: int(2 * rng.random()), "a uniform went into more than"),
        (lambda rng: int(rng.random() < rng.random()), "two uniforms were compared"),
        (lambda rng: int(rng.random() + rng.random() < 1), "two uniforms were combined"),
        (lambda rng: int(rng.choice(2)), "rng.choice was asked for"),
        (lambda rng: int(copy.deepcopy(rng).random() < 0.5), "the rng was copied"),
    ],
)
def test_uniforms_that_cannot_be_followed(uses, why):
    def swallows(d, q, p, rng):
        try:
            return [uses(rng)]
        except Exception:
            return right(d, q, p, rng)

    for verifier in (lambda d, q, p, rng: [uses(rng)], swallows):
        with pytest.raises(Undecided, match=why):
            certify_for_all_rows(verifier, 2)


def test_a_loop_over_coins_ends(monkeypatch):
    monkeypatch.setattr(symbolic, "_MOST_ANSWERS", 20)

    def waits(d, q, p, rng):
        while rng.random() < 0.5:
            pass
        return right(d, q, p, rng)

    with pytest.raises(Undecided, match="uniforms were compared more than 20 times"):
        certify_for_all_rows(waits, 2)


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


def test_without_z3_the_install_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ImportError, match=r"pip install 'specdecode\[smt\]'"):
        for_all_rows(identity, 2)
