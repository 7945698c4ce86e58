"""The certifier accepts right samplers of many styles, refutes wrong ones, and says what it could not do."""

import json
from fractions import Fraction as F
from functools import cache

import numpy as np
import pytest

from specdecode import generate_speculative, verifiers
from specdecode.certify import certify, certify_generator
from specdecode.certify.statistics import g_test, resolution
from specdecode.certify.worlds import DENSE, World, generator_worlds, verifier_worlds
from specdecode.exact import Law
from specdecode.museum import EXHIBITS
from specdecode.testing import assert_exact, assert_same_law

SMALL = [world for world in verifier_worlds() if world.k == 1]
certificate = cache(certify)  # of a rule that several tests look at


# Right rules, in the styles in which they are written in public


def loop_with_choice(draft_tokens, draft_dists, target_dists, rng):
    emitted = []
    for x, q, p in zip(draft_tokens, draft_dists, target_dists):
        if rng.random() < p[x] / q[x]:
            emitted.append(x)
        else:
            rest = np.maximum(p - q, 0)
            return [*emitted, rng.choice(len(rest), p=rest / rest.sum())]
    return [*emitted, rng.choice(len(target_dists[-1]), p=target_dists[-1])]


def all_coins_at_once(draft_tokens, draft_dists, target_dists, rng):
    k = len(draft_tokens)
    at = np.arange(k)
    ratios = target_dists[at, draft_tokens] / draft_dists[at, draft_tokens]
    rejected = ~(rng.random(k) < ratios)
    n = int(np.argmax(rejected)) if rejected.any() else k
    row = target_dists[n] if n == k else np.clip(target_dists[n] - draft_dists[n], 0, None)
    cumulative = np.cumsum(row) / row.sum()
    return np.append(draft_tokens[:n], np.searchsorted(cumulative, rng.random(), side="right"))


def rejects_with_a_complement(draft_tokens, draft_dists, target_dists, rng):
    emitted = []
    for x, q, p in zip(draft_tokens, draft_dists, target_dists):
        if 1 - rng.random() > 1 - min(1.0, p[x] / q[x]):
            emitted.append(int(x))
            continue
        rest = [max(a - b, 0) for a, b in zip(p, q)]
        u, total = rng.uniform(0, sum(rest)), 0.0
        for y, weight in enumerate(rest):
            total += weight
            if u < total:
                return [*emitted, y]
    return [*emitted, int(np.argmax(rng.multinomial(1, target_dists[-1])))]


RIGHT = [
    verifiers.token,
    verifiers.block,
    *(exhibit.sampler for exhibit in EXHIBITS.values() if exhibit.kind == "innocent"),
    loop_with_choice,
    all_coins_at_once,
    rejects_with_a_complement,
]


@pytest.mark.parametrize("verifier", RIGHT, ids=lambda f: f.__name__)
def test_right_rules_are_exact(verifier):
    found = certificate(verifier)
    assert found.verdict == "exact", found
    assert found.method == "enumerated"
    assert found.total_variation <= 1e-15
    assert found.witness is found.resolution is found.reason is None
    assert len(found.checks) == len(verifier_worlds())
    assert found.require_exact() is found


def test_the_own_rule_is_exact_in_fractions_too():
    assert any("Fractions (k = 1) the laws are equal" in note for note in certificate(verifiers.token).notes)


# Wrong rules


def from_the_target(draft_tokens, draft_dists, target_dists, rng):
    for i, x in enumerate(draft_tokens):
        if not rng.random() < target_dists[i][x] / draft_dists[i][x]:
            return [*draft_tokens[:i], rng.choice(len(target_dists[i]), p=target_dists[i])]
    return [*draft_tokens, rng.choice(len(target_dists[-1]), p=target_dists[-1])]


def test_a_wrong_rule_gets_a_witness_that_can_be_run(tmp_path, run_python):
    found = certificate(from_the_target)
    assert found.verdict == "not exact"
    witness = found.witness
    assert witness.world.k == 1, "the smallest world that shows it"
    assert (witness.outcome, witness.probability, witness.expected) == ((0, 0), F(1, 6), F(1, 4))
    assert witness.drafted == (2,)
    assert "a rejected token was replaced by itself" in witness.hints
    with pytest.raises(AssertionError, match="has        1/6, should have 1/4"):
        found.require_exact()

    import inspect

    (tmp_path / "test_certify.py").write_text("import numpy as np\n" + inspect.getsource(from_the_target))
    done = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{witness.snippet}")
    assert done.returncode == 0, done.stderr
    assert "not exact" in done.stdout
    assert "has        1/6, should have 1/4" in done.stdout


