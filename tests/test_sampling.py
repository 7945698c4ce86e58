"""Drawing a token from a row, and reshaping rows."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode import checks, generate_speculative, verifiers
from specdecode.certify.worlds import DENSE
from specdecode.exact import ancestral_law, distance, law
from specdecode.models import MappedModel, next_rows
from specdecode.sampling import Settings, draw, min_p, suppress, temperature, top_k, top_p, uniform

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


# Filters


ROW = np.array([0.4, 0.3, 0.2, 0.1])
EXACT = np.array([F(4, 10), F(3, 10), F(2, 10), F(1, 10)])


@pytest.mark.parametrize(
    ("filtered", "kept"),
    [
        (top_k(EXACT, 2), [F(4, 7), F(3, 7), 0, 0]),
        (top_k(EXACT, 9), EXACT),
        (top_k(EXACT, 0), EXACT),
        (top_k([F(1, 4), F(1, 2), F(1, 4)], 2), [F(1, 4), F(1, 2), F(1, 4)]),  # a tie stays whole
        (top_p(EXACT, F(7, 10)), [F(4, 7), F(3, 7), 0, 0]),
        (top_p(EXACT, F(71, 100)), [F(4, 9), F(3, 9), F(2, 9), 0]),
        (top_p(EXACT, F(1, 100)), [1, 0, 0, 0]),
        (top_p(EXACT, 1), EXACT),
        (top_p([F(1, 4), F(1, 2), F(1, 4)], F(3, 4)), [0, F(2, 3), F(1, 3)]),  # of a tie the higher index
        (min_p(EXACT, F(1, 2)), [F(4, 9), F(3, 9), F(2, 9), 0]),
        (min_p(EXACT, 1), [1, 0, 0, 0]),
        (suppress(EXACT, [0, 2]), [0, F(3, 4), 0, F(1, 4)]),
        (suppress(EXACT, []), EXACT),
    ],
)
def test_filters_keep_rows_rational(filtered, kept):
    assert filtered.tolist() == list(kept)
    assert all(isinstance(entry, F) for entry in filtered)


def test_a_certain_row_stays_as_it_is():
    for row in ([0, 1, 0], np.array([F(0), F(1), F(0)])):
        for shaped in (top_k(row, 1), top_p(row, 0.5), min_p(row, 0.5), Settings(temperature=0)(row)):
            assert shaped.tolist() == [0, 1, 0]


def test_the_order_is_temperature_first():
    """At temperature 2 the row is flatter, and the same top-p keeps more of it."""
    assert (top_p(ROW, 0.7) > 0).sum() == 2
    assert (Settings(temperature=2, top_p=0.7)(ROW) > 0).sum() == 3


@pytest.mark.parametrize("t", [1e-300, 1e300])
def test_extreme_temperatures_stay_finite(t):
    shaped = Settings(temperature=t, top_k=3, top_p=0.9, min_p=0.1)(ROW)
    assert np.isfinite(shaped).all()
    assert abs(shaped.sum() - 1) < 1e-12


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"top_p": 0}, "top_p is 0; want a number above 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"min_p": 2}, "min_p is 2"),
        (
            {"temperature": 0, "top_p": 0.9},
            "temperature 0 leaves one token, so top_p = 0.9 has nothing to do",
        ),
        ({"temperature": 0, "top_k": 1}, "temperature 0 leaves one token, so top_k = 1"),
    ],
)
def test_settings_out_of_range_or_at_odds(options, says):
    with pytest.raises(ValueError, match=says):
        Settings(**options)


def test_what_is_off_goes_with_temperature_0():
    assert Settings(temperature=0, top_k=0, top_p=1, min_p=0)(ROW).tolist() == [1, 0, 0, 0]


def test_a_row_filtered_to_nothing_says_which_filter_did_it():
    with pytest.raises(ValueError, match=r"suppress = \[0, 1\] left nothing of a row"):
        Settings(suppress=[0, 1], top_p=0.9)([0.5, 0.5, 0.0])
    with pytest.raises(ValueError, match="suppressed token is 7"):
        suppress(ROW, [7])


SETTINGS = [
    Settings(temperature=0),
    Settings(top_k=2),
    Settings(top_p=F(2, 3)),
    Settings(min_p=F(1, 2)),
    Settings(suppress=[1]),
    Settings(top_k=2, top_p=F(3, 4), min_p=F(1, 3)),
]


@pytest.mark.parametrize("rule", [verifiers.token, verifiers.block], ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("shape", SETTINGS, ids=repr)
def test_speculation_under_settings_has_the_law_of_the_shaped_target(shape, rule):
    target, draft = (MappedModel(model, shape) for model in DENSE)

    def program(rng):
        return tuple(generate_speculative(target, draft, [0], 3, 2, rng, verifier=rule).tokens)

    assert law(program) == ancestral_law(target, [0], 3)


def test_a_filter_on_the_draft_alone_is_exact_and_on_the_draw_alone_is_not():
    """The row a token is tested against must be the one it was drawn from, whatever shaped it."""
    shape, (target, draft) = Settings(top_k=2), DENSE

    def program(rng, tested):
        drafted = draw(shape(draft.next_dist([0])), rng.random())
        rows = [tested(draft.next_dist([0]))], next_rows(target, [0, drafted], 2)
        return verifiers.token([drafted], *rows, rng)[0]

    expected = {(x,): mass for x, mass in enumerate(target.next_dist([0]))}
    assert law(lambda rng: (program(rng, shape),)) == expected
    assert law(lambda rng: (program(rng, lambda row: row),)) != expected


def test_temperature_on_the_target_alone_is_the_law_of_that_target():
    target, draft = MappedModel(DENSE[0], Settings(temperature=0.5)), DENSE[1]
    found = law(lambda rng: tuple(generate_speculative(target, draft, [0], 2, 1, rng).tokens))
    assert distance(found, ancestral_law(target, [0], 2)) < 1e-15


ties = st.lists(st.integers(0, 4), min_size=2, max_size=7).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    ties,
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 0.3, 0.6, 0.93]),
    st.sampled_from([None, 0.2, 0.7]),
)
def test_filters_are_those_of_transformers(weights, k, mass, share):
    """The same tokens survive as in the library whose names these are, ties included."""
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    pytest.importorskip("transformers", reason="the extra transformers is not installed")
    from transformers.generation import logits_process as theirs

    row = np.array(weights) / sum(weights)
    scores = torch.tensor(np.log(row, where=row > 0, out=np.full(len(row), -np.inf)))[None]
    for value, warper in ((k, "TopKLogitsWarper"), (mass, "TopPLogitsWarper"), (share, "MinPLogitsWarper")):
        if value is not None:
            scores = getattr(theirs, warper)(value)(None, scores)
    expected = scores.softmax(-1)[0].numpy()
    np.testing.assert_allclose(Settings(top_k=k, top_p=mass, min_p=share)(row), expected, atol=1e-12)


def test_settings_check_their_row_once(monkeypatch):
    checks_made, check = [], checks._distributions
    monkeypatch.setattr(checks, "_distributions", lambda *given: checks_made.append(1) or check(*given))
    shape, row = Settings(0.7, top_k=5, top_p=0.9, min_p=0.01, suppress=[1]), [0.5, 0.3, 0.2]
    checks_made.clear()
    shaped = shape(row)
    assert len(checks_made) == 1
    by_hand = min_p(top_p(top_k(temperature(suppress(row, [1]), 0.7), 5), 0.9), 0.01)
    assert np.array_equal(shaped, by_hand)
    assert len(checks_made) == 6, "called one by one each checks what it is given"
    for map_, setting in ((temperature, 0.7), (top_k, 2), (top_p, 0.9), (min_p, 0.1), (suppress, [0])):
        with pytest.raises(ValueError, match=r"row: sums to 0\.9"):
            map_([0.5, 0.4], setting)
    with pytest.raises(ValueError, match=r"row: sums to 0\.9"):
        shape([0.5, 0.4])


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_is_no_rng_and_the_message_says_what_is(seed):
    for wrong, words in ((seed, f"default_rng({seed})"), (np.random.PCG64(seed), "default_rng(0)")):
        with pytest.raises(ValueError, match=r"want numpy\.random\.default_rng") as error:
            uniform(wrong)
        assert words in str(error.value)


def test_an_error_of_an_rng_is_its_own():
    class Broken:
        def random(self):
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        uniform(Broken())
