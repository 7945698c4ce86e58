"""The generator: the first implementation's figures, exact laws, stops, cuts and counts."""

import copy
import functools
import itertools
import json
import pickle
from collections import Counter
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import DRAFT, TARGET, Parity

from specdecode import checks, draft_from_target, generate_speculative, generate_target_only, random_markov
from specdecode.drafts import DRAFTS, ArgmaxDraft, ModelDraft, NGramDraft, PaddedDraft
from specdecode.exact import ancestral_law, distance, law
from specdecode.models import MappedModel, MarkovModel, RepetitionPenalty
from specdecode.policies import Best, Confident
from specdecode.sampling import Settings, temperature
from specdecode.speculative import (
    Round,
    Trace,
    generate_batch,
    log_probabilities,
    play_round,
    stream_speculative,
)
from specdecode.verifiers import RULES, greedy, token

SIX = random_markov(6, seed=1)
SIX_DRAFT = draft_from_target(SIX, agreement=0.7, seed=2)


def rng(seed=0):
    return np.random.default_rng(seed)


# The figures of the first implementation


def test_the_toy_world_counts_what_it_always_counted():
    target = random_markov(32, seed=1)
    trace = generate_speculative(target, draft_from_target(target, 0.8, seed=2), [0], 5000, 4, rng(0))
    assert trace.target_passes == 1302
    assert round(trace.acceptance_rate, 3) == 0.710
    assert round(trace.tokens_per_step, 3) == 3.840
    assert round(trace.speedup(0.1), 2) == 2.74


def test_the_longer_runs_count_what_they_always_counted():
    target = random_markov(32, seed=20240601)
    draft = draft_from_target(target, 0.9, seed=20240602)
    trace = generate_speculative(target, draft, [0], 20_000, 4, rng(20240603))
    assert round(trace.acceptance_rate, 3) == 0.841
    assert round(trace.speedup(0.1), 2) == 3.12

    perfect = draft_from_target(target, 1.0, seed=20240602)
    trace = generate_speculative(target, perfect, [0], 20_000, 8, rng(20240603))
    assert all(r == Round(8, 8, 9) for r in trace.rounds)
    assert round(trace.speedup(0.1), 3) == 4.998


# Exact laws


def speculative(draft, k, n_tokens, *, target=TARGET, prefix=(0,), stop=None):
    return lambda draws: tuple(
        generate_speculative(target, draft, prefix, n_tokens, k, draws, stop=stop).tokens
    )


@pytest.mark.parametrize(
    ("draft", "k", "n_tokens"),
    [
        (DRAFT, 1, 4),
        (DRAFT, 2, 3),
        (DRAFT, 3, 2),
        (TARGET, 2, 3),
        (NGramDraft(3), 2, 4),
        (NGramDraft(3), 4, 3),
    ],
)
def test_the_generator_has_the_target_law_exactly(draft, k, n_tokens):
    assert law(speculative(draft, k, n_tokens)) == ancestral_law(TARGET, [0], n_tokens)


@pytest.mark.parametrize("k", [1, 2])
def test_so_it_has_for_a_target_with_a_memory(k):
    for target in (Parity(), RepetitionPenalty(TARGET, 2)):
        found = law(speculative(DRAFT, k, 3, target=target))
        assert found == ancestral_law(target, [0], 3)
    assert law(speculative(Parity(), 2, 2, target=Parity(), prefix=())) == ancestral_law(Parity(), [], 2)


@pytest.mark.parametrize("stop", [1, [0, 2]])
def test_a_stop_token_ends_the_text_wherever_it_falls(stop):
    found = law(speculative(DRAFT, 2, 3, stop=stop))
    assert found == ancestral_law(TARGET, [0], 3, stop=stop)
    assert {len(text) for text in found} == {1, 2, 3}


def test_plain_sampling_is_the_reference():
    found = law(lambda draws: tuple(generate_target_only(TARGET, [0], 3, draws, stop=1)))
    assert found == ancestral_law(TARGET, [0], 3, stop=1)


