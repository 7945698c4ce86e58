"""Drawing a token from a row, and reshaping rows."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.sampling import draw, temperature

LAST = 1 - 2.0**-53
rows = st.lists(st.floats(0, 1) | st.just(0.0), min_size=1, max_size=40).filter(lambda w: sum(w) > 1e-200)


def normalised(weights):
    row = np.array(weights)
    return row / row.sum()


@given(rows, st.floats(0, LAST) | st.sampled_from([0.0, LAST]))
def test_a_draw_stays_in_the_support(weights, u):
    row = normalised(weights)
    assert row[draw(row, u)] > 0


@given(rows, st.integers(0, 2**32 - 1))
def test_it_is_the_token_that_choice_would_give(weights, seed):
    row = normalised(weights)
    theirs = np.random.default_rng(seed).choice(len(row), p=row)
    assert draw(row, np.random.default_rng(seed).random()) == theirs


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any))
def test_the_share_of_uniforms_that_give_a_token_is_its_probability(weights):
    total = sum(weights)
    row = np.array([F(w, total) for w in weights], dtype=object)
    middles = [F(2 * cell + 1, 2 * total) for cell in range(total)]
    counts = np.bincount([draw(row, u) for u in middles], minlength=len(row))
    assert counts.tolist() == weights


def test_trailing_zeros_are_not_reached_by_rounding():
    row = np.array([0.1] * 10 + [0.0])  # its cumulative sum ends at 0.9999999999999999
    assert np.cumsum(row)[-1] < 1
    assert draw(row, LAST) == 9


def test_a_float32_row_is_summed_in_float64():
    row = np.full(2**17, 2.0**-17, dtype=np.float32)
    assert draw(row, LAST) == len(row) - 1
    assert draw(row, 0.5) == len(row) // 2


@pytest.mark.parametrize("u", [-0.1, 1.0, float("nan")])
def test_a_uniform_out_of_range_is_refused(u):
    with pytest.raises(ValueError, match="0 ≤ u < 1"):
        draw([0.5, 0.5], u)


@given(rows, st.floats(1e-300, 1e300))
def test_every_temperature_gives_a_row_on_the_same_support(weights, t):
    row = normalised(weights)
    hot = temperature(row, t)
    assert np.isfinite(hot).all()
    assert abs(hot.sum() - 1) < 1e-12
    assert not hot[row == 0].any()
    assert hot[np.argmax(row)] == hot.max()


@given(rows)
def test_the_ends_and_the_middle_of_temperature(weights):
    row = normalised(weights)
    assert temperature(row, None) is row
    assert temperature(row, 1) is row
    cold = temperature(row, 0)
    assert cold.sum() == 1
    assert cold[np.argmax(row)] == 1
    squared = row**2 / (row**2).sum() if (row**2).sum() > 1e-290 else None
    if squared is not None:
        np.testing.assert_allclose(temperature(row, 0.5), squared, rtol=1e-9, atol=1e-300)


def test_temperature_0_keeps_fractions():
    row = np.array([F(1, 3), F(1, 3), F(1, 3)], dtype=object)
    assert temperature(row, 0).tolist() == [1, 0, 0]
    assert temperature(row, 0).dtype == object


@pytest.mark.parametrize("t", [-1, float("nan"), float("inf")])
def test_a_senseless_temperature_is_refused(t):
    with pytest.raises(ValueError, match="temperature is"):
        temperature([0.5, 0.5], t)
