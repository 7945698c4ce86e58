"""Values that other implementations test against, from `cases.json` with their sources."""

import json
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
from test_verifiers import Scripted

from specdecode.cost import block_accepted
from specdecode.drafts import ModelDraft
from specdecode.exact import law
from specdecode.models import MarkovModel, next_rows
from specdecode.proof import induced_from_dists
from specdecode.rule import acceptance, residual
from specdecode.verifiers import block, greedy, token

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())


def iid(row):
    """A model whose row is the same after every token."""
    return MarkovModel([row] * len(row))


@pytest.mark.parametrize("case", CASES["accept"])
def test_acceptance(case):
    assert acceptance(case["p"], case["q"]) == pytest.approx(case["a"], abs=1e-15)


@pytest.mark.parametrize("case", CASES["residual"])
def test_residual(case):
    np.testing.assert_allclose(residual(case["p"], case["q"]), case["r"], atol=1e-15)


@pytest.mark.parametrize("case", CASES["induced_equals_p"])
def test_induced(case):
    np.testing.assert_allclose(induced_from_dists(case["p"], case["q"]), case["p"], atol=1e-15)


@pytest.mark.parametrize("case", CASES["greedy"])
def test_greedy(case):
    for drafted, best, out in zip(case["draft"], case["target_argmax"], case["out"]):
        rows = np.full((len(drafted) + 1, 8), 0.05)
        rows[range(len(rows)), best[: len(rows)]] = 0.65
        assert greedy(drafted, rows[:-1], rows) == out


@pytest.mark.parametrize("case", CASES["scripted"])
def test_scripted(case):
    """Rows follow the last token; the draft is certain of its successor; the uniforms are given."""
    one_hot = np.eye(len(case["P"]))[case["draft_next"]]
    rng = Scripted(*case["u"])
    drafted, rows = ModelDraft(MarkovModel(one_hot)).propose([case["last"]], case["k"], rng)
    target_rows = next_rows(MarkovModel(case["P"]), [case["last"], *drafted], case["k"] + 1)
    emitted = token(drafted, rows, target_rows, rng)
    assert emitted == case["out"]
    assert len(emitted) - 1 == case["accepted"]
    assert rng.used == len(case["u"])


@pytest.mark.parametrize("rule", [token, block], ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("case", CASES["expected_accepted"])
def test_expected_accepted_tokens(case, rule):
    p, q = ([F(entry) for entry in case[name]] for name in ("p", "q"))
    k = case["gamma"]

    def accepted(rng):
        drafted, rows = ModelDraft(iid(q)).propose([0], k, rng)
        return len(rule(drafted, rows, next_rows(iid(p), [0, *drafted], k + 1), rng)) - 1

    expected = sum(count * mass for count, mass in law(accepted).items())
    assert expected == F(case[rule.__name__])
    if rule is block:
        assert block_accepted(p, q, k) == expected


@pytest.mark.parametrize("case", CASES["biased_rules"])
def test_biased_rules_have_the_reported_bias(case):
    """An arg-maxed draft tested against its soft row: the report's law, and not the target's."""
    p, q = np.array(case["p"]), np.array(case["q"])
    drafted = int(np.argmax(q))
    found = law(lambda rng: token([drafted], [q], [p, p], rng)[0])
    np.testing.assert_allclose([float(found[x]) for x in range(len(p))], case["law"], atol=1e-15)
    assert abs(float(found[0]) - p[0]) > 0.1