def test_the_enumeration_refutes_a_generator_that_looks_for_a_stop_only_at_the_end_of_a_round():
    def forgetful(draws):
        text = []
        for _, kept in stream_speculative(TARGET, DRAFT, [0], 3, 2, draws):
            text += kept
            if text[-1] == 1:
                break
        return tuple(text)

    assert law(forgetful) != ancestral_law(TARGET, [0], 3, stop=1)


def test_float_models_give_the_law_of_the_float_program():
    target = random_markov(3, seed=1)
    draft = draft_from_target(target, 0.7, seed=2)
    gap = distance(law(speculative(draft, 2, 3, target=target)), ancestral_law(target, [0], 3))
    assert 0 < gap < 1e-15


def test_a_float_draft_beside_a_rational_target_is_taken_at_its_exact_value():
    tokens = generate_speculative(TARGET, MarkovModel([[0.25, 0.25, 0.5]] * 3), [0], 3, 2, rng()).tokens
    assert len(tokens) == 3
    halves = MarkovModel([[0.25, 0.25, 0.5]] * 3)
    assert law(speculative(halves, 2, 2)) == ancestral_law(TARGET, [0], 2)
    thirds = draft_from_target(random_markov(3, 1), 0.5, 2)  # their exact values do not sum to 1
    assert distance(law(speculative(thirds, 1, 2)), ancestral_law(TARGET, [0], 2)) < 1e-15


# Sampled, where enumeration is too large. One test a comparison, alpha 1e-6 for all of them together.

ALPHA = 1e-6


@pytest.mark.parametrize("verifier", [token, "wrong"])
def test_the_second_token_given_the_first_by_sampling(verifier):
    def wrong(draft_tokens, draft_dists, target_dists, draws):
        return token(draft_tokens, draft_dists, np.roll(target_dists, 1, axis=0), draws)

    target = RepetitionPenalty(SIX, 2.0)
    n, counts, draws = 8_000, np.zeros((6, 6)), rng(7)
    chosen = wrong if verifier == "wrong" else verifier
    for _ in range(n):
        first, second = generate_speculative(target, SIX_DRAFT, [3, 5], 2, 2, draws, verifier=chosen).tokens
        counts[first, second] += 1
    bound = np.sqrt(np.log(2 * counts.size / ALPHA) / (2 * n))  # Hoeffding, every cell at once
    first = target.next_dist([3, 5])
    worst = max(
        (abs(counts[a, b] / n - first[a] * target.next_dist([3, 5, a])[b]), a, b)
        for a, b in itertools.product(range(6), repeat=2)
    )
    message = f"n = {n}, worst deviation {worst[0]:.4f} at tokens {worst[1:]}, bound {bound:.4f}"
    assert (worst[0] <= bound) == (verifier is token), message


# Contracts


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 1000), st.none() | st.integers(0, 5))
def test_lengths_counts_and_stops(n_tokens, k, seed, stop):
    trace = generate_speculative(SIX, SIX_DRAFT, [0], n_tokens, k, rng(seed), stop=stop)
    assert len(trace.tokens) <= n_tokens
    assert len(trace.tokens) == n_tokens or trace.tokens[-1] == stop
    assert stop not in trace.tokens[:-1]
    assert all(type(x) is int for x in trace.tokens)
    assert all(r.accepted == r.emitted - 1 and 0 <= r.accepted <= r.proposed == k for r in trace.rounds)
    assert trace.draft_passes == k * trace.target_passes
    surplus = sum(r.emitted for r in trace.rounds) - len(trace.tokens)
    assert 0 <= surplus <= k


def test_the_order_of_draws_in_a_round():
    class Recorder:
        def __init__(self, uniforms):
            self.uniforms, self.asked = iter(uniforms), 0

        def random(self):
            self.asked += 1
            return next(self.uniforms)

    # Drafts 0 and then 2, a coin that passes, a coin too high for token 2, and a replacement.
    draws = Recorder([0.0, 0.9, 0.0, 0.9, 0.0])
    trace = generate_speculative(TARGET, DRAFT, [0], 2, 2, draws)
    assert draws.asked == 5
    assert trace.rounds == [Round(2, 1, 2)]
    assert trace.tokens == [0, 0]


