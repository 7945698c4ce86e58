"""A certificate says no more than it knows: right samplers are not refused, nor wrong ones called exact."""

import numpy as np
import pytest
import samplers

from specdecode import verifiers
from specdecode.certify import certify, certify_batch, certify_generator, same_law
from specdecode.certify.batch import batch_worlds
from specdecode.certify.edges import edge_worlds, numbers_in
from specdecode.certify.worlds import generator_worlds, sized_worlds, verifier_worlds

NARROW = [w for w in verifier_worlds() if w.k == 1 and w.target.vocab_size <= 4]
SHOWN_BY = {  # the axis on which each kind of wrong verifier shows
    "width": lambda world: world.target.vocab_size > 4,
    "depth": lambda world: world.k > 5,
    "nearness": lambda world: "apart" in world.name or "entries" in world.name,
    "calls": lambda world: world.calls > 1,
    "for real floats": lambda world: world.name == "dense" and world.k < 3,
}
SMALL = [world for world in verifier_worlds() if world.k == 1][:4]


def by_name(functions):
    return [pytest.param(function, id=function.__name__) for function in functions]


@pytest.mark.parametrize("verifier", by_name(samplers.VERIFIERS))
def test_the_verdict_is_the_truth(verifier):
    read_from_its_source = verifier is samplers.edge_of_1000
    axis = SHOWN_BY.get(samplers.kind(verifier))
    worlds = [world for world in verifier_worlds() if axis(world)] if axis else NARROW
    found = certify(verifier, worlds=None if read_from_its_source else worlds, draws=2000)
    if samplers.truth(verifier) == "RIGHT":
        assert (found.verdict, found.method) == ("exact", "enumerated"), str(found)
    else:
        assert found.verdict == "not exact", str(found)
        assert found.witness is not None


@pytest.mark.parametrize("generate", by_name(samplers.GENERATORS))
def test_the_verdict_on_a_generator_is_the_truth(generate):
    worlds = [w for w in generator_worlds() if w.spare and w.target.vocab_size <= 4 and w.calls == 1]
    found = certify_generator(generate, worlds=worlds)
    assert found.verdict == {"RIGHT": "exact", "WRONG": "not exact"}[samplers.truth(generate)], str(found)


def test_worlds_of_ones_own_are_all_that_is_asked():
    assert certify(samplers.exactly_one, worlds=SMALL).verdict == "exact"


def test_an_exception_of_a_lazy_number_is_no_outcome():
    """Both fail on what stands in for a float alone, which would make them equal."""

    def through_a_list(threshold):
        def program(rng):
            if rng.random() < 0.5:
                return 0
            return 1 + int(float(rng.random()) < threshold)

        return program

    found = same_law(through_a_list(0.9), through_a_list(0.1), draws=4000)
    assert (found.verdict, found.method) == ("not equal", "sampled")
    assert "float" in found.reason


def test_races_of_two_programs_are_enumerated():
    def race(row):
        return lambda rng: int(np.argmin(-np.log1p(-rng.random(3)) / np.array(row)))

    found = same_law(race([0.5, 0.25, 0.25]), race([0.1, 0.1, 0.8]))
    assert (found.verdict, found.method) == ("not equal", "enumerated")
    assert float(found.total_variation) == pytest.approx(0.55)


def test_the_verdict_tells_its_bounds():
    found = certify(verifiers.token)
    bounds = found.bounds
    assert max(bounds["V"]) == 70_000
    assert max(bounds["k"]) == 17
    assert bounds["calls"] == [1, 2]
    assert bounds["dtype"] == "float64"
    assert 0 < bounds["gap"] < 1e-5
    assert f"V 3 to {max(bounds['V'])}" in str(found)
    own = certify(verifiers.token, worlds=SMALL).bounds
    assert own["k"] == [1]
    assert max(own["V"]) <= 4


