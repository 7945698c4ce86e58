"""The one-token identity in three number systems, and rules it refutes."""

import numpy as np
import pytest
import sympy
from worlds import DRAFT, TARGET

from specdecode import rule
from specdecode.drafts import ModelDraft
from specdecode.exact import law
from specdecode.models import next_rows
from specdecode.proof import generic_rows, induced_from_dists, random_pairs, symbolic_rows, verify_identity
from specdecode.verifiers import token


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 4, 8])
def test_the_identity_holds_for_symbolic_rows(vocab_size):
    p, q = symbolic_rows(vocab_size)
    if vocab_size == 1:
        assert induced_from_dists(p, q).tolist() == [1]
    else:
        assert [sympy.cancel(difference) for difference in induced_from_dists(p, q) - p] == [0] * vocab_size


def test_it_holds_for_every_vocabulary():
    p, q = generic_rows()
    difference = (induced_from_dists(p, q) - p)[0]
    sums = {p.sum(): 1, q.sum(): 1}
    assert sympy.cancel(difference.expand()) != 0, "that the rows sum to 1 must be needed"
    assert sympy.cancel(difference.expand().subs(sums)) == 0
    assert sympy.cancel((p - 1)[0].expand().subs(sums)) != 0, "substituting must not make everything vanish"


def test_symbols_refute_wrong_rules():
    p, q = symbolic_rows(3)
    kept = q * rule.acceptance(p, q)
    replaced_from_p = kept + (q - kept).sum() * p
    assert [sympy.cancel(x) for x in replaced_from_p - p] != [0] * 3

    p, q = generic_rows()
    kept = q * rule.acceptance(p, q)
    difference = (kept + (q - kept).sum() * p - p)[0]
    assert sympy.cancel(difference.expand().subs({p.sum(): 1, q.sum(): 1})) != 0


def test_the_induced_row_is_the_law_of_the_running_verifier():
    """What is proved about `induced_from_dists` is true of `verifiers.token`."""
    for last in range(3):

        def first(rng, last=last):
            drafted, rows = ModelDraft(DRAFT).propose([last], 1, rng)
            return token(drafted, rows, next_rows(TARGET, [last, *drafted], 2), rng)[0]

        induced = induced_from_dists(TARGET.rows[last], DRAFT.rows[last])
        assert law(first) == {x: mass for x, mass in enumerate(induced) if mass}


def test_the_identity_holds_on_thousands_of_pairs():
    identity = verify_identity(6000, seed=0)
    assert identity.passed
    assert identity.pairs == 6000
    assert identity.rational_pairs == 600
    assert 0 < identity.total_variation < 1e-14


def softmaxed(p, q):
    weights = np.where(rule.excess(p, q) > 0, 1, 0) + np.zeros(len(p), dtype=int)
    kept = q * rule.acceptance(p, q)
    return kept + (q - kept).sum() * weights / max(weights.sum(), 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, q: q,
        lambda p, q: p * 1.5,
        lambda p, q: np.full(len(p), np.nan),
        lambda p, q: p + (q - p) / 10**9,
        softmaxed,
    ],
)
def test_wrong_rules_fail(wrong):
    identity = verify_identity(60, seed=0, induced=wrong)
    assert not identity.passed
    assert identity.rational_failures > 0


def test_the_pairs_have_what_goes_wrong():
    pairs = list(random_pairs(600, seed=0))
    assert {len(p) for p, _ in pairs} == set(range(2, 65))
    assert any(np.array_equal(p, q) for p, q in pairs)
    assert any(rule.overlap(p, q).sum() == 0 for p, q in pairs)
    assert any((p == 0).any() and (p * q).any() for p, q in pairs)
    assert any(p.max() > 0.9 for p, _ in pairs)
    for p, q in pairs:
        assert abs(p.sum() - 1) < 1e-14
        assert abs(q.sum() - 1) < 1e-14


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="pairs is 0"):
        verify_identity(0, seed=0)
    with pytest.raises(ValueError, match="vocab_size is 0"):
        symbolic_rows(0)
