"""Malformed inputs, generated: wrong types, shapes and values, for every argument that is anyone's to give.

    python tests/malformed.py      prints what is tried, by kind, with counts and some of the messages

A case is a call that must end in one clear line (`tests/test_malformed.py` says what that is). In the tables
below a function stands with arguments that are right, and each argument with its sort; a sort is a list of
values that are wrong. A case is a function with one right argument replaced by a wrong value of its sort.
"""

import argparse
import contextlib
import io
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction as F
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np

from specdecode import checks, cli, cost, loading, rule, sampling, verifiers
from specdecode.candidates import (
    best_acceptance,
    distinct,
    independent,
    k_seq,
    kept_by_k_seq,
    recursive,
    root,
)
from specdecode.checks import LONGEST
from specdecode.cli.certify import certified
from specdecode.cli.compare import same_programs
from specdecode.cli.parser import _COMMANDS, _Command
from specdecode.drafts import ArgmaxDraft, ModelDraft, NGramDraft, PaddedDraft, as_draft
from specdecode.loading import load_function
from specdecode.models import (
    MappedModel,
    MarkovModel,
    RepetitionPenalty,
    as_model,
    draft_from_target,
    next_rows,
    random_markov,
)
from specdecode.optimum import best_block
from specdecode.policies import Best, Confident, Fixed, Heuristic
from specdecode.speculative import (
    generate_batch,
    generate_speculative,
    generate_target_only,
    log_probabilities,
    play_round,
    stream_speculative,
)
from specdecode.sweep import sweep, toy_world
from specdecode.trace import Round, Trace

NAN, INF = float("nan"), float("inf")
SECONDS = 10  # after which a case counts as one that hangs


@dataclass(frozen=True)
class Case:
    """A call that must be refused: what its message may call the argument, and how it shows the value."""

    kind: str
    name: str
    run: Callable[[], Any]
    names: tuple[str, ...] = ()
    value: tuple[str, ...] = ()


# What is wrong with what, by sort.


class Constant:
    """An rng that always says the same."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


class Claims:
    """A model that says its vocabulary has this size, and one that gives this row, or these rows."""

    def __init__(self, vocab_size=3, row=(0.5, 0.25, 0.25)):
        self.vocab_size, self.row = vocab_size, row

    def next_dist(self, prefix):
        return self.row


class Several(Claims):
    """The same with all rows in one pass."""

    def next_dists(self, tokens, n):
        return [self.row] * n


class Writes(Claims):
    """A model that writes to its prefix."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def next_dist(self, prefix):
        self.how(prefix)
        return self.row


class Proposes:
    """A draft that answers so."""

    def __init__(self, answer):
        self.answer = answer

    def propose(self, prefix, k, rng):
        return self.answer


class Rude:
    """A value that fails to say what it is."""

    def __repr__(self):
        raise RuntimeError("no\nname")


STRUCTURED = np.array([(0.5,), (0.5,), (0.0,)], dtype=[("p", float)])
MASKED = np.ma.array([0.5, 0.5, 0.0], mask=[False, True, False])
ROWS = {
    "negative": ([0.5, 0.6, -0.1], "-0.1"),
    "NaN": ([0.5, NAN, 0.5], "nan"),
    "infinite": ([INF, 0.0, 0.0], "inf"),
    "minus infinite": ([1.0, -INF, 0.0], "-inf"),
    "too little": ([0.5, 0.25, 0.125], "0.875"),
    "too much": ([0.5, 0.5, 0.5], "1.5"),
    "zeros": ([0.0, 0.0, 0.0], "0.0"),
    "nearly 1": ([0.5, 0.25, 0.25 + 1e-9], "1.000000001"),
    "rational, too little": ([F(1, 2), F(1, 3), F(0)], "5/6"),
    "rational and NaN": ([F(1, 2), NAN, F(1, 2)], "nan"),
    "too deep": ([[0.5, 0.25, 0.25]], "shape"),
    "a number": (0.5, "0.5"),
    "None": (None, "None"),
    "a text": ("abc", "abc"),
    "bytes": (b"abc", "abc"),
    "texts": (["a", "b", "c"], "<U1"),
    "Nones": ([None, None, None], "None"),
    "Decimals": ([Decimal("0.5"), Decimal("0.5"), Decimal(0)], "0.5"),
    "a long integer": ([10**400, 0, 0], "1000000"),
    "longer than Python spells": ([10**5000, 0, 0], "int"),
    "a long integer and a float": ([10**400, 0.5, 0], "sums to inf"),
    "complex": ([0.5 + 0j, 0.5, 0], "complex"),
    "booleans": ([True, False, False], "bool"),
    "dates": (np.array([1, 0, 0], dtype="M8[s]"), "datetime"),
    "ragged": ([[0.5], [0.25, 0.25], []], "[0.5]"),
    "a mapping": ({0: 0.5, 1: 0.5, 2: 0.0}, "0.5"),
    "a set": ({0.5}, "0.5"),
    "an iterator": (iter([0.5, 0.5, 0.0]), "iterator"),
    "objects": ([object()] * 3, "object"),
    "rude objects": ([Rude()] * 3, "Rude"),
    "masked": (MASKED, "masked"),
    "structured": (STRUCTURED, "p"),
    "void": (np.zeros(3, dtype="V8"), "V8"),
}
WIDTHS = {"two entries": ([0.5, 0.5], "(2,)"), "four entries": ([0.25] * 4, "(4,)"), "none": ([], "(0,)")}


