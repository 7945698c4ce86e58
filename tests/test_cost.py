"""Closed forms against sums, against each other, and against what the generator counts."""

from fractions import Fraction as F

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from worlds import DRAFT, TARGET

from specdecode import draft_from_target, generate_speculative, random_markov
from specdecode.cost import (
    accepted_per_proposed,
    best_k,
    expected_tokens,
    markov_tokens_per_step,
    speedup,
)
from specdecode.drafts import ModelDraft
from specdecode.exact import law
from specdecode.models import next_rows
from specdecode.verifiers import token


@pytest.mark.parametrize("k", range(1, 7))
def test_the_sum_is_the_closed_form_of_the_paper(k):
    alpha = sympy.symbols("alpha", positive=True)
    assert sympy.cancel(expected_tokens(alpha, k) - (1 - alpha ** (k + 1)) / (1 - alpha)) == 0
    assert sympy.cancel(accepted_per_proposed(alpha, k) - alpha * (1 - alpha**k) / ((1 - alpha) * k)) == 0
    assert expected_tokens(1, k) == k + 1
    assert expected_tokens(F(0), k) == 1


def test_the_acceptance_rate_falls_with_k_though_the_draft_is_the_same():
    rates = [accepted_per_proposed(F(4, 5), k) for k in range(1, 9)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == F(4, 5) > rates[-1]


@given(st.fractions(0, 1), st.integers(0, 12))
def test_tokens_per_pass_stay_between_one_and_the_ceiling(alpha, k):
    assert 1 <= expected_tokens(alpha, k) <= k + 1


def test_best_k_is_best():
    for alpha in (0.0, 0.3, 0.8, 0.97, 1.0):
        for cost in (0.0, 0.05, 0.5):
            k = best_k(alpha, cost, longest=30)
            best = max(speedup(expected_tokens(alpha, n), n, cost) for n in range(31))
            assert speedup(expected_tokens(alpha, k), k, cost) == best
    assert best_k(0.8, 0.1, verify_cost=lambda n: n) == 0, "no free positions, no gain"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_expected_accepted_tokens_are_those_of_the_running_rule(k):
    """E[accepted | s] = Σ (Aⁱ 1)(s): the matrix form against the enumerated law of the verifier."""

    def accepted(rng):
        drafted, rows = ModelDraft(DRAFT).propose([0], k, rng)
        return len(token(drafted, rows, next_rows(TARGET, [0, *drafted], k + 1), rng)) - 1

    enumerated = sum(count * mass for count, mass in law(accepted).items())
    shared = np.minimum(TARGET.rows, DRAFT.rows)
    closed, power = F(0), np.eye(3, dtype=int).astype(object)
    for _ in range(k):
        power = power.dot(shared)
        closed += power[0].sum()
    assert enumerated == closed


def test_the_markov_form_is_the_paper_formula_when_acceptance_is_the_same_everywhere():
    coin, bent = [[0.5, 0.3, 0.2]] * 3, [[0.2, 0.3, 0.5]] * 3
    for k in range(1, 8):
        assert markov_tokens_per_step(coin, bent, k) == pytest.approx(expected_tokens(0.7, k), rel=1e-12)


@pytest.mark.parametrize(("agreement", "k"), [(0.3, 2), (0.8, 4), (0.95, 8)])
def test_the_markov_form_is_what_the_generator_counts(agreement, k):
    target = random_markov(12, seed=1)
    draft = draft_from_target(target, agreement, seed=2)
    n = 20_000
    trace = generate_speculative(target, draft, [0], n, k, np.random.default_rng(0))
    exact = markov_tokens_per_step(target.rows, draft.rows, k)
    # Rounds lie between 1 and k + 1 tokens; successive rounds are nearly independent on dense rows.
    bound = 6 * (k + 1) / np.sqrt(trace.target_passes)
    message = (
        f"n = {trace.target_passes}, counted {trace.tokens_per_step:.4f}, exact {exact:.4f}, ± {bound:.4f}"
    )
    assert abs(trace.tokens_per_step - exact) < bound, message
    assert abs(expected_tokens(0.1, k) - exact) > bound, "the bound would let a wrong α through"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: expected_tokens(0.5, -1), "k is -1"),
        (lambda: accepted_per_proposed(0.5, 0), "k is 0"),
        (lambda: speedup(2.0, 1, -0.1), "draft_cost is -0.1"),
        (lambda: speedup(2.0, 1, 0.1, 0), "verify_cost 0"),
        (lambda: best_k(1.2, 0.1), "alpha is 1.2"),
        (lambda: best_k(float("nan"), 0.1), "alpha is nan"),
        (lambda: markov_tokens_per_step([[1.0]], [[0.5]], 1), "draft_rows: row 0 sums to 0.5"),
        (lambda: markov_tokens_per_step(np.eye(2), np.eye(2), 1), "more than one closed class"),
    ],
)
def test_bad_input_is_told(call, says):
    with pytest.raises(ValueError, match=says):
        call()