def right_until(fault):
    """The right rule, except that `fault` may replace what it returns."""

    def verifier(draft_tokens, draft_dists, target_dists, rng):
        return fault(loop_with_choice(draft_tokens, draft_dists, target_dists, rng))

    return verifier


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda out: [], "returned 0 tokens"),
        (lambda out: [*out, *out, *out], "tokens for 1 drafted"),
        (lambda out: [7 for _ in out], "is 7; want a token id"),
        (lambda out: [float(x) for x in out], "want a token id"),
        (lambda out: None, "what it returned is None"),
        (lambda out: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_what_is_no_text_is_the_witness(fault, says):
    found = certify(right_until(fault), worlds=SMALL)
    assert found.verdict == "not exact"
    assert says in str(found.witness.outcome)


def test_a_rule_that_draws_nothing_is_told_so():
    found = certify(verifiers.greedy)
    assert found.verdict == "not exact"
    assert "it never drew a random number" in found.witness.hints


def test_coins_at_the_ends():
    def closed(draft_tokens, draft_dists, target_dists, rng):
        for i, x in enumerate(draft_tokens):
            if not rng.random() <= target_dists[i][x] / draft_dists[i][x]:
                rest = np.maximum(target_dists[i] - draft_dists[i], 0)
                return [*draft_tokens[:i], rng.choice(len(rest), p=rest / rest.sum())]
        return [*draft_tokens, rng.choice(len(target_dists[-1]), p=target_dists[-1])]

    found = certify(closed)
    assert found.verdict == "not exact"
    assert "every coin exactly 0.0" in found.witness.how
    assert found.total_variation < 1e-15, "its law under ideal uniforms is right"


def test_faults_on_paths_of_rounding_are_notes():
    """Two rows equal up to an ulp: the residual is 0/0 on a path of probability 1e-16."""
    found = certificate(loop_with_choice)
    assert found.verdict == "exact"
    assert any("ulp" in note and "e-1" in note for note in found.notes), found.notes
    assert (
        certify(loop_with_choice, tolerance=0, worlds=[w for w in SMALL if "ulp" in w.name]).verdict
        == "not exact"
    )


def test_writing_to_the_inputs_is_noted():
    def vandal(draft_tokens, draft_dists, target_dists, rng):
        emitted = loop_with_choice(draft_tokens, draft_dists, target_dists, rng)
        target_dists[:] = 0
        return emitted

    assert any("wrote to" in note for note in certify(vandal, worlds=SMALL).notes)


# What cannot be enumerated is sampled


@pytest.mark.parametrize(
    ("hide", "why"),
    [
        (lambda rule, own: lambda t, q, p, rng: rule(t, q, p, own), "randomness or state of its own"),
        (lambda rule, own: lambda t, q, p, rng: rule(t, q, p, Floats(rng)), "cannot be followed exactly"),
    ],
    ids=["own generator", "float(u)"],
)
def test_hidden_randomness_is_sampled_and_still_judged(hide, why):
    right = certify(hide(loop_with_choice, np.random.default_rng(1)), draws=4000)
    assert right.verdict == "no difference found"
    assert right.method == "sampled"
    assert why in right.reason
    assert right.total_variation is None
    assert 0 < right.resolution < 0.12
    with pytest.raises(AssertionError, match="no difference found"):
        right.require_exact()

    wrong = certify(hide(from_the_target, np.random.default_rng(1)), draws=4000)
    assert wrong.verdict == "not exact"
    assert wrong.method == "sampled"
    assert wrong.witness.how == "sampled"


class Floats:
    """A generator that turns its uniforms into plain floats first."""

    def __init__(self, rng):
        self.rng = rng

    def random(self):
        return float(self.rng.random())

    def choice(self, n, p):
        return int(np.searchsorted(np.cumsum(p), self.random(), side="right"))


def prints_its_coins(draft_tokens, draft_dists, target_dists, rng):
    coin = rng.random()
    assert f"{coin:.4f}"
    return loop_with_choice(draft_tokens, draft_dists, target_dists, rng)


def guards_against_nan(draft_tokens, draft_dists, target_dists, rng):
    assert not np.isnan(rng.random())
    return loop_with_choice(draft_tokens, draft_dists, target_dists, rng)


def divides_by_the_ratio(draft_tokens, draft_dists, target_dists, rng):
    emitted = []
    for x, q, p in zip(draft_tokens, draft_dists, target_dists):
        with np.errstate(divide="ignore"):
            ratio = np.float64(q[x]) / p[x]
        if rng.random() * ratio < 1:
            emitted.append(x)
        else:
            return [
                *emitted,
                loop_with_choice([], [], [np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()], rng)[0],
            ]
    return [*emitted, loop_with_choice([], [], target_dists[-1:], rng)[0]]


def test_a_guard_against_nan_is_followed():
    assert certify(guards_against_nan, worlds=SMALL).verdict == "exact"


@pytest.mark.parametrize("verifier", [prints_its_coins, divides_by_the_ratio])
def test_what_only_a_lazy_uniform_cannot_do_is_no_fault(verifier):
    found = certify(verifier, draws=1000)
    assert found.verdict == "no difference found", found
    assert found.method == "sampled"


def test_a_guard_against_zero_does_not_hang_on_coins_of_zero():
    def guards(draft_tokens, draft_dists, target_dists, rng):
        class Positive:
            def random(self):
                u = 0.0
                while u == 0:
                    u = rng.random()
                return u

        return verifiers.token(draft_tokens, draft_dists, target_dists, Positive())

    assert certify(guards, worlds=SMALL).verdict == "exact"


def test_uniforms_kept_from_run_to_run_refute_nothing():
    buffer = []

    def hoards(draft_tokens, draft_dists, target_dists, rng):
        while len(buffer) < 1000:
            buffer.append(rng.random())

        class Buffer:
            def random(self):
                return buffer.pop()

        return verifiers.token(draft_tokens, draft_dists, target_dists, Buffer())

    found = certify(hoards, draws=500)
    assert found.verdict == "no difference found"
    assert found.witness is None


def test_coarse_uniforms_are_not_taken_for_fine_ones():
    class Coarse:
        def __init__(self, rng):
            self.rng = rng

        def random(self):
            return self.rng.random(dtype=np.float32)

    found = certify(lambda t, q, p, rng: verifiers.token(t, q, p, Coarse(rng)), draws=500)
    assert found.method == "sampled"
    assert "24 bits" in found.reason


def test_a_proof_is_kept_when_a_later_world_cannot_be_followed():
    def mild(draft_tokens, draft_dists, target_dists, rng):
        if len(draft_tokens) == 3:
            float(rng.random())
        for i, x in enumerate(draft_tokens):
            if not rng.random() < 1.02 * target_dists[i][x] / draft_dists[i][x]:
                return [
                    *draft_tokens[:i],
                    verifiers.draw(verifiers.replacement(target_dists[i], draft_dists[i]), rng.random()),
                ]
        return [*draft_tokens, verifiers.draw(target_dists[-1], rng.random())]

    found = certify(mild)
    assert (found.verdict, found.method) == ("not exact", "enumerated")
    assert any("left out" in note for note in found.notes)


def test_sampling_looks_past_the_first_token():
    """All coins of a block the same number: invisible at k = 1."""

    def one_coin(target, draft, prefix, n_tokens, k, rng, stop=None):
        def verifier(draft_tokens, draft_dists, target_dists, rng):
            coin = float(rng.random())

            class Stuck:
                asked = 0

                def random(self):
                    self.asked += 1
                    return coin if self.asked <= len(draft_tokens) else rng.random()

            return verifiers.token(draft_tokens, draft_dists, target_dists, Stuck())

        return generate_speculative(target, draft, prefix, n_tokens, k, rng, stop=stop, verifier=verifier)

    found = certify_generator(one_coin, draws=4000)
    assert (found.verdict, found.method) == ("not exact", "sampled")
    assert max(check.k for check in found.checks) >= 3


def test_a_loop_that_rejects_from_p_gives_up_soon():
    def rejects(draft_tokens, draft_dists, target_dists, rng):
        for i, x in enumerate(draft_tokens):
            p, q = target_dists[i], draft_dists[i]
            if not rng.random() < p[x] / q[x]:
                while True:
                    y = int(rng.choice(len(p), p=p))
                    if rng.random() * p[y] < p[y] - q[y]:
                        return [*draft_tokens[:i], y]
        return [*draft_tokens, int(rng.choice(len(target_dists[-1]), p=target_dists[-1]))]

    found = certify(rejects, draws=1000, worlds=verifier_worlds()[8:10])
    assert found.verdict == "no difference found"
    assert "too many paths" in found.reason


def test_there_must_be_a_world_and_sensible_numbers():
    for wrong in ({"worlds": []}, {"alpha": 0}, {"alpha": 2}, {"tolerance": float("nan")}, {"draws": 0}):
        with pytest.raises(ValueError, match="want"):
            certify(verifiers.token, **wrong)
    stop_only = [world for world in generator_worlds() if world.stop is not None]
    with pytest.raises(ValueError, match="no world is left"):
        certify_generator(lambda a, b, c, d, e, f: [], worlds=stop_only)


def test_an_error_that_is_swallowed_is_not_believed():
    def swallows(draft_tokens, draft_dists, target_dists, rng):
        try:
            float(rng.random())
        except Exception:
            return [0]
        return from_the_target(draft_tokens, draft_dists, target_dists, rng)

    found = certify(swallows, draws=4000)
    assert found.method == "sampled"
    assert found.verdict == "not exact"


def test_a_loop_that_retries_is_sampled():
    def retries(draft_tokens, draft_dists, target_dists, rng):
        while rng.random() < 0.5:
            pass
        return loop_with_choice(draft_tokens, draft_dists, target_dists, rng)

    found = certify(retries, draws=2000)
    assert found.verdict == "no difference found"
    assert "too many paths" in found.reason


# The test itself: its level at an alpha large enough to see, and its power


def test_false_alarms_come_as_rarely_as_alpha_says():
    """n texts from the very law, 2000 times at alpha 0.01: more than 45 alarms has probability below 1e-6."""
    law = Law({x: F(w, 100) for x, w in enumerate([40, 25, 15, 8, 5, 3, 2, 1, 1])})
    rng = np.random.default_rng(0)
    probabilities = [float(mass) for mass in law.values()]
    alarms = 0
    for _ in range(2000):
        counts = dict(enumerate(rng.multinomial(2000, probabilities).tolist()))
        alarms += g_test({x: c for x, c in counts.items() if c}, law)[0] < 0.01
    assert alarms <= 45, f"{alarms} of 2000"
    assert alarms >= 3, f"{alarms} of 2000: the level is not used"


def test_the_stated_resolution_is_seen_as_often_as_stated():
    law = Law(dict.fromkeys(range(9), F(1, 9)))
    n, alpha = 3000, 1e-6
    size = resolution(n, 8, alpha)
    shifted = np.full(9, 1 / 9)
    shifted[0] += size
    shifted[1:] -= size / 8
    rng = np.random.default_rng(0)
    seen = sum(
        g_test({x: c for x, c in enumerate(rng.multinomial(n, shifted).tolist()) if c}, law)[0] < alpha
        for _ in range(400)
    )
    assert seen >= 380, f"seen {seen} times of 400 at total variation {size:.3f}"
    half = np.full(9, 1 / 9)
    half[0], half[1] = half[0] + size / 10, half[1] - size / 10
    unseen = g_test(dict(enumerate(rng.multinomial(n, half).tolist())), law)[0]
    assert unseen > alpha, "a tenth of it should escape"


def test_an_impossible_outcome_is_seen_at_once():
    assert g_test({0: 999, 1: 1}, Law({0: 1})) == (0.0, 0)


# Generators


def test_the_own_generator_is_exact():
    found = certify_generator(generate_speculative)
    assert found.verdict == "exact", found
    assert not any("not tested" in note for note in found.notes)


def test_a_generator_without_stop_or_look_ups_is_told():
    def plain(target, draft, prefix, n_tokens, k, rng):
        text = list(prefix)
        draft.next_dist(text)
        while len(text) < len(prefix) + n_tokens:
            text.append(rng.choice(target.vocab_size, p=target.next_dist(text)))
        return text[len(prefix) :]

    found = certify_generator(plain)
    assert found.verdict == "exact", found
    assert any("stop tokens not tested" in note for note in found.notes)
    assert any("`propose` not tested" in note for note in found.notes)


def loses_the_first(target, draft, prefix, n_tokens, k, rng, stop=None):
    tokens = generate_speculative(target, draft, prefix, n_tokens + 1, k, rng, stop=stop).tokens
    return tokens[1:]


def keeps_the_surplus(target, draft, prefix, n_tokens, k, rng, stop=None):
    return generate_speculative(target, draft, prefix, n_tokens + (n_tokens > 1), k, rng, stop=stop).tokens


@pytest.mark.parametrize("generate", [loses_the_first, keeps_the_surplus])
def test_wrong_generators_are_refuted(generate):
    found = certify_generator(generate, worlds=generator_worlds()[:8])
    assert found.verdict == "not exact"
    assert found.witness.world.n_tokens <= 2


def judged(generate, names):
    return certify_generator(generate, worlds=[w for w in generator_worlds() if w.name in names])


def test_a_stop_token_of_id_0_and_one_in_the_prefix():
    def falsy(target, draft, prefix, n_tokens, k, rng, stop=None):
        return generate_speculative(target, draft, prefix, n_tokens, k, rng, stop=stop or None)

    def looks_back(target, draft, prefix, n_tokens, k, rng, stop=None):
        tokens = generate_speculative(target, draft, prefix, n_tokens, k, rng, stop=stop).tokens
        return [] if stop in prefix else tokens

    for wrong in (falsy, looks_back):
        assert judged(wrong, {"stop token", "stop token 0, in the prefix"}).verdict == "not exact"


def test_faults_of_late_rounds_and_long_drafts():
    def tires(target, draft, prefix, n_tokens, k, rng, stop=None):
        rounds = []

        def verifier(*arguments):
            rounds.append(1)
            return (verifiers.greedy if len(rounds) > 5 else verifiers.token)(*arguments)

        return generate_speculative(target, draft, prefix, n_tokens, k, rng, stop=stop, verifier=verifier)

    worlds = [world for world in generator_worlds() if world.name.startswith("past") and world.k == 1]
    found = certify_generator(tires, worlds=worlds)
    assert [check.world for check in found.checks if not check.passed] == ["past five rounds"]

    def fifth(draft_tokens, draft_dists, target_dists, rng):
        if len(draft_tokens) == 5:
            emitted = verifiers.token(draft_tokens, draft_dists, target_dists, rng)
            return [*emitted[:4], int(np.argmax(target_dists[4]))] if len(emitted) > 4 else emitted
        return verifiers.token(draft_tokens, draft_dists, target_dists, rng)

    found = certify(fifth)
    failed = [(check.world, check.k) for check in found.checks if not check.passed]
    assert failed[0] == ("few tokens a row", 5)
    assert {name for name, k in failed[1:]} <= {"k = 5", "k = 6"}, "the 5 in its source is an edge"


def test_only_a_target_with_a_memory_shows_some_faults():
    """The row after a drafted token is asked for without the tokens before it."""

    class Forgets:
        def __init__(self, model):
            self.model, self.vocab_size = model, model.vocab_size

        def next_dist(self, prefix):
            return self.model.next_dist(list(prefix)[-1:])

    def forgets(target, draft, prefix, n_tokens, k, rng, stop=None):
        return generate_speculative(Forgets(target), draft, prefix, n_tokens, k, rng, stop=stop)

    found = certify_generator(forgets, worlds=[w for w in generator_worlds() if w.k == 1])
    assert found.verdict == "not exact"
    failed = {check.world for check in found.checks if not check.passed}
    assert failed == {
        "memory",
        "memory of the prefix",
        "draft with a memory",
        "order, number and position",
        "a long prompt",
        "a row of 60",
    }


# Around it


def test_the_certificate_is_plain_data():
    for found in (certify(verifiers.token, worlds=SMALL), certify(from_the_target, worlds=SMALL)):
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert data["verdict"] == found.verdict
        assert len(data["worlds"]) == len(SMALL)


@pytest.mark.parametrize("subject", [None, 3, lambda a, b: None])
def test_what_is_no_sampler_is_refused(subject):
    for ask in (certify, certify_generator):
        with pytest.raises(ValueError, match=r"want \w+\("):
            ask(subject)


def test_one_line_in_a_test_suite():
    assert assert_exact(verifiers.token).verdict == "exact"
    assert assert_exact(generate_speculative, worlds=generator_worlds()[:6]).verdict == "exact"

    def with_options(draft_tokens, draft_dists, target_dists, rng, temperature=1, top_k=None):
        return loop_with_choice(draft_tokens, draft_dists, target_dists, rng)

    assert_exact(with_options, worlds=SMALL)
    with pytest.raises(AssertionError, match=r"from_the_target: not exact"):
        assert_exact(from_the_target)
    with pytest.raises(AssertionError, match="no difference found"):
        assert_exact(lambda t, q, p, rng: loop_with_choice(t, q, p, Floats(rng)), draws=500)
    assert_exact(
        lambda t, q, p, rng: loop_with_choice(t, q, p, Floats(rng)), draws=500, sampled_is_enough=True
    )


def test_two_programs_are_held_against_each_other():
    assert assert_same_law(lambda rng: rng.random() < 0.5, lambda rng: rng.random() >= 0.5).equal
    with pytest.raises(AssertionError, match=r"differ by 0.25 .* most at False: 0.5 against 0.25"):
        assert_same_law(lambda rng: rng.random() < 0.5, lambda rng: rng.random() < 0.75)


def test_a_world_of_ones_own():
    world = World("mine", *DENSE, k=1)
    assert certify(verifiers.token, worlds=[world]).verdict == "exact"
