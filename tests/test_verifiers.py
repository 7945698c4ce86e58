"""The rules themselves: exact laws by enumeration, then the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import DRAFT, TARGET

from specdecode import generate_speculative, generate_target_only
from specdecode.drafts import ModelDraft, NGramDraft
from specdecode.exact import ancestral_law, law
from specdecode.models import MappedModel, next_rows
from specdecode.sampling import draw, temperature
from specdecode.verifiers import greedy, one_hot, replacement, sampler_match, token

LAST = 1 - 2.0**-53


class Scripted:
    """Uniforms in a given order, and a count of those used."""

    def __init__(self, *uniforms):
        self.uniforms, self.used = uniforms, 0

    def random(self):
        self.used += 1
        return self.uniforms[self.used - 1]


def one_round(verifier, k, target=TARGET, draft=DRAFT, completion=None):
    """A round's output, completed to k + 1 tokens by the target: the joint law that decides."""
    completion = completion or target

    def program(rng):
        drafted, draft_dists = ModelDraft(draft).propose([0], k, rng)
        emitted = verifier(drafted, draft_dists, next_rows(target, [0, *drafted], k + 1), rng)
        while len(emitted) < k + 1:
            emitted = [*emitted, draw(completion.next_dist([0, *emitted]), rng.random())]
        return tuple(emitted)

    return program


