"""The bridge: the formal programs, running in Python, against the package that people call.

The laws of exact rules are all the target's, so equal texts alone would show little. Rounds are compared by
the joint law of what was drafted and what was emitted, and the loop is also driven by rules that are wrong,
whose texts depend on every detail of it.
"""

import re
import tomllib
from fractions import Fraction as F
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proofs.alterations import altered, refuted

from specdecode import exact, rule, verifiers
from specdecode.certify.worlds import DENSE, DISJOINT, FEW, PEAKY, ZEROS, table
from specdecode.drafts import ArgmaxDraft, NGramDraft
from specdecode.models import MarkovModel, RepetitionPenalty
from specdecode.proof import programs as formal
from specdecode.sampling import draw
from specdecode.speculative import generate_speculative, generate_target_only, play_round

PROOFS = Path(__file__).resolve().parent.parent / "book" / "proofs"
ALTERATIONS = tomllib.loads((PROOFS / "alterations.toml").read_text())
WORLDS = {
    "dense": DENSE,
    "peaky": PEAKY,
    "zeros": ZEROS,
    "disjoint": DISJOINT,
    "draft = target": (DENSE[0], DENSE[0]),
    "V = 2": (table([1, 2], [2, 1]), table([2, 1], [1, 1])),
    "V = 1": (table([1]), table([1])),
    "memory": (RepetitionPenalty(DENSE[0], 2), RepetitionPenalty(DENSE[1], 3)),
}


def rows_of(model):
    known = {}

    def rows(s):
        if s not in known:
            known[s] = model.next_dist(s).tolist()
        return known[s]

    return rows


def formal_rules(P, Q):
    return {
        "token": partial(formal.token, P, Q),
        "block": partial(formal.block, P, Q),
        "one_hot": partial(formal.one_hot, P),
        "sampler_match": partial(formal.sampler_match, P),
    }


def never(token):
    return False


# --- a round ------------------------------------------------------------------------------------------------


def python_round(target, draft, text, k, verifier):
    """Joint law of (drafted, emitted) of the package's own round."""

    def program(rng):
        seen = []

        def recorded(drafted, draft_dists, target_dists, rng):
            seen.append(tuple(drafted))
            return verifier(drafted, draft_dists, target_dists, rng)

        _, emitted = play_round(target, draft, list(text), k, rng, recorded)
        return seen[0], tuple(emitted)

    return exact.law(program)


def formal_round(Q, text, k, more, verify):
    @formal.program
    def both():
        xs = yield formal.propose(Q, k, more, text)
        ys = yield verify(text, xs)
        return xs, ys

    return formal.law(both())


@pytest.mark.parametrize("rule", ["token", "block", "one_hot", "sampler_match"])
@pytest.mark.parametrize("world", WORLDS)
def test_a_round_is_the_packages(rule, world):
    target, draft = WORLDS[world]
    P, Q = rows_of(target), rows_of(draft)
    for k in (0, 1, 2, 3) if target.vocab_size < 4 else (0, 1, 2):
        for last in range(target.vocab_size):
            expected = formal_round(Q, (last,), k, lambda xs: True, formal_rules(P, Q)[rule])
            found = python_round(target, draft, [last], (lambda *_, k=k: k), getattr(verifiers, rule))
            assert found == expected, f"k = {k} after {last}"


def test_which_rules_differ_in_a_round():
    """So the joint law tells them apart, except for two rules that are one: both keep x with p(x)."""
    target, draft = DENSE
    P, Q = rows_of(target), rows_of(draft)
    token, block, one_hot, sampler_match = (
        formal_round(Q, (0,), 2, lambda xs: True, verify) for verify in formal_rules(P, Q).values()
    )
    assert token != block != one_hot != token
    assert one_hot == sampler_match


@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_policy_that_looks_at_what_it_drafted(rule):
    target, draft = DENSE
    P, Q = rows_of(target), rows_of(draft)

    def more(xs):
        return len(xs) < 3 and xs[-1:] != (2,)

    expected = formal_round(Q, (0,), 3, more, formal_rules(P, Q)[rule])
    found = python_round(
        target, draft, [0], lambda rounds, xs, rows: len(xs) + more(xs), getattr(verifiers, rule)
    )
    assert found == expected


weights = st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)


@settings(max_examples=25, deadline=None)
@given(st.lists(weights, min_size=6, max_size=6), st.sampled_from(["token", "block"]))
def test_a_round_on_any_rows(rows, rule):
    target, draft = table(*rows[:3]), table(*rows[3:])
    P, Q = rows_of(target), rows_of(draft)
    expected = formal_round(Q, (0,), 2, lambda xs: True, formal_rules(P, Q)[rule])
    assert python_round(target, draft, [0], 2, getattr(verifiers, rule)) == expected


# --- a text -------------------------------------------------------------------------------------------------


def accepts_everything(drafted, draft_dists, target_dists, rng):
    return [*drafted, draw(target_dists[-1], rng.random())]


