"""The exact law of a program: what it follows, what it refuses, and what it catches."""

import bisect
import copy
import math
import pickle
import time
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import TARGET, Parity

from specdecode.exact import (
    Inexact,
    Law,
    LazyGenerator,
    LazyRandom,
    NotReproducible,
    TooLarge,
    ancestral_law,
    distance,
    law,
)
from specdecode.sampling import draw

row_weights = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)


@given(row_weights)
def test_drawing_from_a_row_has_the_law_of_the_row(weights):
    row = np.array([F(w, sum(weights)) for w in weights], dtype=object)
    expected = {x: mass for x, mass in enumerate(row) if mass}
    assert law(lambda rng: draw(row, rng.random())) == expected
    assert law(lambda rng: rng.choice(len(row), p=row)) == expected
    assert law(lambda rng: int(np.argmax(rng.multinomial(1, row)))) == expected
    assert law(lambda rng: rng.choices(range(len(row)), weights)[0], source=LazyRandom) == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda rng: bool(rng.random() < F(1, 3)), {True: F(1, 3), False: F(2, 3)}),
        (lambda rng: bool(np.float64(0.25) > rng.random()), {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: bool(rng.random() <= np.float32(0.1)), {True: F(np.float32(0.1).item()), False: None}),
        (lambda rng: 1 - rng.random() < 0.25, {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: rng.random() * 4 - 1 >= 2, {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: -rng.random() / 2 < -0.375, {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: int(rng.random() * 3), dict.fromkeys(range(3), F(1, 3))),
        (lambda rng: int(2 - 4 * rng.random()), {1: F(1, 4), 0: F(1, 2), -1: F(1, 4)}),
        (lambda rng: bisect.bisect([0.25, 0.5, 1.0], rng.random()), {0: F(1, 4), 1: F(1, 4), 2: F(1, 2)}),
        (lambda rng: int(rng.integers(2, 5)), dict.fromkeys((2, 3, 4), F(1, 3))),
        (lambda rng: int(rng.integers(2, endpoint=True)), dict.fromkeys((0, 1, 2), F(1, 3))),
        (lambda rng: rng.integers(2).item(), {0: F(1, 2), 1: F(1, 2)}),
        (lambda rng: rng.choice(2, p=[0.25, 0.75]).item(), {0: F(1, 4), 1: F(3, 4)}),
        (lambda rng: math.trunc(1 - 4 * rng.random()), {0: F(1, 2), -1: F(1, 4), -2: F(1, 4)}),
        (lambda rng: rng.uniform(1, 3) < 1.5, {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: int((rng.random(3) < 0.5).sum()), {0: F(1, 8), 1: F(3, 8), 2: F(3, 8), 3: F(1, 8)}),
        (lambda rng: int((rng.random() < np.array([0.25, 0.5])).sum()), {0: F(1, 2), 1: F(1, 4), 2: F(1, 4)}),
        (lambda rng: rng.random() < float("nan"), {False: 1}),
        (lambda rng: rng.random() > float("nan"), {False: 1}),
        (lambda rng: rng.random() < float("inf"), {True: 1}),
        (lambda rng: (u := rng.random()) == u and u <= u and not u < u, {True: 1}),
        (lambda rng: rng.random() * 0 == 0, {True: 1}),
        (lambda rng: copy.deepcopy([rng.random()])[0] < 0.25, {True: F(1, 4), False: F(3, 4)}),
        (lambda rng: np.random.default_rng(rng) is rng, {True: 1}),
    ],
)
def test_what_it_follows(program, expected):
    if None in expected.values():
        expected = expected | {False: 1 - expected[True]}
    assert law(program) == expected


def test_a_uniform_remembers_what_a_comparison_taught():
    def reused(rng):
        u = rng.random()
        return u < 0.5, u < 0.75, u < 0.25

    assert law(reused).keys() == {(True, True, True), (True, True, False), (False, True, False), (False,) * 3}
    assert law(reused).paths == 4


def test_numpy_integers_do_not_overflow():
    big = np.int64(2**62)
    assert law(lambda rng: rng.random() * big < big // 2)[True] == F(1, 2)
    assert law(lambda rng: rng.random() < F(np.int64(1), np.int64(3)))[True] == F(1, 3)


@pytest.mark.parametrize(
    "program",
    [
        lambda rng: float(rng.random()),
        lambda rng: np.log(rng.random()),
        lambda rng: rng.random() % 0.5 < 0.25,
        lambda rng: round(rng.random()),
        lambda rng: rng.random() < rng.random(),
        lambda rng: rng.random() == rng.random(),
        lambda rng: rng.random() + rng.random() < 1,
        lambda rng: np.array([0.0, rng.random()], dtype=float)[1] < 0.5,
        lambda rng: rng.standard_normal() < 0,
        lambda rng: rng.permutation(3)[0],
        lambda rng: rng.bit_generator.random_raw(),
        lambda rng: rng.spawn(1)[0].random() < 0.5,
        lambda rng: rng.random(out=np.empty(2))[0] < 0.5,
        lambda rng: rng.choice(3, size=2, replace=False)[0],
        lambda rng: copy.deepcopy(rng).random() < 0.5,
        lambda rng: copy.copy(rng).random() < 0.5,
        lambda rng: pickle.loads(pickle.dumps(rng)).random() < 0.5,
    ],
)
def test_what_it_refuses(program):
    with pytest.raises(Inexact):
        law(program)


def test_every_draw_of_a_generator_is_followed_or_refused():
    own = {"random", "uniform", "integers", "choice", "multinomial"}
    for base, cls in [(np.random.Generator, LazyGenerator)]:
        for name in dir(base):
            if not name.startswith("_") and name not in own:
                assert name in vars(cls), f"{name} would return real randomness"


@pytest.mark.parametrize("p", [[0.5, 0.4], [1.5, -0.5], [float("nan"), 1.0], [1.0]])
def test_choice_refuses_what_numpy_refuses(p):
    for choose in (np.random.default_rng(0).choice, None):
        with pytest.raises(ValueError, match=r"(?i)p"):
            choose(2, p=p) if choose else law(lambda rng: rng.choice(2, p=p))


def test_pythons_own_random_is_a_source_too():
    assert law(lambda rng: rng.random() < 0.25, source=LazyRandom)[True] == F(1, 4)
    assert law(lambda rng: tuple(rng.sample(range(3), 2)), source=LazyRandom) == {
        (a, b): F(1, 6) for a in range(3) for b in range(3) if a != b
    }
    for refused in ("gauss", "getrandbits", "expovariate", "betavariate"):
        with pytest.raises(Inexact):
            law(lambda rng, name=refused: getattr(rng, name)(*[1] * 2), source=LazyRandom)


def test_a_program_with_randomness_of_its_own_is_caught():
    own = np.random.default_rng(0)
    with pytest.raises(NotReproducible):
        law(lambda rng: (rng.random() < own.random(), rng.random() < 0.5))
    with pytest.raises(NotReproducible):
        law(lambda rng: (rng.random() < 0.5, time.perf_counter_ns()))


def test_a_cache_that_leaks_from_path_to_path_is_caught():
    seen = []

    def leaky(rng):
        seen.append(rng.random() < 0.5)
        return len(seen)

    with pytest.raises(NotReproducible):
        law(leaky)


def test_a_limit_that_is_swallowed_is_not_believed():
    def swallows(rng):
        try:
            for _ in range(20):
                rng.random()
        except Exception:
            return "boom"
        return "fine"

    with pytest.raises(TooLarge):
        law(swallows, max_draws=10)


def test_a_uniform_kept_from_an_earlier_run_is_caught():
    kept = []

    def keeps(rng):
        kept.append(rng.random())
        return kept[0] < 0.5

    with pytest.raises(NotReproducible):
        law(keeps)


def test_limits_are_told():
    def retry(rng):
        while rng.random() < 0.5:
            pass
        return 0

    with pytest.raises(TooLarge, match="a path drew 50 uniforms"):
        law(retry, max_draws=50)
    with pytest.raises(TooLarge, match="more than 100 paths"):
        law(lambda rng: tuple(rng.random(10) < 0.5), max_paths=100)


def test_an_outcome_must_be_hashable():
    with pytest.raises(TypeError, match="outcome is a list, which is not hashable; want a tuple"):
        law(lambda rng: [rng.random() < 0.5])


def test_the_reference_is_plain_sampling():
    assert ancestral_law(TARGET, [0], 0) == {(): 1}
    assert ancestral_law(Parity(), [], 1) == {(0,): F(1, 4), (1,): F(1, 2), (2,): F(1, 4)}
    assert sum(ancestral_law(TARGET, [0], 4, stop=[1, 2]).values()) == 1


def test_distance_is_total_variation_both_ways():
    a, b = Law({0: F(1, 2), 1: F(1, 2)}), Law({1: F(2, 3), 2: F(1, 3)})
    assert distance(a, b) == distance(b, a) == F(1, 2)
    assert distance(a, a) == 0


def test_a_law_is_a_distribution():
    for masses in ({0: F(1, 2)}, {0: F(3, 2), 1: F(-1, 2)}, {}):
        with pytest.raises(ValueError, match="sum to"):
            Law(masses)
    assert Law({0: 1, 1: 0}) == {0: 1}