def test_lines_that_no_world_ran_are_named(tmp_path, monkeypatch):
    source = (
        "from specdecode.verifiers import token\n\n\n"
        "def sampler(d, q, p, rng):\n"
        "    if len(p[0]) > 10**6:\n"
        "        d = d[:1]\n"
        "        return list(d)\n"
        "    return token(d, q, p, rng)\n"
    )
    (tmp_path / "partly_run.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import partly_run

    found = certify(partly_run.sampler)
    assert found.verdict == "exact"
    assert found.unreached == ("partly_run.py:6-7",)
    assert "partly_run.py:6-7 never ran; nothing is said of it" in str(found)
    assert any("1000000 stands in its source" in note for note in found.notes)


def test_law_and_edge_coins_are_two_lines():
    def closed(drafted, q, p, rng):
        for i, x in enumerate(drafted):
            if not rng.random() <= p[i][x] / q[i][x]:
                return [*drafted[:i], samplers.draw(samplers.residual(p[i], q[i]), rng.random())]
        return [*drafted, samplers.draw(p[len(drafted)], rng.random())]

    found = certify(closed)
    assert (found.verdict, found.law_verdict) == ("not exact", "exact")
    lines = str(found).split("\n")
    assert lines[1].startswith("  law         exact")
    assert lines[2].startswith("  edge coins  with every coin exactly 0.0")
    assert certify(verifiers.token).edges.endswith("let out nothing forbidden")


# Batches


def in_turn(coins):
    """The token rule for each sequence of a batch, on `coins(rng, B, k)`, one source of coins a sequence."""

    def verifier(drafted, q, p, rng):
        emitted = []
        for b, coin in enumerate(coins(rng, *drafted.shape)):
            k = int((drafted[b] >= 0).sum())
            emitted.append(samplers.rule(drafted[b, :k], q[b, :k], p[b, : k + 1], coin))
        return emitted

    return verifier


def another_residual(drafted, q, p, rng):
    """The replacement of each sequence is drawn from the residual of the last."""
    theirs = samplers.residual(p[-1, 0], q[-1, 0])
    return [
        samplers.rule(drafted[b], q[b], p[b], rng.random, replaced=lambda p, q: theirs)
        for b in range(len(drafted))
    ]


def test_a_batch_is_certified_by_its_joint_law():
    right = certify_batch(in_turn(lambda rng, n, k: [rng.random] * n))
    assert (right.verdict, right.bounds["batch"]) == ("exact", 3), str(right)

    def shared(rng, n, k):
        coins = list(rng.random(k + 1))
        return [iter(coins).__next__ for _ in range(n)]

    found = certify_batch(in_turn(shared))
    assert found.verdict == "not exact"
    assert "two" in found.witness.world.name, "one sequence alone is right"
    even = [world for world in batch_worlds() if world.name in ("one sequence", "two sequences")]
    assert certify_batch(another_residual, worlds=even[:1]).verdict == "exact"
    assert certify_batch(another_residual, worlds=even).verdict == "not exact"
    for broken in (lambda d, q, p, rng: [[0]], lambda d, q, p, rng: [[-1]] * len(d), lambda d, q, p, rng: 3):
        assert certify_batch(broken).verdict == "not exact"


def test_sizes_that_are_asked_for_are_tried():
    def wrong_past_20(drafted, q, p, rng):
        deep = len(drafted) > 20
        return samplers.rule(drafted, q, p, rng.random, lambda p, q, x: 1 if deep else p[x] / q[x])

    worlds = sized_worlds([500], [20, 21])
    assert [(world.target.vocab_size, world.k) for world in worlds] == [(500, 1), (3, 20), (3, 21)]
    assert certify(wrong_past_20, worlds=worlds[:2]).verdict == "exact"
    assert certify(wrong_past_20, worlds=worlds).witness.world.k == 21
    assert [world.n_tokens for world in sized_worlds([4], [2], [50], is_generator=True)] == [2, 3, 52]
    for sizes, said in ((([2], []), "vocab is 2"), (([], [0]), "k is 0")):
        with pytest.raises(ValueError, match=said):
            sized_worlds(*sizes)


def wasteful(n):
    """The token rule, after n(V) draws that nobody looks at."""

    def verifier(drafted, q, p, rng):
        rng.random(n(p.shape[1]))
        return samplers.rule(drafted, q, p, rng.random)

    return verifier


def test_nothing_is_exact_that_was_not_looked_at():
    """A world of one's own is never left out, and the bounds are those of worlds that were judged."""
    wide = [world for world in verifier_worlds() if world.name == "three ids of 300"]
    assert certify(wasteful(lambda size: 5 * size), worlds=wide, draws=500).verdict == "no difference found"
    found = certify(wasteful(lambda size: size if size > 1000 else 0))
    assert found.verdict == "exact"
    assert max(found.bounds["V"]) == 300
    assert any("three ids of 70000" in note and "left out" in note for note in found.notes)


def test_numbers_are_read_from_the_source():
    assert numbers_in(samplers.one_tile) == [32]
    assert numbers_in(samplers.edge_of_1000) == [1000]
    assert numbers_in(samplers.eight_bits) == []
    worlds, untried = edge_worlds(samplers.six_at_most, is_generator=False)
    assert {world.k for world in worlds} >= {5, 6, 7, 8}
    assert untried == []
