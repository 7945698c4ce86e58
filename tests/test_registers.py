"""Whatever is registered is what it claims, and whatever could be registered is.

Walks the registers of rules, drafts and policies, so that none can be added without its certificate. Each
guard is also shown to fail.
"""

import inspect
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from specdecode import drafts, generate_speculative, policies, verifiers
from specdecode.certify import certify, certify_generator, distance_on
from specdecode.certify.worlds import DENSE, FEW, ZEROS, generator_worlds, table, verifier_worlds
from specdecode.drafts import DRAFTS, ArgmaxDraft, ModelDraft, NGramDraft, PaddedDraft
from specdecode.exact import ancestral_law, distance, law
from specdecode.models import MappedModel
from specdecode.policies import POLICIES
from specdecode.sampling import draw, temperature
from specdecode.verifiers import RULES, Rule, is_lossy

SHAPE = ["draft_tokens", "draft_dists", "target_dists", "rng"]
ROUNDS = [world for world in verifier_worlds() if world.k <= 2 and world.target.vocab_size < 6]
TEXTS = [world for world in generator_worlds() if world.n_tokens + world.k <= 4]


def greedily(world):
    """The same world with a target at temperature 0."""
    cold = MappedModel(world.target, lambda row: temperature(row, 0))
    return replace(world, name=f"{world.name}, cold", target=cold)


def generator(verifier):
    def generate(target, draft, prefix, n_tokens, k, rng, stop=None):
        return generate_speculative(target, draft, prefix, n_tokens, k, rng, verifier=verifier, stop=stop)

    return generate


# Rules


def keeps_its_claim(rule, rounds=ROUNDS, texts=TEXTS):
    """Assert that a rule does what it claims, and no less than that."""
    assert (rule.claim == "lossy") == is_lossy(rule.verify) == bool(rule.departs), "said in one place alone"
    if rule.claim == "exact":
        certify(rule.verify, worlds=rounds).require_exact()
        certify_generator(generator(rule.verify), worlds=texts).require_exact()
    elif rule.claim == "exact at temperature 0":
        certify(rule.verify, worlds=[greedily(world) for world in rounds]).require_exact()
        cold = [greedily(world) for world in texts]
        certify_generator(generator(rule.verify), worlds=cold).require_exact()
        assert certify(rule.verify, worlds=rounds[:1]).verdict == "not exact", "it claims too little"
    else:
        assert rule.claim == "lossy", f"nobody knows what {rule.claim!r} means"
        assert certify(rule.verify, worlds=rounds[:3]).verdict != "exact"
        assert any(distance_on(rule.verify, world) > 0.01 for world in rounds[:3]), "it claims too little"


def left_out_rules(module, rules):
    """Public functions of a verifier's shape that the register does not have."""
    registered = [rule.verify for rule in rules.values()]
    return [
        name
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and not name.startswith("_")
        and list(inspect.signature(function).parameters)[:4] == SHAPE
        and function not in registered
    ]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_keeps_its_claim(name):
    keeps_its_claim(RULES[name])


def test_the_register_of_rules_is_whole_and_in_order():
    assert left_out_rules(verifiers, RULES) == []
    assert list(RULES) == "token block greedy one_hot sampler_match typical lenient mixture".split()
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.verify is getattr(verifiers, name)
        assert name in verifiers.__all__


def replaces_from_the_target(draft_tokens, draft_dists, target_dists, rng):
    """The quiet bug of home-made code: a rejected token is replaced from p."""
    for i, x in enumerate(draft_tokens):
        if not rng.random() < target_dists[i][x] / draft_dists[i][x]:
            return [*draft_tokens[:i], draw(target_dists[i], rng.random())]
    return [*draft_tokens, draw(target_dists[-1], rng.random())]


def test_a_rule_that_nobody_registered_is_found(monkeypatch):
    monkeypatch.setattr(verifiers, "hasty", replaces_from_the_target, raising=False)
    assert left_out_rules(verifiers, RULES) == ["hasty"]


@pytest.mark.parametrize(
    "liar",
    [
        Rule("hasty", replaces_from_the_target, "exact"),
        Rule("mixture", verifiers.mixture, "exact at temperature 0"),
        Rule("greedy", verifiers.greedy, "exact"),
        Rule("token", verifiers.token, "exact at temperature 0"),
        Rule("token", verifiers.token, "lossy", "not at all"),
        Rule("mixture", verifiers.mixture, "exact"),
        Rule("mixture", verifiers.mixture, "lossy"),
        Rule("token", verifiers.token, "mostly exact"),
    ],
    ids=lambda rule: f"{rule.name} as {rule.claim}",
)
def test_a_rule_that_lies_is_found(liar):
    with pytest.raises(AssertionError):
        keeps_its_claim(liar, ROUNDS[:3], TEXTS[:3])


def test_a_rule_that_is_wrong_in_rounds_alone_is_found():
    """Right for one round of one token, so that the generator's certificate must be the one that speaks."""

    def tires(draft_tokens, draft_dists, target_dists, rng):
        rule = verifiers.token if len(draft_tokens) < 2 else replaces_from_the_target
        return rule(draft_tokens, draft_dists, target_dists, rng)

    with pytest.raises(AssertionError, match="not exact"):
        keeps_its_claim(Rule("tires", tires, "exact"), ROUNDS[:3], TEXTS)


