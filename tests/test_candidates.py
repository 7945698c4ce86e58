"""Several candidates at one position: exact laws by enumeration, acceptance against the best there is."""

from fractions import Fraction as F
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.candidates import (
    best_acceptance,
    distinct,
    independent,
    k_seq,
    kept_by_k_seq,
    recursive,
    root,
)
from specdecode.exact import law
from specdecode.rule import overlap
from specdecode.sampling import draw

P = np.array([F(2, 10), F(5, 10), F(2, 10), F(1, 10)])
Q = np.array([F(4, 10), F(1, 10), F(3, 10), F(2, 10)])
ZEROS = np.array([F(1, 2), F(0), F(1, 4), F(1, 4)]), np.array([F(1, 4), F(1, 4), F(1, 2), F(0)])
PAIRS = {"dense": (P, Q), "zeros": ZEROS, "the other way": ZEROS[::-1], "equal": (P, P)}


def above(p, q, m):
    """The root of k-SEQ, rounded up to a rational."""
    return F(int(np.ceil(root(p, q, m) * 10**9)), 10**9)


def emitted(rule, drawn, p, q, m):
    """Law of (token, whether it is a candidate)."""

    def program(rng):
        tokens, rows = drawn(q, m, rng)
        token = rule(tokens, rows, p, rng)
        return token, token in tokens

    return law(program)


def token_law(found):
    return {x: sum(m for (y, _), m in found.items() if y == x) for x in {x for x, _ in found}}


def accepted(found):
    return sum(mass for (_, is_candidate), mass in found.items() if is_candidate)


def with_root(p, q, m):
    return lambda tokens, rows, target, rng: k_seq(tokens, rows, target, rng, rho=above(p, q, m))


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", PAIRS)
def test_every_rule_emits_the_target_with_rational_equality(name, m):
    p, q = PAIRS[name]
    right = {x: mass for x, mass in enumerate(p) if mass}
    assert token_law(emitted(recursive, independent, p, q, m)) == right
    assert token_law(emitted(recursive, distinct, p, q, m)) == right
    assert token_law(emitted(with_root(p, q, m), independent, p, q, m)) == right


def test_floats_run_with_the_root_they_find():
    p, q = P.astype(float), Q.astype(float)
    found = token_law(emitted(k_seq, independent, p, q, 3))
    assert max(abs(float(found[x]) - p[x]) for x in range(4)) < 1e-12


def candidates_against_p_itself(candidates, draft_dists, target_dist, rng):
    """The classic mistake: the second candidate is tested as if the first had not been."""
    for x, q in zip(candidates, draft_dists):
        if rng.random() < target_dist[x] / q[x]:
            return x
    return draw(target_dist, rng.random())


def test_the_enumeration_refutes_wrong_rules():
    right = dict(enumerate(P))
    assert token_law(emitted(candidates_against_p_itself, independent, P, Q, 2)) != right

    def tells_the_wrong_rows(q, m, rng):  # drawn without replacement, tested as if with
        tokens, rows = distinct(q, m, rng)
        return tokens, np.stack([rows[0]] * m)

    p, q = (np.array([F(n, 10) for n in row]) for row in ([5, 3, 1, 1], [1, 2, 4, 3]))
    assert token_law(emitted(recursive, distinct, p, q, 2)) == dict(enumerate(p))
    assert token_law(emitted(recursive, tells_the_wrong_rows, p, q, 2)) != dict(enumerate(p))


@pytest.mark.parametrize("name", PAIRS)
def test_one_candidate_is_the_token_rule(name):
    p, q = PAIRS[name]
    for found in (
        emitted(recursive, independent, p, q, 1),
        emitted(with_root(p, q, 1), independent, p, q, 1),
    ):
        # A replacement is never the rejected token, except where nothing is ever rejected.
        assert abs(accepted(found) - overlap(p, q).sum()) < F(1, 10**8)


def by_sets(p, q, m, replace):
    """min over H of p(H) + 1 − P(all candidates in H)."""
    size, best = len(p), 1.0
    for h in chain.from_iterable(combinations(range(size), n) for n in range(size + 1)):
        inside = 0.0
        for drafted in product(h, repeat=m):
            mass, left = 1.0, 1.0
            for i, x in enumerate(drafted):
                mass *= 0 if not replace and x in drafted[:i] else float(q[x]) / left
                left -= 0 if replace else float(q[x])
            inside += mass
        best = min(best, float(sum(p[list(h)])) + 1 - inside)
    return best


weights = st.lists(st.integers(1, 9), min_size=3, max_size=3)


@settings(max_examples=25, deadline=None)
@given(weights, weights, st.integers(1, 2), st.booleans())
def test_no_rule_keeps_more_than_the_linear_program(p, q, m, replace):
    p, q = (np.array([F(w, sum(row)) for w in row]) for row in (p, q))
    best = best_acceptance(p, q, m, replace=replace)
    assert best == pytest.approx(by_sets(p, q, m, replace), abs=1e-9)
    drawn = independent if replace else distinct
    assert accepted(emitted(recursive, drawn, p, q, m)) <= best + 1e-9
    if replace:
        kept = accepted(emitted(with_root(p, q, m), drawn, p, q, m))
        assert (1 - 1 / np.e) * best - 1e-9 <= kept <= best + 1e-9


def test_more_candidates_are_kept_more_often():
    kept = [accepted(emitted(recursive, distinct, P, Q, m)) for m in (1, 2, 3)]
    assert kept == sorted(set(kept))
    assert accepted(emitted(recursive, distinct, P, Q, 2)) > accepted(
        emitted(recursive, independent, P, Q, 2)
    )