def test_a_look_up_costs_no_passes_and_may_propose_nothing():
    trace = generate_speculative(SIX, NGramDraft(6), [0], 40, 3, rng())
    assert trace.draft_passes == 0
    assert trace.speedup(10) == trace.tokens_per_step
    assert min(r.proposed for r in trace.rounds) == 0


def test_a_draft_that_does_not_say_what_it_costs_is_charged_a_pass_a_token():
    class Silent:
        def propose(self, prefix, k, draws):
            return [0], [np.eye(6)[0]]

    assert generate_speculative(SIX, Silent(), [0], 10, 3, rng()).draft_passes > 0


def test_a_draft_may_propose_nothing_without_saying_how_wide():
    class Silent:
        def propose(self, prefix, k, draws):
            return [], []

    trace = generate_speculative(SIX, Silent(), [0], 5, 3, rng())
    assert trace.target_passes == 5
    assert trace.acceptance_rate is None


class Buffer:
    """A model that hands out the same array each time."""

    def __init__(self, model):
        self.model, self.vocab_size, self.row = model, model.vocab_size, np.empty(model.vocab_size)

    def next_dist(self, prefix):
        self.row[:] = self.model.next_dist(prefix)
        return self.row


def test_a_model_that_reuses_its_buffer_is_read_right():
    plain = generate_speculative(SIX, SIX_DRAFT, [0], 60, 3, rng(3))
    assert generate_speculative(Buffer(SIX), Buffer(SIX_DRAFT), [0], 60, 3, rng(3)) == plain


def test_a_draft_that_writes_to_its_prefix_does_no_harm():
    class Scribbler(ModelDraft):
        def propose(self, prefix, k, draws):
            drafted = super().propose(prefix, k, draws)
            prefix.clear()
            return drafted

    plain = generate_speculative(SIX, SIX_DRAFT, [0], 60, 3, rng(3))
    assert generate_speculative(SIX, Scribbler(SIX_DRAFT), [0], 60, 3, rng(3)).tokens == plain.tokens


def test_a_model_that_writes_to_its_prefix_is_told():
    class Scribbler(MarkovModel):
        def next_dists(self, tokens, n):
            rows = super().next_dists(tokens, n)
            tokens.append(0)
            return rows

    with pytest.raises(ValueError, match="changed the tokens it was given"):
        generate_target_only(Scribbler(SIX.rows), [0], 3, rng())


def test_nothing_asked_nothing_done():
    trace = generate_speculative(SIX, SIX_DRAFT, [0], 0, 3, rng())
    assert trace == Trace([], [], 0)
    assert trace.acceptance_rate is trace.tokens_per_step is trace.speedup(0.1) is None
    assert trace.acceptance_by_position == []
    assert generate_target_only(SIX, [0], 0, rng()) == []


def test_conditional_acceptance_counts_only_what_was_tested():
    trace = Trace([0] * 6, [Round(3, 0, 1), Round(3, 3, 4), Round(1, 0, 1)], 7)
    assert trace.acceptance_by_position == [1 / 3, 1.0, 1.0]
    assert trace.conditional_acceptance == 3 / 5
    assert trace.acceptance_rate == 3 / 7
    assert Trace([0], [Round(2, 0, 1)], 2).acceptance_by_position == [0.0, None]


@given(st.integers(0, 99), st.integers(0, 99))
def test_traces_add_up(a, b):
    one, two = (generate_speculative(SIX, SIX_DRAFT, [0], 20, 3, rng(seed)) for seed in (a, b))
    both = one + two
    assert both.tokens == one.tokens + two.tokens
    assert both.target_passes == one.target_passes + two.target_passes
    assert both.draft_passes == one.draft_passes + two.draft_passes
    assert both.rounds == one.rounds + two.rounds


