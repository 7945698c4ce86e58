"""Policies change how much is drafted and never what comes out; what looks back and discards does."""

from fractions import Fraction as F

import numpy as np
import pytest

from specdecode import draft_from_target, generate_speculative, random_markov, verifiers
from specdecode.certify import certify_generator
from specdecode.certify.worlds import DENSE, generator_worlds
from specdecode.cost import best_k
from specdecode.drafts import ModelDraft, NGramDraft
from specdecode.exact import ancestral_law, distance, law
from specdecode.policies import best, confident, fixed, heuristic
from specdecode.trace import Round, Rounds, fold

TARGET, DRAFT = DENSE


def by_turns(rounds, drafted, rows):
    """k = 1, 0, 2, …: rounds without a draft are allowed."""
    return (1, 0, 2)[len(rounds) % 3]


POLICIES = {
    "fixed": fixed(2),
    "heuristic": heuristic(start=1),
    "best": best(draft_cost=0.1, longest=2),
    "confident": confident(threshold=F(1, 2), longest=2),
    "by turns": by_turns,
}


def text(k, n_tokens=3, verifier=verifiers.token):
    return lambda rng: tuple(
        generate_speculative(TARGET, DRAFT, [0], n_tokens, k, rng, verifier=verifier).tokens
    )


@pytest.mark.parametrize("verifier", [verifiers.token, verifiers.block], ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_changes_the_law(name, verifier):
    assert law(text(POLICIES[name], verifier=verifier)) == ancestral_law(TARGET, [0], 3)


@pytest.mark.parametrize("name", ["heuristic", "confident"])
def test_generators_with_a_policy_are_certified(name):
    """Look-ups, stop tokens and memory included."""

    def generate(target, draft, prefix, n_tokens, k, rng, stop=None):
        return generate_speculative(target, draft, prefix, n_tokens, POLICIES[name], rng, stop=stop)

    small = [world for world in generator_worlds() if world.n_tokens <= 3][::3]
    found = certify_generator(generate, worlds=small)
    assert found.verdict == "exact", str(found)


class Discards:
    """Looks at its last token, and takes it back if it was improbable."""

    passes_per_token = 1

    def __init__(self, model, threshold):
        self.draft, self.threshold, self.vocab_size = ModelDraft(model), threshold, model.vocab_size

    def propose(self, prefix, k, rng):
        tokens, rows = self.draft.propose(prefix, k, rng)
        keep = len(tokens) - (rows[-1][tokens[-1]] < self.threshold)
        return tokens[:keep], rows[:keep]


@pytest.mark.parametrize("k", [1, 2])
def test_discarding_a_token_one_has_looked_at_is_not_exact(k):
    """The classic mistake beside the right one: the kept tokens are no longer drawn from their rows."""
    draft = Discards(DRAFT, F(1, 2))
    found = law(lambda rng: tuple(generate_speculative(TARGET, draft, [0], 2, k, rng).tokens))
    assert distance(found, ancestral_law(TARGET, [0], 2)) > F(1, 20)


def test_a_number_is_the_fixed_policy():
    """Same uniforms, same text, same counts."""
    target = random_markov(8, seed=1)
    draft = draft_from_target(target, agreement=0.8, seed=2)
    runs = [generate_speculative(target, draft, [0], 200, k, np.random.default_rng(0)) for k in (3, fixed(3))]
    assert runs[0] == runs[1]


def test_the_heuristic_grows_by_two_and_shrinks_by_one():
    policy, rounds, seen = heuristic(start=1, longest=4), [], []
    for accepted in (True, True, True, False, False, False, False, False):
        k = policy(rounds, [], [])
        seen.append(k)
        rounds.append(Round(k, k if accepted else 0, 1 + (k if accepted else 0)))
    assert seen == [1, 3, 4, 4, 3, 2, 1, 1]
    assert policy([*rounds, Round(0, 0, 1)], [], []) == 1, "a round without a draft says nothing"


def test_the_best_k_is_that_of_the_acceptance_seen():
    rounds = [Round(4, 4, 5), Round(4, 2, 3)] * 50  # 300 accepted of 350 tested
    policy = best(draft_cost=0.1, longest=20, prior=(0.0, 1e-9))
    assert policy(rounds, [], []) == best_k(300 / 350, 0.1, 20)
    assert best(draft_cost=50.0)(rounds, [], []) == 1


def test_policies_draft_no_more_than_they_ask_for():
    target = random_markov(8, seed=1)
    draft = draft_from_target(target, agreement=0.5, seed=2)
    trace = generate_speculative(target, draft, [0], 300, confident(0.3, longest=5), np.random.default_rng(0))
    assert {r.proposed for r in trace.rounds} <= set(range(1, 6))
    assert len({r.proposed for r in trace.rounds}) > 1
    assert trace.draft_passes == sum(r.proposed for r in trace.rounds)


def test_a_look_up_that_finds_nothing_ends_the_round():
    trace = generate_speculative(TARGET, NGramDraft(3), [0, 1, 2], 20, fixed(3), np.random.default_rng(0))
    assert any(r.proposed == 0 for r in trace.rounds)
    assert len(trace.tokens) == 20


@pytest.mark.parametrize("answer", [-1, 1.5, None, "two", True])
def test_a_policy_that_returns_no_count_is_told(answer):
    with pytest.raises(ValueError, match="k from the policy is"):
        text(lambda rounds, drafted, rows: answer)(np.random.default_rng(0))


def test_a_policy_cannot_change_a_row():
    def meddles(rounds, drafted, rows):
        if rows:
            rows[-1][0] = 0
        return 1

    with pytest.raises(ValueError, match="read-only"):
        text(meddles)(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (lambda: fixed(-1), "k is -1"),
        (lambda: heuristic(start=0), "start is 0"),
        (lambda: heuristic(start=5, longest=3), "longest is 3"),
        (lambda: best(draft_cost=-1), "draft_cost is -1"),
        (lambda: best(draft_cost=0.1, prior=(2, 1)), "prior is"),
        (lambda: confident(threshold=2), "threshold is 2"),
    ],
)
def test_settings_out_of_range(policy, says):
    with pytest.raises(ValueError, match=says):
        policy()


