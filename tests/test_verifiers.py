"""The rules themselves: exact laws by enumeration, then the edges."""

from fractions import Fraction as F
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import DRAFT, TARGET

from specdecode import generate_speculative, generate_target_only
from specdecode.certify import certify, distance_on
from specdecode.certify.worlds import DENSE, World, generator_worlds, table, verifier_worlds
from specdecode.drafts import ModelDraft, NGramDraft
from specdecode.exact import ancestral_law, distance, law
from specdecode.models import MappedModel, next_rows
from specdecode.rule import acceptance, total_variation
from specdecode.sampling import draw, temperature
from specdecode.speculative import play_round
from specdecode.verifiers import (
    RULES,
    block,
    greedy,
    is_lossy,
    lenient,
    mixture,
    on_checked_rows,
    one_hot,
    replacement,
    sampler_match,
    token,
    typical,
)

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


@pytest.mark.parametrize("rule", [token, block, one_hot, sampler_match])
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


class Lazy:
    """Rows that are made when they are read; what is None cannot be read as one."""

    def __init__(self, rows):
        self.rows, self.read = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        self.read.append(i)
        return self.rows[i]


def test_rows_may_be_lazy_and_untouched_ones_are_never_read():
    p, q = Lazy([[0.0, 1.0], None, None]), Lazy([[1.0, 0.0], None])
    assert token([0, 0], q, p, Scripted(0.5, 0.5)) == [1]
    assert p.read == [0]
    assert q.read == [0]


@pytest.mark.parametrize("rule", [token, one_hot, sampler_match, greedy, lenient, mixture, typical])
def test_no_rule_reads_past_a_rejection(rule):
    p, q = Lazy([[0.0, 1.0], None, None]), Lazy([[1.0, 0.0], None])
    assert rule([0, 0], q, p, Scripted(*[LAST] * 3)) == [1]
    assert p.read == [0]
    assert q.read == ([0] if rule in (token, lenient, mixture) else [])


def test_each_row_is_read_once_and_the_bonus_row_only_for_a_bonus():
    row, k = [0.5, 0.5], 3
    for rule in (token, block, one_hot, lenient, mixture):
        p, q = Lazy([row] * (k + 1)), Lazy([row] * k)
        assert len(rule([0] * k, q, p, Scripted(*[0.0] * (k + 1)))) == k + 1
        assert p.read == [*range(k + 1)]
        assert q.read == ([] if rule is one_hot else [*range(k)])
    p, q = Lazy([[0.0, 1.0], [0.0, 1.0], None]), Lazy([row] * 2)
    assert block([0, 0], q, p, Scripted(*[LAST] * 3)) == [1]
    assert p.read == q.read == [0, 1], "no part of the draft was kept, so there is no bonus"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_the_same_without_its_door(rule):
    rng = np.random.default_rng(0)
    inside = on_checked_rows(rule.verify)
    assert inside is rule.on_checked is not rule.verify
    for seed in range(50):
        p, q = rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(4), 3)
        drafted = [draw(row, rng.random()) for row in q]
        emitted = [verify(drafted, q, p, np.random.default_rng(seed)) for verify in (rule.verify, inside)]
        assert emitted[0] == emitted[1]
    assert on_checked_rows(partial(rule.verify)).func is inside


def test_what_a_rule_does_not_read_it_does_not_ask_for():
    assert one_hot([1], None, [[0.0, 1.0]] * 2, Scripted(0.5, 0.5)) == [1, 1]
    with pytest.raises(ValueError, match=r"draft_tokens\[0\] is 2; want a token id from 0 to 1"):
        one_hot([2], None, [[0.5, 0.5]] * 2, Scripted(0.5, 0.5))
    with pytest.raises(ValueError, match="target_dists has 1 rows for k = 1"):
        one_hot([1], None, [[0.5, 0.5]], Scripted(0.5, 0.5))


def test_inputs_are_not_written_to():
    drafted = np.array([1, 0])
    draft_dists, target_dists = np.full((2, 3), 1 / 3), np.full((3, 3), 1 / 3)
    for array in (drafted, draft_dists, target_dists):
        array.flags.writeable = False
    for rule in (token, block, greedy, typical, lenient, mixture):
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


# Block verification