def test_same_seed_same_tokens_and_the_draft_only_changes_the_cost():
    first, again = (generate_speculative(SIX, SIX_DRAFT, [0], 50, 3, rng(5)) for _ in range(2))
    assert first == again
    cold = MappedModel(SIX, lambda row: temperature(row, 0))
    plain = generate_target_only(cold, [0], 50, rng())
    for draft, verifier in itertools.product([SIX_DRAFT, cold, NGramDraft(6)], [token, greedy]):
        assert generate_speculative(cold, draft, [0], 50, 3, rng(), verifier=verifier).tokens == plain


def test_the_stream_is_the_trace():
    steps = list(stream_speculative(SIX, SIX_DRAFT, [0], 30, 3, rng(1), stop=2))
    trace = generate_speculative(SIX, SIX_DRAFT, [0], 30, 3, rng(1), stop=2)
    assert [x for _, kept in steps for x in kept] == trace.tokens
    assert [round_ for round_, _ in steps] == trace.rounds


def test_the_prefix_is_not_written_to_and_any_rng_will_do():
    class Own:
        def random(self):
            return 0.5

    prefix = np.array([0, 1])
    prefix.flags.writeable = False
    generate_speculative(SIX, SIX_DRAFT, prefix, 9, 2, Own())
    generate_speculative(SIX, SIX_DRAFT, (0, 1), 9, 2, Own())
    assert prefix.tolist() == [0, 1]


class Bad:
    """A draft or verifier that breaks its contract in the way it is told."""

    def __init__(self, tokens, rows):
        self.tokens, self.rows = tokens, rows

    def propose(self, prefix, k, draws):
        return self.tokens, np.array(self.rows)


UNIFORM = [[1 / 6] * 6]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"k": 0}, "k is 0; want a whole number, 1 or more"),
        ({"k": 1.5}, "k is 1.5"),
        ({"n_tokens": -1}, "n_tokens is -1; want a whole number, 0 or more"),
        ({"prefix": []}, "prefix is empty"),
        ({"prefix": [6]}, r"prefix\[0\] is 6"),
        ({"stop": 6}, "stop is 6"),
        ({"draft": random_markov(5, 1)}, "draft has V = 5 and target V = 6"),
        ({"draft": "model"}, "draft is a str"),
        ({"target": NGramDraft(6)}, "target is a NGramDraft; want a Model"),
        ({"verifier": "token"}, "verifier is 'token'; want a function"),
        ({"verifier": lambda *_: None}, "emitted is None; want a sequence of token ids"),
        ({"prefix": None}, "prefix is None; want a sequence of token ids"),
        ({"draft": Bad([0] * 4, UNIFORM * 4)}, "draft proposed 4 tokens; want at most k = 3"),
        ({"draft": Bad([0], [[1 / 5] * 5])}, r"draft rows: shape \(1, 5\); want \(1, 6\)"),
        ({"draft": Bad([0], [[0, 1, 0, 0, 0, 0]])}, "drafted token 0 is 0, where its draft row has q = 0"),
        ({"draft": Bad([7], UNIFORM)}, "drafted token 0 is 7"),
        ({"verifier": lambda *_: []}, "verifier emitted 0 tokens"),
        ({"verifier": lambda *_: [0] * 5}, "verifier emitted 5 tokens for 3 drafted"),
        ({"verifier": lambda *_: [6]}, r"emitted\[0\] is 6"),
    ],
)
def test_bad_input_is_told(arguments, says):
    good = {"target": SIX, "draft": SIX_DRAFT, "prefix": [0], "n_tokens": 5, "k": 3, "rng": rng()}
    with pytest.raises(ValueError, match=says) as error:
        generate_speculative(**good | arguments)
    assert "\n" not in str(error.value)


def test_a_negative_draft_cost_is_told():
    with pytest.raises(ValueError, match="draft_cost is -1"):
        Trace([0], [Round(1, 0, 1)], 1).speedup(-1)