# What a policy is handed


def test_rounds_read_like_a_list_and_cannot_be_written():
    played = [Round(2, 1, 2), Round(3, 3, 4)]
    rounds = Rounds(played)
    assert (len(rounds), rounds[-1], rounds[:1], list(rounds)) == (2, played[-1], played[:1], played)
    assert rounds == played
    assert rounds == Rounds(list(played))
    assert rounds != played[:1]
    assert played[0] in rounds
    assert list(reversed(rounds)) == played[::-1]
    for writes in ("append", "extend", "clear", "pop", "__setitem__", "__delitem__"):
        assert not hasattr(rounds, writes)


def test_a_fold_reads_each_round_once_and_agrees_with_the_whole():
    read, played = [], []
    rounds = Rounds(played)

    def step(state, each):
        read.append(each)
        return (*state, each.accepted)

    for accepted in range(5):
        played.append(Round(4, accepted, accepted + 1))
        assert fold(step, rounds, ()) == fold(step, rounds, ()) == tuple(range(accepted + 1))
    assert read == played
    assert fold(step, rounds, (9,)) == (9, *range(5)), "another start is another fold"
    assert fold(step, played, ()) == tuple(range(5)), "a plain list will do"


@pytest.mark.parametrize("policy", [fixed(2), heuristic(2, 9), best(0.1), confident(0.4)], ids=repr)
def test_policies_say_the_same_of_a_list_and_of_rounds(policy):
    rng, played, row = np.random.default_rng(0), [], np.array([0.3, 0.7])
    rounds = Rounds(played)
    for _ in range(60):
        for drafted in ((), (0,), (1,)):
            rows = (row,) * len(drafted)
            assert policy(rounds, drafted, rows) == policy(list(played), drafted, rows)
        proposed = int(rng.integers(0, 6))
        accepted = int(rng.integers(0, proposed + 1))
        played.append(Round(proposed, accepted, accepted + 1))


def test_two_runs_with_one_policy_do_not_mix():
    policy = heuristic(start=2)
    one, two = Rounds([Round(2, 2, 3)]), Rounds([Round(2, 0, 1)])
    assert (policy(one, [], []), policy(two, [], []), policy(one, [], [])) == (4, 1, 4)


def test_a_policy_reads_each_round_once():
    class Counted(list):
        read = 0

        def __iter__(self):
            raise AssertionError("all rounds were read again")

        def __getitem__(self, index):
            found = super().__getitem__(index)
            Counted.read += len(found) if isinstance(index, slice) else 1
            return found

    rounds = Rounds(played := Counted())
    policies = heuristic(2), best(0.1)
    for _ in range(200):
        for policy in policies:
            policy(rounds, [], [])
            policy(rounds, [0], [np.array([0.5, 0.5])])
        played.append(Round(2, 1, 2))
    assert Counted.read == 2 * 199
