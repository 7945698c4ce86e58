"""The generator: the first implementation's figures, exact laws, stops, cuts and counts."""

import itertools
import json
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import DRAFT, TARGET, Parity

from specdecode import draft_from_target, generate_speculative, generate_target_only, random_markov
from specdecode.drafts import ModelDraft, NGramDraft, PaddedDraft
from specdecode.exact import ancestral_law, distance, law
from specdecode.models import MappedModel, MarkovModel, RepetitionPenalty
from specdecode.sampling import temperature
from specdecode.speculative import Round, Trace, generate_batch, log_probabilities, stream_speculative
from specdecode.verifiers import greedy, token

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


def test_a_larger_draft_may_not_draft_what_the_target_lacks():
    wide = MarkovModel([[F(1, 4), F(1, 4), F(1, 2), F(0)]] * 4)
    found = law(lambda rng: tuple(generate_speculative(TARGET, PaddedDraft(wide, 3), [0], 2, 2, rng).tokens))
    assert found == ancestral_law(TARGET, [0], 2)
    wide = MarkovModel([[0.25, 0.25, 0.25, 0.25]] * 4)
    with pytest.raises(ValueError, match=r"can draft id 3, which the target, of V = 3, lacks"):
        generate_speculative(TARGET, PaddedDraft(wide, 3), [0], 2, 2, rng())