def keeps_on_a_coin(drafted, draft_dists, target_dists, rng):
    """Each drafted token kept with a third, else the target's draw: wrong, and of every length."""
    for i in range(len(drafted)):
        if not rng.random() < F(1, 3):
            return [*drafted[:i], draw(target_dists[i], rng.random())]
    return [*drafted, draw(target_dists[-1], rng.random())]


@formal.program
def formally_accepts_everything(P, s, xs):
    y = yield formal.draw(P((*s, *xs)))
    return (*xs, y)


@formal.program
def formally_keeps_on_a_coin(P, s, xs):
    if xs and (yield formal.flip(F(1, 3))):
        ys = yield formally_keeps_on_a_coin(P, (*s, xs[0]), xs[1:])
        return (xs[0], *ys)
    y = yield formal.draw(P(s))
    return (y,)


def both_texts(target, draft, k, n, stop, python_rule, formal_rule, more=lambda before, s, xs: True):
    def program(rng):
        return tuple(
            generate_speculative(target, draft, [0], n, k, rng, verifier=python_rule, stop=stop).tokens
        )

    return exact.law(program), formal_text(draft, k, n, stop, formal_rule, more)


def formal_text(draft, k, n, stop, formal_rule, more=lambda before, s, xs: True):
    most = 3 if callable(k) else k
    formally = formal.generate(
        rows_of(draft), lambda t: t == stop, lambda before, s: most, more, formal_rule, n, (0,)
    )
    return formal.law(formally)


@pytest.mark.parametrize("stop", [None, 1])
@pytest.mark.parametrize("rule", ["token", "block", "one_hot", "sampler_match"])
def test_a_text_is_the_packages_and_the_targets(rule, stop):
    target, draft = DENSE
    P, Q = rows_of(target), rows_of(draft)
    for k, n in [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]:
        found, expected = both_texts(
            target, draft, k, n, stop, getattr(verifiers, rule), formal_rules(P, Q)[rule]
        )
        assert found == expected, f"k = {k}, n = {n}"
        assert expected == formal.law(formal.plain(P, lambda t: t == stop, n, (0,)))
        assert expected == exact.ancestral_law(target, [0], n, stop=stop)


@pytest.mark.parametrize("stop", [None, 1])
@pytest.mark.parametrize(
    ("python_rule", "formal_rule"),
    [
        (accepts_everything, formally_accepts_everything),
        (keeps_on_a_coin, formally_keeps_on_a_coin),
    ],
)
def test_the_loop_on_wrong_rules(python_rule, formal_rule, stop):
    target, draft = DENSE
    P = rows_of(target)
    for k, n in [(1, 1), (1, 2), (2, 2), (1, 3)]:
        found, expected = both_texts(target, draft, k, n, stop, python_rule, partial(formal_rule, P))
        assert found == expected, f"k = {k}, n = {n}"
        assert expected != exact.ancestral_law(target, [0], n, stop=stop), "this rule should show"


def test_a_policy_with_a_history():
    """Two tokens after a round that did not keep all it drafted; the wrong rule makes the policy show.

    Three tokens, so that a second round's length is seen, on rows of two tokens each: 864 paths, not 20331.
    """
    target, draft = FEW
    P = rows_of(target)

    def length(kept):
        return 1 if not kept or kept[-1] else 2

    def policy(rounds, xs, rows):
        return length([r.accepted == r.proposed for r in rounds])

    def more(before, s, xs):
        return len(xs) < length([len(ys) == len(drafted) + 1 for drafted, ys in before])

    rules = keeps_on_a_coin, partial(formally_keeps_on_a_coin, P)
    found, expected = both_texts(target, draft, policy, 3, None, *rules, more)
    assert found == expected
    assert expected != formal_text(draft, 1, 3, None, rules[1]), "the policy should show"


def test_what_a_policy_is_told():
    """The history grows round by round, at its end, and with the text: what it emitted, after the cut."""
    P, Q = (rows_of(model) for model in DENSE)
    told = set()

    def k(before, s):
        told.add((before, s))
        return 1 + len(before) + (len(s) > 2)

    def more(before, s, xs):
        told.add((before, s))
        assert len(xs) < k(before, s)
        return True

    formal.law(formal.generate(Q, never, k, more, partial(formal.token, P, Q), 3, (0,)))
    assert {len(before) for before, _ in told} == {0, 1, 2}
    for before, s in told:
        text, earlier = (0,), ()
        for drafted, emitted in before:
            assert len(drafted) == 1 + len(earlier) + (len(text) > 2), "the order of the rounds"
            assert drafted[: len(emitted) - 1] == emitted[:-1], "drafted, then emitted"
            text, earlier = text + emitted, (*earlier, (drafted, emitted))
        assert s == text


@pytest.mark.parametrize("make", [ArgmaxDraft, lambda draft: NGramDraft(3)])
def test_drafts_that_choose(make):
    """A draft that chooses its tokens has one-hot rows; a look-up that finds nothing is a policy."""
    target, draft = DENSE[0], make(DENSE[1])

    def chosen(s):
        return draft.propose(list(s), 1, None)[0]

    def Q(s):
        return [int(x in chosen(s)) for x in range(3)]

    def more(before, s, xs):
        return len(chosen((*s, *xs))) > 0

    def program(rng):
        return tuple(generate_speculative(target, draft, [0, 1, 0], 2, lambda *_: 2, rng).tokens)

    verify = partial(formal.token, rows_of(target), Q)
    formally = formal.generate(Q, never, lambda before, s: 2, more, verify, 2, (0, 1, 0))
    assert exact.law(program) == formal.law(formally)