RATIONAL = [w for w in verifier_worlds() if next_rows(w.target, w.prefix, 1).dtype == object]


@pytest.mark.parametrize("world", RATIONAL, ids=lambda world: f"{world.name}, k = {world.k}")
def test_the_block_rule_is_exact_with_rational_equality(world):
    def program(rng):
        _, emitted = play_round(world.target, world.draft, world.prefix, world.k, rng, block)
        while len(emitted) <= world.k:
            emitted.append(draw(next_rows(world.target, [*world.prefix, *emitted], 1)[0], rng.random()))
        return tuple(emitted)

    assert law(program) == ancestral_law(world.target, world.prefix, world.k + 1)


@pytest.mark.parametrize("world", generator_worlds()[::3], ids=lambda world: f"{world.name}, k = {world.k}")
def test_whole_texts_by_the_block_rule_have_the_target_law(world):
    def program(rng):
        given = world.target, world.draft, world.prefix, world.n_tokens, world.k, rng
        return tuple(generate_speculative(*given, verifier=block, stop=world.stop).tokens)

    expected = ancestral_law(world.target, world.prefix, world.n_tokens, stop=world.stop)
    assert float(distance(law(program), expected)) < 1e-15
    if next_rows(world.target, world.prefix, 1).dtype == object:
        assert law(program) == expected


def expected_accepted(rule, world):
    def accepted(rng):
        return play_round(world.target, world.draft, world.prefix, world.k, rng, rule)[0].accepted

    return sum(count * mass for count, mass in law(accepted).items())


@pytest.mark.parametrize("world", RATIONAL, ids=lambda world: f"{world.name}, k = {world.k}")
def test_the_block_rule_accepts_at_least_as_much(world):
    by_token, by_block = expected_accepted(token, world), expected_accepted(block, world)
    assert by_block >= by_token
    if world.k == 1:
        assert by_block == by_token


weights = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any), min_size=3, max_size=3)


@settings(max_examples=25, deadline=None)
@given(weights, weights, st.integers(2, 3))
def test_the_block_rule_accepts_at_least_as_much_anywhere(p, q, k):
    world = World("random", table(*p), table(*q), k=k)
    assert expected_accepted(block, world) >= expected_accepted(token, world)
    assert law(one_round(block, k, world.target, world.draft)) == ancestral_law(world.target, [0], k + 1)


def test_it_accepts_more_where_later_tokens_make_good():
    assert expected_accepted(block, World("dense", *DENSE, k=2)) > expected_accepted(
        token, World("", *DENSE, k=2)
    )


def block_that(draft_tokens, draft_dists, target_dists, rng, *, stops=False, forgets=False):
    """The block rule with one of two classic mistakes."""
    kept, k = [1], len(draft_tokens)
    for x, p, q in zip(draft_tokens, target_dists, draft_dists):
        kept.append(acceptance(kept[-1] * p[x], q[x]))
    length = 0
    for i in range(1, k + 1):
        left = None if i == k else total_variation(kept[i] * target_dists[i], draft_dists[i])
        keeps = kept[k] if i == k else left / (left + 1 - kept[i]) if left + 1 != kept[i] else 1
        if rng.random() < keeps:
            length = i
        elif stops:
            break
    if length == k:
        return [*draft_tokens, draw(target_dists[k], rng.random())]
    share = 1 if forgets else kept[length]
    row = replacement(target_dists[length], draft_dists[length], share)
    return [*draft_tokens[:length], draw(row, rng.random())]


def test_the_classic_mistakes_of_block_verification_are_refuted():
    right = ancestral_law(DENSE[0], [0], 4)
    assert law(one_round(block_that, 3, *DENSE)) == right
    assert law(one_round(partial(block_that, stops=True), 3, *DENSE)) != right
    assert law(one_round(partial(block_that, forgets=True), 3, *DENSE)) != right


def test_the_block_rule_spends_one_uniform_for_each_drafted_token_and_one_more():
    p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    for coins in ((0.999,) * 4, (0.0,) * 4):
        rng = Scripted(*coins)
        block([1, 1, 1], [q] * 3, [p] * 4, rng)
        assert rng.used == 4
    assert block([], np.empty((0, 3)), [p], Scripted(0.6)) == [1]


