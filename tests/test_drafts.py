"""Drafts hand over their tokens with the rows they were drawn from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.drafts import Draft, ModelDraft, NGramDraft, as_draft
from specdecode.models import random_markov
from specdecode.sampling import draw

MODEL = random_markov(5, seed=3)


def test_a_model_draft_draws_each_token_from_the_row_it_returns():
    tokens, rows = ModelDraft(MODEL).propose((0, 1), 6, np.random.default_rng(0))
    text, rng = [0, 1], np.random.default_rng(0)
    for token, row in zip(tokens, rows):
        assert np.array_equal(row, MODEL.next_dist(text))
        assert token == draw(row, rng.random())
        text.append(token)
    assert all(type(token) is int for token in tokens)


def test_a_float32_model_is_tested_against_the_row_it_was_drawn_from():
    class Narrow:
        vocab_size = 5

        def next_dist(self, prefix):
            return MODEL.next_dist(prefix).astype(np.float32)

    _, rows = ModelDraft(Narrow()).propose([0], 1, np.random.default_rng(0))
    assert rows.dtype == np.float64
    assert abs(rows[0].sum() - 1) < 1e-15


@given(st.lists(st.integers(0, 2), max_size=24), st.integers(1, 6), st.integers(1, 4))
def test_a_look_up_copies_from_the_text(text, k, longest):
    tokens, rows = NGramDraft(3, longest).propose(tuple(text), k, rng=None)
    assert len(tokens) <= k
    assert rows.shape == (len(tokens), 3)
    assert [int(np.argmax(row)) for row in rows] == tokens
    assert (rows.sum(axis=1) == 1).all()
    if tokens:
        starts = range(1, len(text))
        assert any(text[s : s + len(tokens)] == tokens and text[s - 1] == text[-1] for s in starts)
    else:
        assert text[-1:] == [] or text[-1] not in text[:-1]


@pytest.mark.parametrize(
    ("text", "longest", "tokens"),
    [
        ([], 3, []),
        ([1], 3, []),
        ([1, 2, 3], 3, []),
        ([1, 2, 3, 1], 3, [2, 3, 1]),
        ([1, 1], 3, [1]),
        ([1, 2, 9, 3, 2, 8, 1, 2], 3, [9, 3, 2]),  # the longer run wins over the later one
        ([1, 2, 9, 3, 2, 8, 1, 2], 1, [8, 1, 2]),
        ([5, 6, 1, 5, 6, 2, 5, 6], 2, [2, 5, 6]),  # of equal runs, the latest
    ],
)
def test_the_longest_run_and_then_the_latest(text, longest, tokens):
    assert NGramDraft(10, longest).propose(text, 3, None)[0] == tokens


def test_models_are_sampled_and_drafts_are_left_alone():
    look_up = NGramDraft(5)
    assert as_draft(look_up) is look_up
    assert isinstance(as_draft(MODEL), ModelDraft)
    assert isinstance(look_up, Draft)
    with pytest.raises(ValueError, match="draft is a list; want"):
        as_draft([0.5, 0.5])


def test_bad_sizes_are_told():
    with pytest.raises(ValueError, match="longest is 0"):
        NGramDraft(5, longest=0)
    with pytest.raises(ValueError, match="vocab_size is 0"):
        NGramDraft(0)