def test_counts_agree_with_each_other_and_add_up():
    a, b = (generate_speculative(TARGET, DRAFT, [0], 60, k, np.random.default_rng(k)) for k in (2, 4))
    for trace in (a, b, a + b):
        assert trace.accepted == sum(i * n for i, n in enumerate(trace.accepted_lengths))
        assert sum(trace.accepted_lengths) == trace.target_passes
        assert trace.accepted <= trace.tested <= trace.drafted
        assert [sum(counts) for counts in zip(*trace.counts_by_position)] == [trace.accepted, trace.tested]
    both = (a + b).counts_by_position
    for i, (accepted, tested) in enumerate(a.counts_by_position):
        assert both[i] == (accepted + b.counts_by_position[i][0], tested + b.counts_by_position[i][1])


def test_a_trace_is_plain_data():
    trace = generate_speculative(TARGET, DRAFT, [0], 10, 2, np.random.default_rng(0))
    told = json.loads(json.dumps(trace.to_dict()))
    assert told["tokens"] == trace.tokens
    assert [Round(*counts) for counts in told["rounds"]] == trace.rounds
    assert told["acceptance_by_position"] == trace.acceptance_by_position
    nothing = Trace([], [], 0).to_dict()
    assert (nothing["acceptance_rate"], nothing["accepted_lengths"]) == (None, [])


# Batches, log-probabilities, vocabularies of other sizes


def test_a_row_of_a_batch_does_not_depend_on_who_shares_it():
    prompts = [[0], [5], [3, 1]]
    batch = generate_batch(SIX, SIX_DRAFT, prompts, 20, 3, seed=7)
    for row, prompt in enumerate(prompts):
        others = [[2]] * row + [prompt]
        assert generate_batch(SIX, SIX_DRAFT, others, 20, 3, seed=7)[row] == batch[row]
    assert batch[0].tokens != generate_batch(SIX, SIX_DRAFT, [[0]], 20, 3, seed=8)[0].tokens
    same = generate_batch(SIX, SIX_DRAFT, [[0], [0]], 20, 3, seed=7)
    assert same[0].tokens != same[1].tokens, "rows are independent"
    assert sum(batch).target_passes == sum(trace.target_passes for trace in batch)


def test_each_row_of_a_batch_has_a_cache_of_its_own():
    class Caching:
        made = 0

        def __init__(self):
            self.vocab_size, self.seen = 6, None

        def fresh(self):
            Caching.made += 1
            return Caching()

        def next_dist(self, prefix):
            assert self.seen is None or self.seen == prefix[0], "two texts share a cache"
            self.seen = prefix[0]
            return SIX.next_dist(prefix)

    generate_batch(Caching(), SIX_DRAFT, [[0], [5]], 10, 2, seed=0, verifier=token)
    assert Caching.made == 2


def test_log_probabilities_are_the_targets():
    trace = generate_speculative(SIX, SIX_DRAFT, [0], 12, 3, rng())
    found = log_probabilities(SIX, [0], trace.tokens)
    text = [0, *trace.tokens]
    assert found == [float(np.log(SIX.rows[a][b])) for a, b in itertools.pairwise(text)]
    assert log_probabilities(SIX, [0], []) == []
    assert log_probabilities(MarkovModel([[1.0, 0.0], [0.5, 0.5]]), [0], [1]) == [-np.inf]


def test_the_sum_of_log_probabilities_is_that_of_the_text():
    for tokens, mass in ancestral_law(TARGET, [0], 2).items():
        assert sum(log_probabilities(TARGET, [0], tokens)) == pytest.approx(float(np.log(float(mass))))