def test_a_block_may_be_kept_though_an_earlier_coin_failed():
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    drafted = [0, 1]  # the first alone is too often drafted, the second makes good for it
    assert token(drafted, [q] * 2, [p] * 3, Scripted(0.6, 0.9)) == [1]
    assert block(drafted, [q] * 2, [p] * 3, Scripted(0.99, 0.6, 0.9)) == [0, 1, 1]


def test_when_rounding_alone_ends_a_block_the_token_comes_from_the_target():
    p, q = np.array([0.5, np.nextafter(0.5, 0)]), np.array([0.5, 0.5])
    assert block([1], [q], [p, p], Scripted(LAST, 0.1)) == [0]


def test_the_block_rule_refuses_what_the_token_rule_refuses():
    for rows in ([[0.5, 0.5]] * 2, [[2.0, -1.0], [0.5, 0.5]]):
        with pytest.raises(ValueError, match=r"draft_tokens\[0\]|target_dists\[0\]"):
            block([2], [[0.5, 0.5]], rows, Scripted(0.0, 0.0))


# Lossy rules


LOSSY = [typical, lenient, mixture]


@pytest.mark.parametrize("rule", LOSSY)
def test_a_lossy_rule_says_so_and_is_refuted(rule):
    assert is_lossy(rule)
    assert is_lossy(partial(rule))
    found = certify(rule, worlds=[World("dense", *DENSE, k=2)])
    assert found.verdict == "not exact"
    assert "lossy" in found.notes[-1]


@pytest.mark.parametrize(("rule", "harmless"), [(lenient, {"lenience": 1}), (mixture, {"weight": 1})])
def test_a_lossy_rule_is_never_called_exact_even_where_it_is(rule, harmless):
    same = partial(rule, **harmless)
    world = World("dense", *DENSE, k=2)
    assert distance_on(same, world) == distance_on(token, world)
    assert certify(same, worlds=[world]).verdict == "no difference found"
    with pytest.raises(AssertionError):
        certify(same, worlds=[world]).require_exact()


def first_token_law(rule, p, q):
    found = law(lambda rng: rule([draw(q, rng.random())], [q], [p, p], rng)[0])
    return np.array([found.get(x, F(0)) for x in range(len(p))])


P, Q = (np.array([F(n, 10) for n in row]) for row in ([5, 3, 2], [1, 6, 3]))


def test_what_lossy_rules_cost_at_one_position():
    weight, lenience = F(3, 4), F(4, 5)
    mixed = first_token_law(partial(mixture, weight=weight), P, Q)
    assert (mixed == weight * P + (1 - weight) * Q).all()
    assert total_variation(mixed, P) == (1 - weight) * total_variation(P, Q)
    loose = first_token_law(partial(lenient, lenience=lenience), P, Q)
    assert 0 < total_variation(loose, P) < total_variation(P, Q)
    assert (loose <= P / lenience).all()


def test_typical_keeps_what_is_likely_whatever_the_draft():
    p = np.array([0.9, 0.06, 0.04])
    assert typical([0, 1], [None] * 2, [p] * 3, Scripted(0.95)) == [0, 1]
    assert typical([0, 0], [None] * 2, [p] * 3, Scripted(0.0)) == [0, 0, 0]
    assert typical([2], [None], [p] * 2, Scripted(0.0), epsilon=0.0) == [2, 0]
    flat = np.full(3, 1 / 3)
    assert typical([1], [None], [flat] * 2, Scripted(0.0), epsilon=1.0, delta=0.9) == [1, 0]
    assert typical([1], [None], [flat] * 2, Scripted(0.0), epsilon=1.0, delta=1.1) == [0]


@pytest.mark.parametrize(
    ("rule", "setting", "says"),
    [
        (typical, {"epsilon": -1}, "epsilon is -1"),
        (lenient, {"lenience": 0}, "lenience is 0"),
        (lenient, {"lenience": 1.5}, "lenience is 1.5"),
        (mixture, {"weight": 2}, "weight is 2"),
    ],
)
def test_settings_of_lossy_rules_out_of_range(rule, setting, says):
    with pytest.raises(ValueError, match=says):
        rule([0], [Q], [P, P], Scripted(0.0, 0.0), **setting)