# Drafts: the rows handed over are the law of the tokens proposed.

PREFIXES = (0,), (1, 2), (0, 1, 2, 0, 1)


def hands_over_its_law(draft, prefix, k):
    def proposal(rng):
        tokens, rows = draft.propose(list(prefix), k, rng)
        return tuple(tokens), tuple(tuple(row) for row in np.asarray(rows).tolist())

    found = law(proposal)
    for (tokens, rows), mass in found.items():
        assert len(tokens) == len(rows) <= k
        assert mass == prod(row[token] for token, row in zip(tokens, rows)), f"{tokens} from {rows}: {mass}"


def left_out_drafts(module, made, wrappers):
    """Public classes that propose, and are neither made by the register nor named as wrappers of others."""
    known = {type(draft) for draft in made} | set(wrappers) | {module.Draft}
    return [
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and hasattr(thing, "propose") and thing not in known
    ]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("prefix", PREFIXES, ids=str)
@pytest.mark.parametrize("model", [DENSE[1], ZEROS[1], FEW[1]], ids=["dense", "zeros", "few"])
@pytest.mark.parametrize("name", DRAFTS)
def test_a_draft_hands_over_the_law_of_its_tokens(name, model, prefix, k):
    hands_over_its_law(DRAFTS[name](model), prefix, k)


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("vocab_size", [3, 5])
def test_a_wrapped_draft_hands_over_the_law_of_its_tokens(name, vocab_size):
    hands_over_its_law(PaddedDraft(DRAFTS[name](DENSE[1]), vocab_size), (0, 1, 2, 0), 2)


def test_the_register_of_drafts_is_whole():
    made = [make(DENSE[1]) for make in DRAFTS.values()]
    assert [type(draft) for draft in made] == [ModelDraft, ArgmaxDraft, NGramDraft]
    assert left_out_drafts(drafts, made, [PaddedDraft]) == []


class Soft(ArgmaxDraft):
    """Hands over the soft rows of tokens that it chose for certain."""

    def propose(self, prefix, k, rng):
        tokens, _ = super().propose(prefix, k, rng)
        return tokens, np.array([self.model.next_dist([*prefix, *tokens[:i]]) for i in range(len(tokens))])


class Discards(ModelDraft):
    """Takes back its last token if it was improbable."""

    def propose(self, prefix, k, rng):
        tokens, rows = super().propose(prefix, k, rng)
        keep = len(tokens) - (rows[-1][tokens[-1]] < 0.5)
        return tokens[:keep], rows[:keep]


@pytest.mark.parametrize("draft", [Soft(DENSE[1]), Discards(DENSE[1])], ids=["soft", "discards"])
def test_a_draft_whose_rows_are_not_its_law_is_found(draft, monkeypatch):
    with pytest.raises(AssertionError, match="from"):
        hands_over_its_law(draft, (0,), 2)
    monkeypatch.setattr(drafts, "Another", type(draft), raising=False)
    made = [make(DENSE[1]) for make in DRAFTS.values()]
    assert left_out_drafts(drafts, made, [PaddedDraft]) == ["Another"]


# Policies: none changes the law.


def never_changes_the_law(policy, target, draft, n_tokens=3):
    found = law(lambda rng: tuple(generate_speculative(target, draft, [0], n_tokens, policy, rng).tokens))
    assert found == ancestral_law(target, [0], n_tokens), str(
        float(distance(found, ancestral_law(target, [0], n_tokens)))
    )


def left_out_policies(module, made):
    """Public classes of the module whose instances are called with (rounds, drafted, rows)."""
    known = {type(policy) for policy in made}
    return [
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing)
        and list(inspect.signature(thing.__call__).parameters)[1:] == ["rounds", "drafted", "rows"]
        and thing not in known
    ]


# One soft row, so that long drafts have few paths.
WAVERS = table([0, 1, 1], [0, 0, 1], [1, 0, 0]), table([0, 3, 1], [0, 0, 1], [1, 0, 0])


@pytest.mark.parametrize("draft_cost", [0.05, 0.3])
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_never_changes_the_law(name, draft_cost):
    never_changes_the_law(POLICIES[name](draft_cost), *WAVERS)


def test_the_register_of_policies_is_whole():
    made = [make(0.1) for make in POLICIES.values()]
    assert [type(policy).__name__ for policy in made] == ["Fixed", "Heuristic", "Best", "Confident"]
    assert left_out_policies(policies, made) == []
    for old in "fixed heuristic best confident".split():
        assert getattr(policies, old) is getattr(policies, old.capitalize())


def test_what_discards_instead_of_stopping_is_found():
    """As a policy would, it looks at what was drafted; but it drafts first and takes back afterwards."""
    with pytest.raises(AssertionError):
        never_changes_the_law(2, DENSE[0], Discards(DENSE[1]), n_tokens=2)


def test_a_policy_that_nobody_registered_is_found(monkeypatch):
    class Eager:
        def __call__(self, rounds, drafted, rows):
            return 3

    monkeypatch.setattr(policies, "Eager", Eager, raising=False)
    assert left_out_policies(policies, [make(0.1) for make in POLICIES.values()]) == ["Eager"]