def test_a_smaller_draft_is_padded_and_exact():
    small = MarkovModel([[F(1, 4), F(3, 4)], [F(2, 3), F(1, 3)]])

    class Small:  # whatever follows token 2 it drafts as after token 0
        vocab_size = 2

        def next_dist(self, prefix):
            return small.next_dist([min(prefix[-1], 1)])

    draft = PaddedDraft(Small(), 3)
    found = law(lambda rng: tuple(generate_speculative(TARGET, draft, [0], 3, 2, rng).tokens))
    assert found == ancestral_law(TARGET, [0], 3)
    with pytest.raises(ValueError, match="PaddedDraft"):
        generate_speculative(TARGET, Small(), [0], 3, 2, rng())


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("prefix", [[0], [2], [1, 2, 0]])
def test_a_smaller_draft_proposes_nothing_after_what_it_lacks(kind, prefix):
    """Its model cannot take such a text; the target draws on alone, and the law stays."""
    small = MarkovModel([[F(1, 4), F(3, 4)], [F(2, 3), F(1, 3)]])
    draft = PaddedDraft(DRAFTS[kind](small), 3)

    def program(rng):
        trace = generate_speculative(TARGET, draft, prefix, 3, 2, rng)
        return tuple(trace.tokens), tuple(round_.proposed for round_ in trace.rounds)

    found = law(program)
    texts = Counter()
    for (text, proposed), mass in found.items():
        texts[text] += mass
        assert 2 not in prefix or set(proposed) == {0}
        assert proposed[0] <= 2
    assert texts == ancestral_law(TARGET, prefix, 3)
    tokens, rows = draft.propose([0, 2], 2, rng())
    assert (list(tokens), rows.shape) == ([], (0, 3))


def test_a_larger_draft_may_not_draft_what_the_target_lacks():
    wide = MarkovModel([[F(1, 4), F(1, 4), F(1, 2), F(0)]] * 4)
    found = law(lambda rng: tuple(generate_speculative(TARGET, PaddedDraft(wide, 3), [0], 2, 2, rng).tokens))
    assert found == ancestral_law(TARGET, [0], 2)
    wide = MarkovModel([[0.25, 0.25, 0.25, 0.25]] * 4)
    with pytest.raises(ValueError, match=r"can draft id 3, which the target, of V = 3, lacks"):
        generate_speculative(TARGET, PaddedDraft(wide, 3), [0], 2, 2, rng())


# Rows are checked once, at the door


class Foreign:
    """A model that nobody vouches for, with or without several rows a pass."""

    def __init__(self, model, many=True):
        self.model, self.vocab_size = model, model.vocab_size
        if many:
            self.next_dists = lambda tokens, n: model.next_dists(tokens, n)

    def next_dist(self, prefix):
        return self.model.next_dist(prefix)


class ForeignDraft:
    """The same of a draft."""

    def __init__(self, draft):
        self.draft, self.vocab_size = draft, draft.vocab_size

    def propose(self, prefix, k, draws):
        return self.draft.propose(prefix, k, draws)


@pytest.fixture
def checked(monkeypatch):
    """Rows as they are checked, one by one, each as the bytes it is made of."""
    rows, check = [], checks._distributions

    def counting(values, name, shape):
        found = check(values, name, shape)
        rows.extend(np.atleast_2d(found))
        return found

    monkeypatch.setattr(checks, "_distributions", counting)
    return rows


def distinct_rows(model, size):
    """A model with another row at each length of the prefix, so that rows can be told apart."""

    class Lengths:
        vocab_size = model.vocab_size

        def next_dist(self, prefix):
            row = model.next_dist(prefix) * (1 + 1e-3 * (np.arange(size) + len(prefix)))
            return row / row.sum()

    return Lengths()