def test_below_the_root_k_seq_is_refused():
    tokens, rows = [0, 1], np.stack([Q, Q])
    with pytest.raises(ValueError, match="want at least the root"):
        k_seq(tokens, rows, P, np.random.default_rng(0), rho=1)
    assert above(P, Q, 2) > 1


def test_distinct_candidates_run_out_where_the_row_does():
    tokens, rows = distinct([0.5, 0.5, 0.0], 3, np.random.default_rng(0))
    assert sorted(tokens) == [0, 1]
    assert rows.shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rng: recursive([], [], P, rng), "0 candidates"),
        (lambda rng: recursive([0], [Q, Q], P, rng), "1 candidates and 2 draft rows"),
        (lambda rng: recursive([9], [Q], P, rng), "9"),
        (lambda rng: recursive([3], [ZEROS[1]], P, rng), "q = 0"),
        (lambda rng: k_seq([0, 1], [Q, P], P, rng), "draft_dists differ"),
        (lambda rng: independent(Q, 0, rng), "m is 0"),
        (lambda rng: best_acceptance(np.full(60, 1 / 60), np.full(60, 1 / 60), 3), "want at most 200000"),
    ],
)
def test_bad_input_is_told(call, says):
    with pytest.raises(ValueError, match=says):
        call(np.random.default_rng(0))


class Constant:
    """Coins that are all the same."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


def float_pairs(seed, count):
    """Rows as models hand them out: flat, spiky, with zeros, one-hot, disjoint, equal, or all but equal."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        size = int(rng.integers(1, 9))
        p, q = (rng.dirichlet(np.full(size, 10.0 ** rng.integers(-2, 2))) for _ in range(2))
        if i % 4 == 1:
            q = p if i % 8 == 1 else p * (1 + 2.0**-52 * rng.integers(-2, 3, size))
        if i % 4 == 2:
            cut = rng.integers(0, 2, size).astype(bool)
            p, q = np.where(cut, p, 0), np.where(cut if i % 8 == 2 else ~cut, q, 0)
        if i % 4 == 3:
            p = p ** rng.integers(1, 40)
        if p.sum() > 0 and q.sum() > 0:
            yield p / p.sum(), q / q.sum()


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_k_seq_takes_all_valid_rows(m):
    """Whatever the coins say: candidates are kept or replaced, p is reached, and no token has p = 0."""
    tried = 0
    for p, q in float_pairs(m, 3000):
        tried += 1
        rho = root(p, q, m)
        assert 1 <= rho <= m
        one, kept = kept_by_k_seq(p, q, m, rho)
        assert kept <= rho * one + 1e-15
        emitted = overlap(p / rho, q) * (kept / one if one else 0)
        left = np.maximum(p - emitted, 0)
        law = emitted + (1 - kept) * (left / left.sum() if left.any() else p)
        assert abs(law - p).max() < 1e-7, (p, q)
        candidates = [int(np.argmax(q))] * m
        for u in (0.0, 0.5, 1 - 2.0**-53):
            assert p[k_seq(candidates, [q] * m, p, Constant(u))] > 0 or u == 0.0
    assert tried > 2500


@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_root_is_the_least_and_below_it_p_is_not_reached(m):
    for p, q in float_pairs(100 + m, 400):
        rho = root(p, q, m)
        one, kept = kept_by_k_seq(p, q, m, lower := max(1.0, rho * (1 - 1e-6)))
        assert rho == 1 or m == 1 or kept >= lower * one - 1e-12
    with pytest.raises(ValueError, match="want at least the root"):
        k_seq([0] * 2, [Q.astype(float)] * 2, P.astype(float), Constant(0.5), rho=root(P, Q, 2) * (1 - 1e-9))


def test_k_seq_takes_fractions_with_a_root_that_is_a_float():
    for u in (0.0, 0.5, 1 - 2.0**-53):
        assert P[k_seq([0, 2], [Q, Q], P, Constant(u))] > 0


def test_an_accepted_candidate_is_all_there_is_where_the_rows_are_equal():
    for p, _ in float_pairs(7, 200):
        assert root(p, p, 3) < 1 + 1e-4
        x = int(np.argmax(p))
        assert k_seq([x] * 3, [p] * 3, p, Constant(0.5)) == x


def test_k_seq_takes_any_pair_of_rows():
    """Spiky ones, equal ones, with zeros, nearly equal; none raises, none wakes a token with p = 0."""
    rng = np.random.default_rng(5)
    for number in range(3000):
        size = int(rng.integers(1, 9))
        p, q = (rng.dirichlet(np.full(size, 10 ** rng.uniform(-2, 1.5))) for _ in range(2))
        if number % 6 == 1:
            q = p.copy()
        elif number % 6 == 2:
            p, q = (row * (rng.random(size) < 0.6) for row in (p, q))
            p[0], q[-1] = max(p[0], 1e-9), max(q[-1], 1e-9)
        elif number % 6 == 3:
            p = p**8
        elif number % 6 == 4:
            q = abs(np.nextafter(p, p + rng.choice([-1, 1], size)))
        elif number % 6 == 5:
            p = np.eye(size)[rng.integers(size)]
        p, q = p / p.sum(), q / q.sum()
        candidates, rows = independent(q, int(rng.integers(1, 5)), rng)
        assert p[k_seq(candidates, rows, p, rng)] > 0