@pytest.mark.parametrize("stop", [None, 2])
@pytest.mark.parametrize("n", range(4))
def test_plain_is_plain(n, stop):
    target = RepetitionPenalty(DENSE[0], 2)
    P = rows_of(target)

    def stops(token):
        return token == stop

    formally = formal.law(formal.plain(P, stops, n, (0,)))
    assert formally == exact.law(lambda rng: tuple(generate_target_only(target, [0], n, rng, stop=stop)))
    texts = [*formally, (), (0,), (2, 0), (0, 0, 0)]
    assert formally == {text: formal.chain(P, (0,), text) for text in texts if formal.whole(stops, n, text)}


def test_complete_continues_a_cut_round():
    P = rows_of(DENSE[0])
    assert formal.law(formal.complete(P, never, 2, (0,), (1, 2, 0))) == {(1, 2): 1}
    assert formal.law(formal.complete(P, lambda t: t == 1, 3, (0,), (2, 1, 0))) == {(2, 1): 1}
    assert formal.law(formal.complete(P, never, 2, (0,), (1,))) == {(1, y): P((1,))[y] for y in range(3)}


# --- the two texts ------------------------------------------------------------------------------------------


def test_every_formal_definition_has_its_twin_in_order():
    defined = re.findall(
        r"^(?:Definition|Fixpoint|Inductive) (\w+)", (PROOFS / "programs.v").read_text(), re.MULTILINE
    )
    unneeded = {"same_law", "history"}  # a proposition, and a type
    source = Path(formal.__file__).read_text()
    twins = re.findall(r"^(?:def |class )?(\w+)(?: = Ret|\()", source, re.MULTILINE)
    assert [name for name in twins if name in defined or name == "Prog"] == [
        "Prog" if name == "prog" else name for name in defined if name not in unneeded
    ]


@pytest.mark.parametrize("alteration", ALTERATIONS["alteration"], ids=lambda one: one["name"])
def test_an_altered_program_is_wrong(alteration):
    assert refuted(altered(alteration["definition"], **alteration["python"]))


@pytest.mark.parametrize("alteration", ALTERATIONS["harmless"], ids=lambda one: one["name"])
def test_a_harmless_alteration_is_not(alteration):
    assert refuted(altered(alteration["definition"], **alteration["python"])) is None


def test_the_programs_themselves_are_not_refuted():
    assert refuted(formal) is None


def test_what_cannot_run():
    half = [F(1, 2), F(1, 2)]
    assert formal.runs(formal.draw(half))
    for p in ([F(1, 2), F(1, 3)], [F(3, 2), F(-1, 2)]):
        assert not formal.runs(formal.draw(p))
    for c in (F(4, 3), F(-1, 3)):
        assert not formal.runs(formal.flip(c))
    certain = formal.bind(formal.draw([1, 0]), lambda x: formal.Ret(x) if x == 0 else formal.flip(2))
    assert not formal.runs(certain), "branches of probability 0 count"


def test_which_texts_are_whole():
    def stops(token):
        return token == 2

    whole = [(), (0,), (2,), (0, 0), (0, 2), (2, 0), (0, 0, 0)]
    assert [ys for ys in whole if formal.whole(stops, 2, ys)] == [(2,), (0, 0), (0, 2)]
    assert [ys for ys in whole if formal.whole(stops, 0, ys)] == [()]


def test_altering_what_is_not_there():
    with pytest.raises(ValueError, match="acceptance has 'max' 0 times; want once"):
        altered("acceptance", "max", "min")
    with pytest.raises(ValueError, match="nonsense has 'a' 0 times"):
        altered("nonsense", "a", "b")


# --- the rule -----------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(weights, min_size=2, max_size=2), st.fractions(0, 1))
def test_the_rule_is_the_packages(rows, c):
    p, q = (table(row, row, row).rows[0] for row in rows)
    assert formal.overlap(list(p), list(q)) == rule.overlap(p, q).tolist()
    assert formal.excess(list(p), list(q)) == rule.excess(p, q).tolist()
    assert [formal.acceptance(a, b) for a, b in zip(p, q)] == rule.acceptance(p, q).tolist()
    assert formal.replacement(c, list(p), list(q)) == verifiers.replacement(p, q, c).tolist()
    assert formal.law(formal.one_token(p, q)) == {x: mass for x, mass in enumerate(p) if mass}
    assert formal.runs(formal.one_token(list(p), list(q)))


def test_models_with_numpy_rows_serve():
    model = MarkovModel(np.array([[F(1, 2), F(1, 2)]] * 2, dtype=object))
    assert formal.law(formal.plain(model.next_dist, never, 1, (0,))) == {(0,): F(1, 2), (1,): F(1, 2)}