@pytest.mark.parametrize("k", [4, Confident(0.2, longest=4)], ids=["k = 4", "a policy"])
@pytest.mark.parametrize("make", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_each_row_of_a_round_is_checked_once(checked, rule, make, k):
    """Of foreign models; those that the draft looks at to choose a token are rows of its own."""
    target, model = distinct_rows(SIX, 6), distinct_rows(SIX_DRAFT, 6)
    done, _ = play_round(target, make(model), [0, 1, 2, 0, 1], k, rng(1), rule.verify)
    asked = 0 if make is DRAFTS["ngram"] else done.proposed
    assert len(checked) == done.proposed + 1 + asked
    assert len({row.tobytes() for row in checked}) == len(checked), "a row was checked twice"


def test_a_foreign_stack_is_checked_once_and_a_checked_table_never(checked):
    foreign = Foreign(SIX), ForeignDraft(NGramDraft(6))
    checked.clear()
    done, _ = play_round(*foreign, [0, 1, 2, 0, 1, 2, 0], 3, rng())
    assert len(checked) == 2 * done.proposed + 1
    checked.clear()
    generate_speculative(SIX, SIX_DRAFT, [0], 40, 4, rng())
    generate_target_only(SIX, [0], 40, rng())
    assert checked == []
    generate_target_only(Foreign(SIX), [0], 40, rng())
    assert len(checked) == 40


def test_who_wraps_a_rule_is_checked_and_called():
    """Only the rule itself has a way around its checks: not what looks like it."""
    calls = []

    @functools.wraps(token)
    def mine(*arguments):
        calls.append([type(argument) for argument in arguments[1:3]])
        return token(*arguments)

    plain = generate_speculative(SIX, SIX_DRAFT, [0], 30, 3, rng())
    assert generate_speculative(SIX, SIX_DRAFT, [0], 30, 3, rng(), verifier=mine) == plain
    assert calls == [[np.ndarray, np.ndarray]] * plain.target_passes


class Reassigned(MarkovModel):
    """A subclass whose rows were never checked."""

    def next_dists(self, tokens, n):
        return np.full((n, 6), 0.25)


class Between(ModelDraft):
    """A subclass that comes between the rows and their check."""

    def propose(self, prefix, k, draws):
        tokens, rows = super().propose(prefix, k, draws)
        return tokens, rows / 2


def patched(thing, **methods):
    for name, method in methods.items():
        setattr(thing, name, method)
    return thing


@pytest.mark.parametrize(
    ("target", "draft", "says"),
    [
        (Reassigned(SIX.rows), SIX_DRAFT, r"Reassigned rows: row 0 sums to 1\.5"),
        (SIX, Reassigned(SIX.rows), r"Reassigned rows: row 0 sums to 1\.5"),
        (SIX, patched(MarkovModel(SIX.rows), next_dists=lambda tokens, n: np.full((n, 6), 0.25)), "1\\.5"),
        (SIX, Between(SIX_DRAFT), r"draft rows: row 0 sums to 0\.5"),
        (
            patched(MarkovModel(SIX.rows), next_dists=lambda tokens, n: np.full((n, 6), 0.25)),
            SIX_DRAFT,
            r"MarkovModel rows: row 0 sums to 1\.5",
        ),
        (
            SIX,
            patched(ModelDraft(SIX_DRAFT), propose=lambda prefix, k, draws: ([0], np.full((1, 6), 0.25))),
            r"draft rows: row 0 sums to 1\.5",
        ),
    ],
    ids=["subclass", "subclass to draft", "patched to draft", "between", "patched", "patched draft"],
)
def test_nothing_passes_unchecked_in_the_coat_of_what_is_trusted(target, draft, says):
    with pytest.raises(ValueError, match=says):
        generate_speculative(target, draft, [0], 5, 3, rng())


def test_a_round_of_a_draft_of_another_size_is_told():
    with pytest.raises(ValueError, match=r"draft rows: shape \(3, 5\); want \(3, 6\)"):
        play_round(SIX, random_markov(5, 1), [0], 3, rng())


def test_a_table_stays_what_it_was_when_it_was_checked():
    model = MarkovModel(SIX.rows)
    for same in (model, copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(same.rows, SIX.rows)
        with pytest.raises(ValueError, match="WRITEABLE"):
            same.rows.flags.writeable = True
    with pytest.raises(ValueError, match=r"rows: row 0 sums to 1\.99"):
        model.rows = 2 * SIX.rows
    row = model.next_dist([0])
    row[:] = 7.0  # the caller's own
    assert np.array_equal(model.rows, SIX.rows)


def test_rows_that_are_written_to_after_they_were_handed_over_do_no_harm():
    """A draft and a target that share one buffer: the target is asked while the draft's rows are in use."""
    buffer = np.empty((4, 6))

    class Sharing:
        vocab_size = 6

        def next_dists(self, tokens, n):
            buffer[:n] = SIX.next_dists(tokens, n)
            return buffer[:n]

        def next_dist(self, prefix):
            return self.next_dists(prefix, 1)[0]

        def propose(self, prefix, k, draws):
            tokens, buffer[:k] = ModelDraft(SIX_DRAFT).propose(prefix, k, draws)
            return tokens, buffer[:k]

    class Draft(Sharing):
        next_dist = next_dists = None

    plain = generate_speculative(SIX, SIX_DRAFT, [0], 60, 3, rng(3))
    for k in (3, lambda rounds, drafted, rows: 3):
        assert generate_speculative(Sharing(), Draft(), [0], 60, k, rng(3)) == plain


# Same seed, same tokens, from one version to the next: written down before the checks moved to the door.
STORED = {
    "token": ("152052433525235240152524", "152015015015015015015015", "152401015243541520101502"),
    "block": ("152052415241501501531010", "152015015015015015015015", "150105241531524152315415"),
    "greedy": ("150150150150150150150150", "150150150150150150150150", "152431501501501501501501"),
    "one_hot": ("101524315340152431520153", "152401015315015015350152", "152401015243541520101502"),
    "sampler_match": ("150150154340015010124015", "150150154315015015352015", "152015015243415241525015"),
    "typical": ("152015015241501534150150", "152015015241501524350150", "150150150150150124150150"),
    "lenient": ("152052415241501524015253", "152015015015015015015015", "152401524015234315015015"),
    "mixture": ("152052415241501550153150", "152015015015015015015015", "152401015243150015015415"),
}


@pytest.mark.parametrize("name", STORED)
def test_the_tokens_of_a_seed_stay(name):
    shaped = [MappedModel(model, Settings(0.7, top_k=5, top_p=0.95)) for model in (SIX, SIX_DRAFT)]
    runs = [
        (SIX, SIX_DRAFT, 4),
        (*shaped, Best(0.1)),
        (RepetitionPenalty(SIX, 1.5), ArgmaxDraft(SIX_DRAFT), Confident(0.4)),
    ]
    for (target, draft, k), stored in zip(runs, STORED[name]):
        trace = generate_speculative(target, draft, [0], 24, k, rng(11), verifier=RULES[name].verify)
        assert "".join(map(str, trace.tokens)) == stored


@pytest.mark.parametrize("kind", ["target", "draft"])
def test_a_model_that_copies_its_prefix_gives_the_same_tokens(kind):
    class Copies:
        vocab_size = 3

        def __init__(self, model):
            self.model = model

        def next_dist(self, prefix):
            mine = list(prefix)
            mine.append(0)
            return self.model.next_dist(mine[:-1])

    both = {"target": TARGET, "draft": DRAFT}
    plain = generate_speculative(*both.values(), [0], 30, 3, rng()).tokens
    assert (
        generate_speculative(*(both | {kind: Copies(both[kind])}).values(), [0], 30, 3, rng()).tokens == plain
    )


@pytest.mark.parametrize("k", [10**9, lambda *_: 10**9])
def test_a_slip_of_the_pen_in_k_ends_at_once(k):
    with pytest.raises(ValueError, match="is 1000000000; want a whole number"):
        generate_speculative(TARGET, DRAFT, [0], 5, k, rng())


def test_a_k_beyond_the_text_draws_as_the_contract_says():
    """The last round drafts k as well, whatever room is left."""
    trace = generate_speculative(TARGET, TARGET, [0], 5, 1000, rng())
    assert trace.draft_passes == 1000
    assert len(trace.tokens) == 5