def _spelled(value: Any) -> tuple[str, ...]:
    """How a message may show a value: by its text, by that of an entry, or by its type."""
    entries = [text for entry in value for text in _spelled(entry)] if isinstance(value, list) else []
    return (str(value)[:20], repr(value)[:20], type(value).__name__, *entries)


def _values(*wrong: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Wrong values, each under its own spelling."""
    return {checks.shown(value): (value, _spelled(value)) for value in wrong}


WHOLE = _values(-1, 1.5, 2.0, "3", None, NAN, INF, [3], True, 1j, Decimal(3), F(7, 2), b"3", -(10**30))
BOUNDED = WHOLE | _values(LONGEST + 1, 10**9, np.int64(10**9))
SMALL = {name: wrong for name, wrong in WHOLE.items() if name != "None"}  # where None means no limit
REAL = _values(-0.5, NAN, -INF, "0.5", [0.5], 1j, Decimal("0.5"), {}, b"1", -(10**400)) | {
    "two": (np.array([0.25, 0.75]), "0.25"),
}
UNIT = REAL | _values(1.5, INF, 10**400)
FINITE = REAL | _values(INF, 10**400)
GIVEN = _values(None)  # where None does not stand for a default
TOKENS = {
    **_values(None, 0, "01", [3], [-1], [0.0], ["0"], [None], [[0]], [NAN], [10**30], [F(1)], 1.5),
    "a set": ({0, 1}, "{0, 1}"),
    "a mapping": ({0: 1}, "{0: 1}"),
    "a table": (np.array([[0, 1]]), "0, 1"),
    "floats": (np.array([0.0, 1.0]), (".0)", "0.0")),
    "rude": ([Rude()], "Rude"),
}
STOPS = _values(3, -1, "0", 1.5, [None], [[0]], {0: 1}, [0, 7], NAN, 10**30)
SEEDS = _values(-1, 1.5, "0", None, NAN, [-1], F(1, 2), True)
RNGS = {
    **_values(0, 7, None, "rng", 0.5, [0.5], {}),
    "a bit generator": (np.random.PCG64(0), "PCG64"),
    "a seed sequence": (np.random.SeedSequence(0), "SeedSequence"),
    "the class": (np.random.Generator, "Generator"),
    "the function": (np.random.default_rng, "default_rng"),
    "an object": (object(), "object"),
    **{
        f"always {checks.shown(u)}": (Constant(u), str(u))
        for u in (1.0, -0.5, NAN, INF, "a", None, 1j, np.array([0.5]), [0.5])
    },
}
SIZES = _values(3.0, "3", 0, -1, None, NAN, [3], True)
MODELS = {
    **_values(None, 3, "model", [[1.0]], {}, b""),
    "the class": (MarkovModel, "MarkovModel"),
    "an object": (object(), "object"),
    **{f"vocab_size {name}": (Claims(size), says) for name, (size, says) in SIZES.items()},
}
GIVES = {  # models, and what they give
    **{f"gives {name}": (Claims(row=row), says) for name, (row, says) in {**ROWS, **WIDTHS}.items()},
    **{
        f"gives {name} in one pass": (Several(row=row), says)
        for name, (row, says) in {**ROWS, **WIDTHS}.items()
    },
    "appends": (Writes(lambda prefix: prefix.append(0)), "changed the tokens"),
    "writes": (Writes(lambda prefix: prefix.__setitem__(0, 1)), "changed the tokens"),
    "clears": (Writes(lambda prefix: prefix.clear()), "changed the tokens"),
    "sorts": (Writes(lambda prefix: prefix.sort()), "changed the tokens"),
    "deletes": (Writes(lambda prefix: prefix.__delitem__(0)), "changed the tokens"),
}
ONE = [[0.5, 0.25, 0.25]]
PROPOSALS = {
    f"proposes {checks.shown(answer)}": (Proposes(answer), "")
    for answer in (
        None,
        5,
        "abc",
        [],
        ([0],),
        ([0], ONE, 3),
        (0, ONE),
        (None, None),
        ("a", ONE),
        ({0}, ONE),
        ([0], None),
        ([0], ONE[0]),
        ([0], ONE * 2),
        ([0, 1], ONE),
        ([0] * 9, ONE * 9),
        ([3], ONE),
        ([-1], ONE),
        ([0.0], ONE),
        ([None], ONE),
        ([1], [[1.0, 0.0, 0.0]]),
        ([0], [[0.5, 0.5]]),
        ([0], [[]]),
        ([0], "x"),
        ([0], {0: ONE[0]}),
        ([0], [[0.5, 0.25, 0.125]]),
        ([0], [[NAN, 0.5, 0.5]]),
        ([0], [MASKED]),
        ([0], np.ma.array([MASKED])),
        (np.array(0), ONE),
        (np.array([[0]]), ONE),
        ([0], iter(ONE)),
    )
}
EMITTED = _values(None, 0, "0", [3], [-1], [0.5], {0}, [None], [NAN]) | {
    "nothing": ([], "emitted 0"),
    "too much": ([0] * 4, "emitted 4"),
    "a pair": (([0], 1), "[0]"),
    "a table": (np.zeros((1, 1)), "array([0.])"),
    "padding": ([0, -1, -1], "-1"),
}
LENGTHS = _values(-1, 1.5, "1", None, NAN, 10**9, LONGEST + 1)
FUNCTIONS = _values(None, 3, "f", [1], {})
STACKS = {
    **_values(None, 3, 0.5),
    "a generator": ((row for row in ONE), "generator"),
    "a set": ({0.5, 0.25, 0.125}, ("0.5", "3 rows")),
    "a mapping": (dict.fromkeys("abc", ONE[0]), "a"),
}


# Functions with arguments that are right, and for each the sort of what is wrong and its names in a message.

TOY, OTHER = random_markov(3, seed=1), random_markov(3, seed=2)
ROW, TILT = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
P = {**ROWS, **WIDTHS}
Q = {**ROWS, "two entries": WIDTHS["two entries"]}
STACK = {f"with a row {n}": ([row, ROW, ROW], "") for n, (row, _) in ROWS.items() if n != "booleans"} | STACKS
PAIRS = {
    name: ([*ids, 0] if isinstance(ids, list) else ids, says)
    for name, (ids, says) in TOKENS.items()
    if name != "a table"
}
TEXTS = TOKENS | {"empty": ([], "empty")}
NONE = _values(None)
CALLS: list[tuple[str, Callable[..., Any], dict[str, tuple[Any, ...]]]] = []


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def call(kind: str, function: Callable[..., Any], **arguments: tuple[Any, ...]) -> None:
    CALLS.append((kind, function, arguments))


call("checks", lambda row: checks.as_row(row, "row", 3), row=(ROW, P, "row"))
call("checks", lambda rows: checks.as_rows(rows, "rows", 3, 3), rows=([ROW] * 3, {**STACK, **P}, "rows"))
call("checks", lambda ids: checks.as_tokens(ids, "prefix", 3), ids=([0], TOKENS, "prefix"))
call("checks", lambda stop: checks.as_stop(stop, 3), stop=(0, STOPS, "stop"))
call("checks", lambda count: checks.as_count(count, "k", 1), count=(1, WHOLE, "k is"))
call("checks", checks.as_draft_length, value=(1, BOUNDED, "k is"))
call("checks", lambda x: checks.as_number(x, "weight", 0, 1), x=(0, UNIT | NONE, "weight"))
call("checks", checks.as_level, alpha=(0.5, UNIT | NONE | _values(0, 1), "alpha"))
call("checks", lambda model: as_model(model, "target"), model=(TOY, MODELS, "target"))
call("checks", as_draft, draft=(TOY, MODELS, "draft"))

NO_NUMBERS = _values([NAN, 0.5, 0.5], ["a", "b", "c"], [None, 0.5, 0.5])
for function in (rule.residual, rule.total_variation):
    call("rule", function, p=(ROW, NO_NUMBERS | _values([INF, 0, 0]), ""), q=(TILT, NO_NUMBERS, ""))
for function in (rule.overlap, rule.excess, rule.acceptance):
    call(
        "rule",
        function,
        p=(ROW, _values(["a", "b", "c"], "ab"), "p is"),
        q=(TILT, _values(["a"] * 3, b"a"), "q"),
    )

UNIFORM = {name: wrong for name, wrong in (UNIT | NONE).items() if "Decimal" not in name}
call("sampling", sampling.uniform, rng=(rng, {n: v for n, v in RNGS.items() if n != "always inf"}, "rng"))
call("sampling", sampling.draw, row=(ROW, ROWS, "row"), u=(0.5, UNIFORM | _values(1, 1.0), "u is"))
call("sampling", partial(sampling.inverse_cdf, np.array(ROW)), u=(0.5, UNIFORM, "u is"))
call("sampling", sampling.temperature, row=(ROW, ROWS, "row"), t=(1, FINITE, "temperature"))
call("sampling", sampling.top_k, row=(ROW, ROWS, "row"), k=(1, SMALL, "top_k"))
call("sampling", sampling.top_p, row=(ROW, ROWS, "row"), mass=(1, UNIT | _values(0), "top_p"))
call("sampling", sampling.min_p, row=(ROW, ROWS, "row"), share=(0, UNIT, "min_p"))
call(
    "sampling",
    sampling.suppress,
    row=(ROW, ROWS, "row"),
    tokens=([], _values(*[None, 0, "01", [3], [0.5]]), "suppress"),
)
call(
    "sampling",
    sampling.certain,
    tokens=([0], {**TOKENS, "0": (3, "3"), "-1": (-1, "-1")}, "token"),
    vocab_size=(3, SIZES, "vocab_size"),
)
call(
    "sampling",
    sampling.Settings,
    temperature=(1, FINITE, "temperature"),
    top_k=(1, SMALL, "top_k"),
    top_p=(1, UNIT | _values(0), "top_p"),
    min_p=(0, UNIT, "min_p"),
    suppress=((), _values(None, 0, "01", {0: 1}) | {"an iterator": (iter([0]), "iterator")}, "suppress"),
)
call("sampling", lambda row: sampling.Settings(top_k=2)(row), row=(ROW, ROWS, "row"))

call("models", MarkovModel, rows=([ROW] * 3, {**STACK, **ROWS}, "rows"))
call(
    "models",
    random_markov,
    vocab_size=(3, SIZES | _values(10**6, 10**12), "vocab_size"),
    seed=(1, SEEDS, "seed"),
)
call(
    "models",
    draft_from_target,
    target=(
        TOY,
        {name: (model, ()) for name, (model, _) in MODELS.items()} | {"no table": (Claims(), "Claims")},
        "target",
    ),
    agreement=(0.5, UNIT | NONE, "agreement"),
    seed=(1, SEEDS, "seed"),
)
call(
    "models",
    RepetitionPenalty,
    model=(TOY, MODELS, "model"),
    penalty=(2, FINITE | NONE | _values(0.5), "penalty"),
)
call("models", MappedModel, model=(TOY, MODELS, "model"), row_map=(list, FUNCTIONS, "row_map"))
call("models", lambda row: MappedModel(TOY, lambda _: row).next_dist([0]), row=(ROW, P, "MappedModel rows"))
call("models", lambda row: RepetitionPenalty(Claims(row=row), 2).next_dist([0]), row=(ROW, P, "row"))
call("models", TOY.next_dist, prefix=([0], TEXTS, "token", "prefix"))
call(
    "models",
    next_rows,
    model=(TOY, GIVES, "rows", "tokens"),
    tokens=([0, 1], TEXTS, "token"),
    n=(1, WHOLE | _values(0, 9), "n is"),
)
call(
    "models",
    lambda tokens: next_rows(Claims(), tokens, 1),
    tokens=([0], _values(None, 0, "01", {0}), "tokens"),
)

for kind in (ModelDraft, ArgmaxDraft):
    call("drafts", kind, model=(TOY, MODELS, "draft"))
for draft in (
    ModelDraft(TOY),
    ArgmaxDraft(TOY),
    NGramDraft(3),
    PaddedDraft(MarkovModel([ROW] * 2 + [TILT]), 3),
):
    call(
        "drafts",
        partial(draft.propose, rng=rng()),
        prefix=([0, 1], TOKENS, "token", "prefix"),
        k=(2, LENGTHS, "k"),
    )
call("drafts", lambda r: ModelDraft(TOY).propose([0], 2, r), r=(rng, RNGS, "rng", "u is"))
call("drafts", NGramDraft, vocab_size=(3, SIZES, "vocab_size"), longest=(3, SIZES, "longest"))
call(
    "drafts",
    PaddedDraft,
    draft=(TOY, MODELS | {"no vocab_size": (Proposes(None), "None")}, "draft"),
    vocab_size=(5, SIZES, "vocab_size"),
)

call("policies", Fixed, k=(2, BOUNDED, "k is"))
call("policies", Heuristic, start=(2, SIZES, "start"), longest=(4, BOUNDED | _values(1), "longest"))
call(
    "policies",
    Confident,
    threshold=(0.5, UNIT | NONE, "threshold"),
    longest=(4, BOUNDED | _values(0), "longest"),
)
call(
    "policies",
    Best,
    draft_cost=(0.1, FINITE | NONE, "draft_cost"),
    longest=(4, BOUNDED | _values(0), "longest"),
    prior=((1, 2), _values(None, 1, "ab", (2, 1), (0, 0), (-1, 1), (NAN, 1), (1, INF), (1, 2, 3)), "prior"),
)

for each in verifiers.RULES.values():
    reads = each.name in ("token", "block", "lenient", "mixture")
    call(
        "verifiers",
        each.verify,
        draft_tokens=(
            [0, 1],
            PAIRS | {"too many": ([0, 1, 2], ("3 drafted", "k = 3")), "none": ([], "0")},
            "draft",
            "target",
        ),
        draft_dists=([TILT, TILT], STACK if reads else {}, "draft_dists"),
        target_dists=([ROW] * 3, STACK, "target_dists"),
        rng=(rng, {} if each.name == "greedy" else RNGS, "rng", "u is"),
    )
call(
    "verifiers",
    partial(verifiers.lenient, [0], [TILT], [ROW] * 2, rng()),
    lenience=(1, UNIT | NONE | _values(0), "lenience"),
)
call(
    "verifiers", partial(verifiers.mixture, [0], [TILT], [ROW] * 2, rng()), weight=(1, UNIT | NONE, "weight")
)
call(
    "verifiers",
    partial(verifiers.typical, [0], [TILT], [ROW] * 2, rng()),
    epsilon=(1, REAL | NONE | _values(10**400), "epsilon"),
    delta=(1, REAL | NONE | _values(10**400), "delta"),
)

for function in (independent, distinct):
    call(
        "candidates",
        function,
        row=(ROW, ROWS, "row"),
        m=(2, BOUNDED | _values(0), "m is"),
        rng=(rng, RNGS, "rng", "u is"),
    )
for function in (recursive, k_seq):
    call(
        "candidates",
        function,
        candidates=([0, 1], PAIRS | {"none": ([], "0 candidates")}, "candidates"),
        draft_dists=(
            [TILT, TILT],
            {f"twice {n}": ([row] * 2, "") for n, (row, _) in Q.items()}
            | {n: v for n, v in STACKS.items() if n != "a generator"},
            "draft",
        ),
        target_dist=(ROW, ROWS, "target_dist"),
        rng=(rng, RNGS, "rng", "u is"),
    )
call("candidates", partial(k_seq, [0, 1], [TILT] * 2, ROW, rng()), rho=(2, FINITE | _values(0, 0.5), "rho"))
for function in (root, best_acceptance):
    call("candidates", function, p=(ROW, ROWS, "p"), q=(TILT, P, "q"), m=(2, BOUNDED | _values(0), "m is"))
call("candidates", best_acceptance, p=(ROW, {}), q=(TILT, {}), m=(2, _values(11), "unknowns"))
call(
    "candidates",
    partial(best_acceptance, replace=False),
    p=(ROW, {}),
    q=(TILT, {}),
    m=(2, _values(4), "m is"),
)
call(
    "candidates",
    partial(kept_by_k_seq, np.array(ROW), np.array(TILT)),
    m=(2, BOUNDED | _values(0), "m is"),
    rho=(1, FINITE | NONE | _values(0), "rho"),
)

ALPHA, LENGTH = {name: wrong for name, wrong in (UNIT | NONE).items() if name != "two"}, BOUNDED
COST = {name: wrong for name, wrong in (FINITE | NONE).items() if name != "two"}  # arrays will do
TABLE = STACK | {"a generator": (iter([]), "0")}
for function in (cost.expected_tokens, cost.accepted_per_proposed):
    call("cost", function, alpha=(0.5, ALPHA, "alpha"), k=(2, LENGTH, "k is"))
call(
    "cost",
    cost.speedup,
    tokens_per_step=(2.0, COST, "tokens_per_step"),
    k=(2, WHOLE, "k is"),
    draft_cost=(0.1, COST, "draft_cost"),
    verify_cost=(1, COST | _values(0), "verify_cost"),
)
call(
    "cost",
    cost.best_k,
    alpha=(0.5, ALPHA, "alpha"),
    draft_cost=(0.1, FINITE | NONE, "draft_cost"),
    longest=(4, LENGTH, "longest"),
    verify_cost=(lambda n: 1, FUNCTIONS | {"gives None": (lambda n: None, "None")}, "verify_cost"),
)
call("cost", cost.block_accepted, p=(ROW, ROWS, "p"), q=(TILT, P, "q"), k=(2, LENGTH, "k is"))
for function in (cost.markov_round, cost.markov_tokens_per_step):
    call(
        "cost",
        function,
        target_rows=([ROW] * 3, TABLE, "target_rows"),
        draft_rows=([TILT] * 3, TABLE, "draft_rows"),
        k=(2, LENGTH | _values(0), "k is"),
    )
call(
    "cost",
    best_block,
    target=(TOY, MODELS, "target"),
    draft=(OTHER, MODELS, "draft"),
    prefix=([0], TEXTS, "prefix"),
    k=(1, LENGTH | _values(0, 12), "k "),
)
call("cost", Trace([0], [Round(1, 0, 1)], 1).speedup, draft_cost=(0, FINITE | NONE, "draft_cost"))
call(
    "cost",
    toy_world,
    agreement=(0.5, UNIT | NONE, "agreement"),
    vocab_size=(3, SIZES, "vocab_size"),
    target_seed=(1, SEEDS, "seed"),
    draft_seed=(1, SEEDS, "seed"),
)
call(
    "cost",
    lambda *args, **named: list(sweep(*args, vocab_size=3, **named)),
    agreements=([0.5], _values(None, 0.5, "ab", [2], ["a"], [NAN], {0.5}), "agreement"),
    longest=(1, LENGTH | _values(0), "longest"),
    n_tokens=(3, WHOLE, "n_tokens"),
    seed=(0, SEEDS, "seed"),
    draft_cost=(0.1, FINITE | NONE, "draft_cost"),
)

K = (
    BOUNDED
    | _values(0)
    | {f"a policy that says {n}": (lambda *_, k=k: k, says) for n, (k, says) in LENGTHS.items()}
)
VERIFIERS = FUNCTIONS | {
    f"emits {name}": (lambda *_, out=out: out, says) for name, (out, says) in EMITTED.items()
}
RUN = {
    "target": (TOY, MODELS | GIVES, "target", "rows", "tokens"),
    "draft": (OTHER, MODELS | GIVES | PROPOSALS, "draft", "tokens"),
    "prefix": ([0], TEXTS, "prefix"),
    "n_tokens": (3, WHOLE, "n_tokens"),
    "k": (2, K, "k"),
    "rng": (rng, RNGS, "rng", "u is"),
    "verifier": (verifiers.token, VERIFIERS, "verifier", "emitted"),
    "stop": (None, STOPS, "stop"),
}
call("generators", generate_speculative, **RUN)
call("generators", lambda **run: list(stream_speculative(**run)), **RUN)
call(
    "generators",
    generate_target_only,
    **{name: RUN[name] for name in ("target", "prefix", "n_tokens", "rng", "stop")},
)
ROUND = {name: RUN[name] for name in ("target", "draft", "k", "rng", "verifier")}
call("generators", play_round, text=([0], TEXTS, "text", "prefix"), **ROUND)
call(
    "generators",
    generate_batch,
    prompts=([[0]], _values(None, 0, "ab", [0], [None], [[3]], {0}), "pr"),
    seed=(0, SEEDS, "seed"),
    **{name: RUN[name] for name in ("target", "draft", "n_tokens", "k", "verifier", "stop")},
)
call(
    "generators",
    log_probabilities,
    target=(TOY, MODELS | GIVES, "target", "rows", "tokens"),
    prefix=([0], TEXTS, "prefix"),
    tokens=([0], TOKENS, "tokens"),
)


def api() -> Iterator[Case]:
    """Each function with one wrong argument."""
    for kind, function, arguments in CALLS:
        yield from _each_wrong(kind, function, arguments)


def _each_wrong(kind: str, function: Any, arguments: dict[str, tuple[Any, ...]]) -> Iterator[Case]:
    title = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    for argument, (_, sort, *names) in arguments.items():
        for name, (wrong, value) in sort.items():
            run = partial(_with_one_wrong, function, arguments, argument, wrong)
            shows = (value, "shape (") if isinstance(value, str) else value
            yield Case(kind, f"{title}({argument}: {name})", run, tuple(names), shows)


def _with_one_wrong(function: Any, arguments: Any, argument: str, wrong: Any) -> Any:
    right = {name: value() if value is rng else value for name, (value, *_) in arguments.items()}
    return function(**{**right, argument: wrong})


REMEDIES = (
    "want ",
    "compare it with another",
    "; a Markov model needs ",
    "; it has ",  # functions, in place of the one that was named
    "cannot be loaded: ",
    "`spec-decode",  # whose --help lists what is accepted
    "pip install",
)


# The command line: every option that its rooms declare, and what does not go together.

TEXTS_OF_OPTIONS = (
    "",
    " ",
    "abc",
    "-1",
    "0",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9" * 30,
    "9" * 5000,
    "１x",
    "0x10",
    "[",
    "{}x",
    "a\nb",
    "--",
)
NEEDED = {"certify": ["x.py:f"], "compare": ["x.py:f", "x.py:g"]}
RIGHT = {
    "--extra": '{"a": 1}',
    "--reference-extra": '{"a": 1}',
    "--base-url": "http://x",
    "--reference-url": "http://x",
}
SERVERS = [
    "compare",
    "--base-url",
    "http://127.0.0.1:9",
    "--reference-url",
    "http://127.0.0.1:9/v1",
    "--retries",
    "0",
]
TOY_ALONE = (
    "--draft=model",
    "--agreement=1",
    "--draft-cost=1",
    "--vocab-size=3",
    "--target-seed=1",
    "--draft-seed=1",
)
SHAPING = ("--top-k=3", "--top-p=0.5", "--min-p=0.5")


class Refused(Exception):
    """The command line ended with status 2, and this is what it said."""


def spec_decode(*argv: str) -> Any:
    """Run a command line in this process; raises `Refused` for one line on stderr and status 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(list(argv))
        except SystemExit as leaving:  # how argparse ends
            status = leaving.code
    said = err.getvalue()
    if status == 2 and not out.getvalue() and said.startswith("spec-decode: ") and said.count("\n") == 1:
        raise Refused(said.rstrip())
    return status, out.getvalue()[-200:], said[-200:]


def command_lines() -> Iterator[Case]:
    """Each option of each command with texts that it does not take, and lines that cannot be."""
    for argv in _lines():
        yield Case("command line", checks.shown(" ".join(argv)), partial(spec_decode, *argv))


def _lines() -> Iterator[list[str]]:
    for command in _COMMANDS:
        needed = NEEDED.get(command, [])
        for action in _options(command):
            option = action.option_strings[-1]
            if action.nargs == 0:
                yield [command, *needed, f"{option}=x"]
                continue
            yield [command, *needed, option]
            for text in TEXTS_OF_OPTIONS:
                if text == "--" or not _takes(action, text):
                    yield [command, *needed, f"{option}={text}"]
        yield [command, *needed, "--nonsense"]
        yield [command, *needed, "--nonsense=3"]
        yield [command, *needed, "-x"]
    for option in _options("compare"):
        name = option.option_strings[-1]
        if option.container.title.startswith("servers") and not name.endswith("-url"):
            yield [
                "compare",
                "a.py:f",
                "b.py:g",
                *([name] if option.nargs == 0 else [name, RIGHT.get(name, "1")]),
            ]
    yield from (
        [],
        [""],
        ["nonsense"],
        ["RUN"],
        ["--json"],
        ["--version=3"],
        ["verify", "x"],
        ["run", "x"],
        ["sweep", "x"],
    )
    yield from (["certify"], ["certify", "a.py:f", "b.py:g"], ["certify", "--torch", "--generator", "a.py:f"])
    yield from (["compare", *["x.py:f"] * n] for n in (0, 1, 3, 4))
    yield from (["run", "--temperature", "0", shaping] for shaping in SHAPING)
    yield from (["run", "--draft", "ngram", option] for option in TOY_ALONE[1:3] + TOY_ALONE[5:])
    yield from (["run", "--model", "smollm2", "--prompt", "a", option] for option in TOY_ALONE)
    yield from (
        ["run", "--verifier", "greedy", *more]
        for more in ([], ["--temperature", "1"], ["--temperature", "0.5"])
    )
    yield from (["run", "--prompt", "a"], ["run", "--model-path", "a"], ["run", "--model", "smollm2"])
    yield ["run", "--model", "smollm2", "--prompt", ""]
    yield from (
        ["sweep", "--save", name] for name in ("", "x", "x.txt", "no/such/folder/x.svg", ".svg/", "/")
    )
    yield from (["sweep", "--agreements", *values] for values in ([], ["2"], ["0.5", "x"], ["-1"]))
    yield from (
        SERVERS,
        [*SERVERS, "--prompt", "a", "x.py:f"],
        [*SERVERS, "--prompt", "a", "--max-paths", "3"],
    )
    yield from (
        [*SERVERS, "--prompt", "a", "--tolerance", "0.1"],
        [*SERVERS, "--prompt", "a", "--prompt", "a"],
    )
    yield [*SERVERS, "--prompt", "a"]  # nobody is there
    yield from (["run", "a\nb", "c\td"], ["certify", "x.py:f", "x\ny"], ["sweep", "--save", "a\nb/x.svg"])
    yield ["compare", "--reference-url", "http://x", "--prompt", "a"]
    yield ["compare", "--base-url", "http://x", "--prompt", "a"]  # one server, compared with itself
    for url in URLS:
        yield (
            ["compare", f"--base-url={url}", "--prompt", "a"]
            if url
            else ["compare", "--base-url=", "--prompt", "a"]
        )


def _options(command: str) -> list[Any]:
    parser = _Command(prog=command)
    parser.room = f"specdecode.cli.{command}"
    parser._declare()
    return [action for action in parser._actions if action.option_strings and action.dest != "help"]


def _takes(action: Any, text: str) -> bool:
    try:
        value = action.type(text) if action.type else text
    except (argparse.ArgumentTypeError, ValueError):
        return False
    return not action.choices or value in action.choices


# Files that someone may name.

FILES: dict[str, bytes | None] = {
    "empty.py": b"",
    "no_python.py": b"%%% no Python",
    "binary.py": bytes(range(256)),
    "latin.py": "def f(a, b, c, d): return 'é'".encode("latin-1"),
    "tabs.py": b"def f(a):\n\tif a:\n        return 1\n",
    "unfinished.py": b"def f(",
    "folder.py": None,
    "another.py": b"def g(a, b, c, d):\n    return [0]\n",
    "number.py": b"f = 3\n",
    "none.py": b"f = None\n",
    "module.py": b"import math as f\n",
    "few.py": b"def f():\n    return [0]\n",
    "many.py": b"def f(a, b, c, d, e, g, h, i):\n    return [0]\n",
    "named.py": b"def f(*, a):\n    return [0]\n",
    "missing_library.py": b"import no_such_library\n",
    "missing_name.py": b"from math import no_such_name\n",
    "raises.py": b"raise ValueError('two\\nlines')\n",
    "leaves.py": b"import sys; sys.exit(0)\n",
    "leaves_with_words.py": b"import sys; sys.exit('two\\nlines')\n",
    "refuses_to_say.py": b"class E(Exception):\n    def __str__(self): raise E\nraise E\n",
    "base.py": b"class E(BaseException): pass\nraise E\n",
    "recursion.py": b"def g(): g()\ng()\n",
    "divides.py": b"1 / 0\n",
    "asserts.py": b"assert False, 'no'\n",
    "stops.py": b"next(iter([]))\n",
    "memory.py": b"raise MemoryError\n",
}
NAMES = (
    "",
    ":",
    "x",
    "x.py",
    ":f",
    "x.py:",
    "missing.py:f",
    "no.such.module:f",
    "math:no_such",
    "..x:f",
    "a b:f",
    "/:f",
    "x.py:f:g",
    "specdecode.verifiers:token.no",
    "specdecode.verifiers",
    3,
    None,
    b"x.py:f",
)
IN_A_CHILD = (
    "no_python.py",
    "folder.py",
    "few.py",
    "leaves.py",
    "refuses_to_say.py",
    "base.py",
    "missing.py",
)


def files(folder: Path) -> Iterator[Case]:
    """Names that name nothing, and files that hold no function to certify."""
    for name, content in FILES.items():
        if content is None:
            (folder / name).mkdir(exist_ok=True)
        else:
            (folder / name).write_bytes(content)
    for name in NAMES:
        yield Case("files", checks.shown(name), partial(_loaded, load_function, name))
    for name in FILES:
        for kind in ("verifier", "generator"):
            yield Case(
                "files",
                f"{kind} in {name}",
                partial(_loaded, certified, f"{folder / name}:f", kind, {}),
                value=("f", name),
            )
        if name != "few.py":  # a function of no arguments is a program
            two = [f"{folder / name}:f"] * 2
            yield Case("files", f"two programs in {name}", partial(_loaded, same_programs, two, {}))
    for name in IN_A_CHILD:
        yield Case(
            "files",
            f"certify {name}:f",
            partial(spec_decode, "certify", f"{folder / name}:f"),
            value=(name, "f"),
        )


def _loaded(function: Callable[..., Any], *args: Any) -> Any:
    """What a command does in its child process; what that leaves in this one is taken back."""
    kept = sys.path[:], sys.meta_path[:], dict(sys.modules), set(loading._FOLDERS)
    try:
        return function(*args)
    finally:
        sys.path[:], sys.meta_path[:] = kept[:2]
        for name in set(sys.modules) - set(kept[2]):
            del sys.modules[name]
        loading._FOLDERS.intersection_update(kept[3])


# Servers that answer what they should not, and settings of theirs.

URLS = (
    "",
    " ",
    "x",
    "ftp://x",
    "http://",
    "http:///v1",
    "//x",
    "http://u:p@x",
    "http://x?key=1",
    "http://x#a",
    "http://x:99999",
    "http://x:0",
    "http://x:a",
    "http://[",
    "http://x/v1/completions",
)
EXTRAS: list[Any] = [{"prompt": 1}, {"n": 2}, {"stream": True}, {"a": NAN}, {"a": {1}}, {"a": object()}]
CHOICE = {"text": "a", "finish_reason": "stop"}
BODIES: dict[str, Any] = {
    **{f"{body!r}": body for body in (None, 3, "text", [], {}, True, 0.5)},
    **{
        f"choices {given!r}": {"choices": given}
        for given in (None, 3, "a", {}, [], [None], [3], ["a"], [[]], [{}], [CHOICE] * 2)
    },
    **{f"a text {text!r}": {"choices": [{"text": text}]} for text in (None, 3, [], {}, True)},
    **{
        f"a reason {reason!r}": {"choices": [{**CHOICE, "finish_reason": reason}]}
        for reason in (3, [], {}, ["stop"], True, 0.5)
    },
    "an error": {"error": {"message": "two\nlines"}},
    "nothing": b"",
    "a page": b"<html>\n<body>no</body></html>",
    "half of it": b'{"choices": [{"te',
    "bytes": bytes(range(256)),
    "depth": b"[" * 100_000,
    "length": b'{"choices": "' + b"a" * 1_100_000 + b'"}',
    "two of them": b"{} {}",
}
STATUSES = (301, 302, 400, 401, 403, 404, 408, 418, 422, 429, 500, 502, 503)
MODELS_LISTED: dict[str, Any] = {
    **{f"{body!r}": body for body in (None, 3, "m", [], {})},
    **{
        f"data {data!r}": {"data": data}
        for data in (None, 3, {}, [], [None], [{}], [{"id": 3}], [{"id": "a"}, {"id": "b"}])
    },
    "a page": b"<html></html>",
    "nothing": b"",
}


class Answers(BaseHTTPRequestHandler):
    """Answers what the server was made to; `models` for the list of models."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(*self.server.models)  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(*self.server.completion)  # type: ignore[attr-defined]

    def answer(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the other side may not want all of it
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


GOOD = (200, {"choices": [CHOICE]})
ONE_MODEL = (200, {"data": [{"id": "m"}]})


@contextlib.contextmanager
def _server(completion: Any = GOOD, models: Any = ONE_MODEL) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads, server.completion, server.models = True, completion, models  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def servers() -> Iterator[Case]:
    """Malformed answers of either server, and settings that cannot be."""
    from specdecode.adapters.servers import Server, compare_servers

    def compared(bad: Any, side: int) -> Any:
        with _server(**bad) as one, _server() as other:
            both = [Server(one, "bad" if "models" not in bad else None), Server(other, "good")]
            return compare_servers(
                *(both if side == 0 else both[::-1]), ["p"], draws=100, retries=0, concurrency=1
            )

    for side, name in enumerate(("server", "reference")):
        for title, body in BODIES.items():
            yield Case(
                "servers", f"{name} answers {title}", partial(compared, {"completion": (200, body)}, side)
            )
        for status in STATUSES:
            yield Case(
                "servers",
                f"{name} answers {status}",
                partial(compared, {"completion": (status, {"error": "a\nb"})}, side),
            )
        for title, body in MODELS_LISTED.items():
            yield Case("servers", f"{name} lists {title}", partial(compared, {"models": (200, body)}, side))
    options: dict[str, tuple[Any, ...]] = {
        "prompts": (["p"], _values(None, 3, "p", [], [3], [None], ["a", "a"], {"a"}), "prompts"),
        "max_tokens": (4, WHOLE | _values(0), "max_tokens"),
        "draws": (100, WHOLE | _values(0, 99), "draws"),
        "temperature": (1, FINITE | NONE, "temperature"),
        "alpha": (0.5, UNIT | NONE | _values(0, 1), "alpha"),
        "choices": (1, WHOLE | _values(0), "choices"),
        "concurrency": (1, WHOLE | _values(0), "concurrency"),
        "timeout": (1, _values(0, -1, NAN, INF, "1", [1]), "timeout"),
        "retries": (0, WHOLE, "retries"),
        "seconds": (1, _values(0, -1, NAN, INF, "1", [1]), "seconds"),
        "api_key": (
            None,
            _values(3, b"k") | {"blanks": ("a b", ""), "lines": ("a\nb", ""), "letters": ("é", "")},
            "api_key",
        ),
        "seeds": (None, {name: wrong for name, wrong in SEEDS.items() if name != "None"}, "seeds"),
    }
    two = Server("http://127.0.0.1:9", "a"), Server("http://127.0.0.1:9", "b")
    makes = partial(compare_servers, *two)
    makes.__name__ = "compare_servers"  # type: ignore[attr-defined]
    tables = [
        (makes, options),
        (
            Server,
            {
                "base_url": (
                    "http://x",
                    _values(None, 3, b"http://x") | {url: (url, "base_url") for url in URLS},
                    "base_url",
                ),
                "model": (None, _values("", 3, ["m"], b"m"), "model"),
                "extra": (
                    {},
                    _values(None, 3, "a", []) | {checks.shown(wrong): (wrong, "extra") for wrong in EXTRAS},
                    "extra",
                ),
            },
        ),
    ]
    for function, arguments in tables:
        yield from _each_wrong("servers", function, arguments)


class Hangs(BaseException):
    """It has not ended in time."""


@contextlib.contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """A limit on what runs inside, where there is an alarm to set."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS if seconds is None else seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def message(case: Case) -> str:
    """What a case is refused with; raises AssertionError where that is not one clear line."""
    try:
        with limited():
            found = case.run()
    except (ValueError, TypeError) as error:
        said = str(error)
    except Refused as refused:
        said = str(refused)
    except Hangs:
        raise AssertionError(f"{case.name} does not end") from None
    except Exception as error:
        raise AssertionError(f"{case.name} raises {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{case.name} is accepted: {checks.shown(found)}")
    assert "\n" not in said, f"{case.name}: {said}"
    assert len(said) < 500, f"{case.name}: {said}"
    assert any(words in said for words in REMEDIES), f"{case.name}: {said}"
    assert not case.names or any(name in said for name in case.names), f"{case.name}: {said}"
    assert not case.value or any(value in said for value in case.value), f"{case.name}: {said}"
    return said


def everything(folder: Path) -> Iterator[Case]:
    """All cases; those of servers where they can be asked."""
    yield from api()
    yield from command_lines()
    yield from files(folder)
    with contextlib.suppress(ImportError):
        yield from servers()


def main() -> int:
    """Print what is tried, by kind."""
    tried: Counter[str] = Counter()
    messages: dict[str, list[str]] = {}
    wrong = []
    with TemporaryDirectory() as folder:
        for case in everything(Path(folder)):
            tried[case.kind] += 1
            try:
                messages.setdefault(case.kind, []).append(message(case))
            except AssertionError as error:
                wrong.append(str(error))
    for kind, count in tried.items():
        print(f"{kind}: {count} inputs")
        told = sorted(set(messages[kind]), key=len)
        for said in told[:: max(1, len(told) // 8)][:8]:
            print(f"    {said}")
    print(f"{tried.total()} malformed inputs, {len(wrong)} not refused in one clear line")
    for said in wrong:
        print(said)
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
