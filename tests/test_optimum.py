"""The linear program over all exact rules: the block rule attains it, the token rule does not."""

from fractions import Fraction as F

import numpy as np
import pytest

from specdecode import verifiers
from specdecode.certify.worlds import DENSE, FEW
from specdecode.cost import block_accepted
from specdecode.exact import law
from specdecode.models import MarkovModel, RepetitionPenalty
from specdecode.optimum import best_block
from specdecode.speculative import play_round

TOY = [MarkovModel([row] * 2) for row in ([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)])]


def accepted(target, draft, k, rule):
    found = law(lambda rng: play_round(target, draft, [0], k, rng, rule)[0].accepted)
    return sum(count * mass for count, mass in found.items())


def random_pair(size, seed):
    rng = np.random.default_rng(seed)
    return [
        MarkovModel([[F(int(w), int(row.sum())) for w in row] for row in rng.integers(1, 9, (size, size))])
        for _ in range(2)
    ]


@pytest.mark.parametrize(("k", "value"), [(1, F(2, 3)), (2, F(11, 9)), (3, F(5, 3))])
def test_on_the_toy_it_is_what_block_verification_accepts(k, value):
    assert block_accepted([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)], k) == value
    assert best_block(*TOY, [0], k) == pytest.approx(float(value), abs=1e-9)


PAIRS = {f"random, V = {size}, seed {seed}": random_pair(size, seed) for size in (2, 3) for seed in range(3)}
PAIRS |= {"dense": DENSE, "few tokens a row": FEW, "memory": (RepetitionPenalty(DENSE[0], 2), DENSE[1])}


@pytest.mark.parametrize("name", PAIRS)
def test_the_block_rule_attains_it_and_the_token_rule_never_exceeds_it(name):
    target, draft = PAIRS[name]
    best = best_block(target, draft, [0], 2)
    assert float(accepted(target, draft, 2, verifiers.block)) == pytest.approx(best, abs=1e-8)
    assert float(accepted(target, draft, 2, verifiers.token)) <= best + 1e-9


def test_the_token_rule_falls_short_somewhere():
    assert float(accepted(*TOY, 2, verifiers.token)) < best_block(*TOY, [0], 2) - 0.1


def test_for_one_token_it_is_one_minus_the_total_variation():
    for seed in range(3):
        target, draft = random_pair(3, seed)
        shared = sum(min(a, b) for a, b in zip(target.rows[0], draft.rows[0]))
        assert best_block(target, draft, [0], 1) == pytest.approx(float(shared), abs=1e-9)


def test_large_cases_are_refused():
    big = MarkovModel(np.full((50, 50), 1 / 50))
    with pytest.raises(ValueError, match="V = 50 and k = 3"):
        best_block(big, big, [0], 3)