@pytest.mark.parametrize("rule", [token, one_hot, sampler_match])
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_exact_rules_have_the_target_law_exactly(rule, k):
    assert law(one_round(rule, k)) == ancestral_law(TARGET, [0], k + 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_sampler_match_gives_the_text_of_plain_sampling(seed):
    """Each emitted token spends one uniform, drafts that look up spend none: same uniforms, same text."""
    fast = generate_speculative(
        TARGET, NGramDraft(3), [0, 1, 0], 30, 3, np.random.default_rng(seed), verifier=sampler_match
    )
    assert fast.tokens == generate_target_only(TARGET, [0, 1, 0], 30, np.random.default_rng(seed))
    assert fast.target_passes < 30


def replaced_from_the_target(draft_tokens, draft_dists, target_dists, rng):
    """The quiet bug of home-made code: a rejected token is replaced from p."""
    for i, x in enumerate(draft_tokens):
        if not rng.random() < target_dists[i][x] / draft_dists[i][x]:
            return [*draft_tokens[:i], draw(target_dists[i], rng.random())]
    return [*draft_tokens, draw(target_dists[-1], rng.random())]


def goes_on_after_a_rejection(draft_tokens, draft_dists, target_dists, rng):
    """First token perfect, the second wrong: later drafted tokens follow a replaced one."""
    emitted = [
        token([x], [draft_dists[i]], target_dists[i : i + 2], rng)[0] for i, x in enumerate(draft_tokens)
    ]
    return [*emitted, draw(target_dists[-1], rng.random())]


def test_the_enumeration_refutes_wrong_rules():
    assert law(one_round(replaced_from_the_target, 1)) != ancestral_law(TARGET, [0], 2)

    found, right = law(one_round(goes_on_after_a_rejection, 2)), ancestral_law(TARGET, [0], 3)
    assert found != right
    for first in range(3):
        masses = [sum(mass for text, mass in either.items() if text[0] == first) for either in (found, right)]
        assert masses[0] == masses[1], "the first token alone was to show nothing"


def test_one_uniform_a_decision_even_when_it_is_certain():
    one_hot = np.array([0.0, 1.0, 0.0])
    rng = Scripted(LAST, LAST, LAST)
    assert token([1, 1], [one_hot] * 2, [one_hot] * 3, rng) == [1, 1, 1]
    assert rng.used == 3
    rng = Scripted(0.5, 0.5)
    assert token([1, 1], [one_hot] * 2, [[0.5, 0.0, 0.5]] * 3, rng) == [2]
    assert rng.used == 2, "a coin and a replacement"


def test_no_tokens_drafted_is_plain_sampling():
    rng = Scripted(0.5)
    assert token([], np.empty((0, 3)), [[0.25, 0.5, 0.25]], rng) == [1]


def test_a_coin_of_exactly_zero_does_not_accept_the_impossible():
    p, q = [0.0, 1.0], [1.0, 0.0]
    assert token([0], [q], [p, p], Scripted(0.0, 0.0)) == [1]


@given(st.lists(st.integers(1, 50), min_size=3, max_size=6), st.integers(0, 5), st.floats(0, LAST))
def test_after_a_rejection_the_replacement_is_another_token(weights, x, u):
    q = np.array(weights) / sum(weights)
    p = np.roll(q, 1)
    x %= len(q)
    if p[x] < q[x]:
        assert token([x], [q], [p, p], Scripted(p[x] / q[x], u))[0] != x


def test_when_rounding_alone_rejects_the_token_comes_from_the_target():
    p = np.array([0.5, np.nextafter(0.5, 0)])
    q = np.array([0.5, 0.5])  # no entry of p exceeds q, yet p/q < 1 at token 1
    assert np.array_equal(replacement(p, q), p)
    assert token([1], [q], [p, p], Scripted(LAST, 0.1)) == [0]


def test_rows_may_be_lazy_and_untouched_ones_are_never_read():
    class Lazy:
        def __init__(self, rows):
            self.rows, self.read = rows, []

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            self.read.append(i)
            return self.rows[i]

    p, q = Lazy([[0.0, 1.0], None, None]), Lazy([[1.0, 0.0], None])
    assert token([0, 0], q, p, Scripted(0.5, 0.5)) == [1]
    assert p.read == [0]
    assert q.read == [0]


def test_inputs_are_not_written_to():
    drafted = np.array([1, 0])
    draft_dists, target_dists = np.full((2, 3), 1 / 3), np.full((3, 3), 1 / 3)
    for array in (drafted, draft_dists, target_dists):
        array.flags.writeable = False
    for rule in (token, greedy):
        emitted = rule(drafted, draft_dists, target_dists, np.random.default_rng(0))
        assert all(type(x) is int for x in emitted)


@pytest.mark.parametrize(
    ("draft_tokens", "draft_dists", "target_dists", "says"),
    [
        ([2], [[0.5, 0.5]], [[0.5, 0.5]] * 2, r"draft_tokens\[0\] is 2; want a token id from 0 to 1"),
        ([1], [[1.0, 0.0]], [[0.5, 0.5]] * 2, "q = 0"),
        ([0], [[np.nan, 1.0]], [[0.5, 0.5]] * 2, r"draft_dists\[0\]: entry 0 is nan"),
        ([0], [[0.5, 0.5]], [[np.nan, 1.0], [0.5, 0.5]], r"target_dists\[0\]: entry 0 is nan"),
        ([0], [[0.5, 0.5]], [[0.5, 0.5], [2.0, -1.0]], r"target_dists\[1\]: entry 1 is -1"),
        ([0], [[0.5, 0.5]], [[0.2, 0.3, 0.5]] * 2, r"draft_dists\[0\]: shape \(2,\); want \(3,\)"),
        ([0], [[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2, "draft_dists has 2 rows for 1 drafted"),
        ([0], [[0.5, 0.5]], [[0.5, 0.5]], "target_dists has 1 rows for k = 1"),
    ],
)
def test_bad_input_is_told(draft_tokens, draft_dists, target_dists, says):
    with pytest.raises(ValueError, match=says):
        token(draft_tokens, draft_dists, target_dists, Scripted(0.0, 0.0))


def test_greedy_breaks_ties_downwards_and_draws_nothing():
    tie = [0.4, 0.2, 0.4]
    assert greedy([0, 2], [tie] * 2, [tie] * 3, rng=None) == [0, 0]
    assert greedy([], [], [tie]) == [0]


def test_greedy_is_exact_for_the_temperature_0_target_only():
    cold = MappedModel(TARGET, lambda row: temperature(row, 0))
    found = law(one_round(greedy, 2, completion=cold))
    assert found == ancestral_law(cold, [0], 3)
    assert found != ancestral_law(TARGET, [0], 3)
