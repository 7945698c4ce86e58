"""Models are pure functions of their prefix, one row at a time or several in one pass."""

import copy as copying
import pickle
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.models import (
    MappedModel,
    MarkovModel,
    Model,
    Prefix,
    RepetitionPenalty,
    common_prefix,
    draft_from_target,
    next_rows,
    random_markov,
)
from specdecode.sampling import temperature

BASE = random_markov(4, seed=1)
MODELS = [BASE, RepetitionPenalty(BASE, 3.0), MappedModel(BASE, lambda row: temperature(row, 0.7))]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@given(tokens=st.lists(st.integers(0, 3), min_size=1, max_size=8), data=st.data())
def test_rows_of_one_pass_are_the_rows_of_many(model, tokens, data):
    n = data.draw(st.integers(1, len(tokens)))
    singly = [model.next_dist(tokens[: len(tokens) - n + 1 + i]) for i in range(n)]
    np.testing.assert_array_equal(next_rows(model, tokens, n), singly)
    assert isinstance(model, Model)


def test_a_single_pass_is_used_where_there_is_one():
    class Counting(MarkovModel):
        passes = 0

        def next_dists(self, tokens, n):
            self.passes += 1
            return super().next_dists(tokens, n)

    model = Counting([[0.5, 0.5], [1.0, 0.0]])
    next_rows(model, [0, 1, 0], 3)
    assert model.passes == 1


def test_the_first_implementation_rows_come_out():
    rng = np.random.default_rng(1)
    assert np.array_equal(random_markov(5, 1).rows, rng.dirichlet([0.3] * 5, size=5))
    other = np.random.default_rng(2).dirichlet([0.4] * 5, size=5)
    mixed = 0.8 * random_markov(5, 1).rows + (1 - 0.8) * other
    assert np.array_equal(
        draft_from_target(random_markov(5, 1), 0.8, 2).rows, mixed / mixed.sum(axis=1, keepdims=True)
    )


def test_tables_are_copied_and_read_only():
    rows = np.array([[0.5, 0.5], [1.0, 0.0]])
    model = MarkovModel(rows)
    rows[0] = [1.0, 0.0]
    assert model.next_dist([0]).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        model.rows[0, 0] = 1


def test_a_penalty_looks_at_the_whole_prefix():
    coin = MarkovModel([[F(1, 3)] * 3] * 3)
    assert RepetitionPenalty(coin, 2).next_dist([0, 1]).tolist() == [F(1, 4), F(1, 4), F(1, 2)]
    assert RepetitionPenalty(coin, 2).next_dist([2, 1]).tolist() == [F(1, 2), F(1, 4), F(1, 4)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: BASE.next_dist([]), "prefix is empty"),
        (lambda: BASE.next_dist([4]), "last token is 4"),
        (lambda: MarkovModel([]), "number of rows is 0"),
        (lambda: MarkovModel([[0.5, 0.5]]), r"shape \(1, 2\)"),
        (lambda: random_markov(0, seed=1), "vocab_size is 0"),
        (lambda: draft_from_target(BASE, 1.5, 2), "agreement is 1.5"),
        (lambda: draft_from_target(MODELS[1], 0.5, 2), "want a MarkovModel"),
        (lambda: RepetitionPenalty(BASE, 0.5), "penalty is 0.5"),
    ],
)
def test_bad_input_is_told(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_model_that_returns_no_distribution_is_named():
    class Broken:
        vocab_size = 2

        def next_dist(self, prefix):
            return np.array([0.7, 0.7])

    with pytest.raises(ValueError, match=r"Broken rows: sums to 1\.4"):
        next_rows(Broken(), [0], 1)


@pytest.mark.parametrize(
    ("a", "b", "length"), [([1, 2, 3], [1, 2, 4, 5], 2), ([], [1], 0), ((1, 2), [1, 2], 2), ("abc", "abd", 2)]
)
def test_the_common_prefix_is_the_longest(a, b, length):
    assert common_prefix(a, b) == common_prefix(b, a) == length
    assert list(a[:length]) == list(b[:length])


def test_a_prefix_is_a_list_that_only_its_owner_writes_to():
    text = Prefix([0, 1])
    text.grow(2)
    assert text == [0, 1, 2]
    for copy in (text[:], list(text), text.copy(), copying.copy(text), copying.deepcopy(text), [*text]):
        copy.append(3)
        assert type(copy) is list
        assert copy == [0, 1, 2, 3]
    assert pickle.loads(pickle.dumps(text)) == text == [0, 1, 2]
    for write in (
        lambda: text.append(3),
        lambda: text.extend([3]),
        lambda: text.insert(0, 3),
        lambda: text.pop(),
        lambda: text.remove(1),
        lambda: text.clear(),
        lambda: text.sort(),
        lambda: text.reverse(),
        lambda: text.__setitem__(0, 1),
        lambda: text.__setitem__(slice(None), []),
        lambda: text.__delitem__(0),
        lambda: text.__iadd__([3]),
        lambda: text.__imul__(2),
    ):
        with pytest.raises(ValueError, match="changed the tokens it was given"):
            write()
    assert text == [0, 1, 2]


def test_a_mask_is_seen_through_a_map():
    masked = MappedModel(BASE, lambda row: np.ma.masked_less(row, row.max()))
    with pytest.raises(ValueError, match=r"MappedModel rows\[0\]: entry . is masked"):
        masked.next_dist([0])
