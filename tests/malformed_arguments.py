"""Malformed arguments: each public function with one argument that is wrong.

A function stands with arguments that are right, and each of them with its sort: a list of values that are
wrong, and how a message may show them. A case is a function with one right argument replaced by a wrong one.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction as F
from functools import partial
from typing import Any

import numpy as np
from malformed import Case

from specdecode import checks, cost, rule, sampling, verifiers
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
from specdecode.drafts import ArgmaxDraft, ModelDraft, NGramDraft, PaddedDraft, as_draft
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


def spelled(value: Any) -> tuple[str, ...]:
    """How a message may show a value: by its text, by that of an entry, or by its type."""
    entries = [text for entry in value for text in spelled(entry)] if isinstance(value, list) else []
    return (str(value)[:20], repr(value)[:20], type(value).__name__, *entries)


def values_of(*wrong: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Wrong values, each under its own spelling."""
    return {checks.shown(value): (value, spelled(value)) for value in wrong}


WHOLE = values_of(-1, 1.5, 2.0, "3", None, NAN, INF, [3], True, 1j, Decimal(3), F(7, 2), b"3", -(10**30))
BOUNDED = WHOLE | values_of(LONGEST + 1, 10**9, np.int64(10**9))
SMALL = {name: wrong for name, wrong in WHOLE.items() if name != "None"}  # where None means no limit
REAL = values_of(-0.5, NAN, -INF, "0.5", [0.5], 1j, Decimal("0.5"), {}, b"1", -(10**400)) | {
    "two": (np.array([0.25, 0.75]), "0.25"),
}
UNIT = REAL | values_of(1.5, INF, 10**400)
FINITE = REAL | values_of(INF, 10**400)
GIVEN = values_of(None)  # where None does not stand for a default
TOKENS = {
    **values_of(None, 0, "01", [3], [-1], [0.0], ["0"], [None], [[0]], [NAN], [10**30], [F(1)], 1.5),
    "a set": ({0, 1}, "{0, 1}"),
    "a mapping": ({0: 1}, "{0: 1}"),
    "a table": (np.array([[0, 1]]), "0, 1"),
    "floats": (np.array([0.0, 1.0]), (".0)", "0.0")),
    "rude": ([Rude()], "Rude"),
}
STOPS = values_of(3, -1, "0", 1.5, [None], [[0]], {0: 1}, [0, 7], NAN, 10**30)
SEEDS = values_of(-1, 1.5, "0", None, NAN, [-1], F(1, 2), True)
RNGS = {
    **values_of(0, 7, None, "rng", 0.5, [0.5], {}),
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
SIZES = values_of(3.0, "3", 0, -1, None, NAN, [3], True)
MODELS = {
    **values_of(None, 3, "model", [[1.0]], {}, b""),
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
EMITTED = values_of(None, 0, "0", [3], [-1], [0.5], {0}, [None], [NAN]) | {
    "nothing": ([], "emitted 0"),
    "too much": ([0] * 4, "emitted 4"),
    "a pair": (([0], 1), "[0]"),
    "a table": (np.zeros((1, 1)), "array([0.])"),
    "padding": ([0, -1, -1], "-1"),
}
LENGTHS = values_of(-1, 1.5, "1", None, NAN, 10**9, LONGEST + 1)
FUNCTIONS = values_of(None, 3, "f", [1], {})
STACKS = {
    **values_of(None, 3, 0.5),
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
NONE = values_of(None)
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
call("checks", checks.as_level, alpha=(0.5, UNIT | NONE | values_of(0, 1), "alpha"))
call("checks", lambda model: as_model(model, "target"), model=(TOY, MODELS, "target"))
call("checks", as_draft, draft=(TOY, MODELS, "draft"))

NO_NUMBERS = values_of([NAN, 0.5, 0.5], ["a", "b", "c"], [None, 0.5, 0.5])
call("rule", rule.residual, p=(ROW, NO_NUMBERS | values_of([INF, 0, 0]), ""), q=(TILT, NO_NUMBERS, ""))
for function in (
    rule.overlap,
    rule.excess,
    rule.acceptance,
    rule.total_variation,
):  # NaN goes in and comes out
    call(
        "rule",
        function,
        p=(ROW, values_of(["a", "b", "c"], "ab"), "p is"),
        q=(TILT, values_of(["a"] * 3, b"a"), "q"),
    )

UNIFORM = {name: wrong for name, wrong in (UNIT | NONE).items() if "Decimal" not in name}
call("sampling", sampling.uniform, rng=(rng, {n: v for n, v in RNGS.items() if n != "always inf"}, "rng"))
call("sampling", sampling.draw, row=(ROW, ROWS, "row"), u=(0.5, UNIFORM | values_of(1, 1.0), "u is"))
call("sampling", partial(sampling.inverse_cdf, np.array(ROW)), u=(0.5, UNIFORM, "u is"))
call("sampling", sampling.temperature, row=(ROW, ROWS, "row"), t=(1, FINITE, "temperature"))
call("sampling", sampling.top_k, row=(ROW, ROWS, "row"), k=(1, SMALL, "top_k"))
call("sampling", sampling.top_p, row=(ROW, ROWS, "row"), mass=(1, UNIT | values_of(0), "top_p"))
call("sampling", sampling.min_p, row=(ROW, ROWS, "row"), share=(0, UNIT, "min_p"))
call(
    "sampling",
    sampling.suppress,
    row=(ROW, ROWS, "row"),
    tokens=([], values_of(*[None, 0, "01", [3], [0.5]]), "suppress"),
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
    top_p=(1, UNIT | values_of(0), "top_p"),
    min_p=(0, UNIT, "min_p"),
    suppress=((), values_of(None, 0, "01", {0: 1}) | {"an iterator": (iter([0]), "iterator")}, "suppress"),
)
call("sampling", lambda row: sampling.Settings(top_k=2)(row), row=(ROW, ROWS, "row"))

call("models", MarkovModel, rows=([ROW] * 3, {**STACK, **ROWS}, "rows"))
call(
    "models",
    random_markov,
    vocab_size=(3, SIZES | values_of(10**6, 10**12), "vocab_size"),
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
    penalty=(2, FINITE | NONE | values_of(0.5), "penalty"),
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
    n=(1, WHOLE | values_of(0, 9), "n is"),
)
call(
    "models",
    lambda tokens: next_rows(Claims(), tokens, 1),
    tokens=([0], values_of(None, 0, "01", {0}), "tokens"),
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
call("policies", Heuristic, start=(2, SIZES, "start"), longest=(4, BOUNDED | values_of(1), "longest"))
call(
    "policies",
    Confident,
    threshold=(0.5, UNIT | NONE, "threshold"),
    longest=(4, BOUNDED | values_of(0), "longest"),
)
call(
    "policies",
    Best,
    draft_cost=(0.1, FINITE | NONE, "draft_cost"),
    longest=(4, BOUNDED | values_of(0), "longest"),
    prior=((1, 2), values_of(None, 1, "ab", (2, 1), (0, 0), (-1, 1), (NAN, 1), (1, INF), (1, 2, 3)), "prior"),
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
    lenience=(1, UNIT | NONE | values_of(0), "lenience"),
)
call(
    "verifiers", partial(verifiers.mixture, [0], [TILT], [ROW] * 2, rng()), weight=(1, UNIT | NONE, "weight")
)
call(
    "verifiers",
    partial(verifiers.typical, [0], [TILT], [ROW] * 2, rng()),
    epsilon=(1, REAL | NONE | values_of(10**400), "epsilon"),
    delta=(1, REAL | NONE | values_of(10**400), "delta"),
)

for function in (independent, distinct):
    call(
        "candidates",
        function,
        row=(ROW, ROWS, "row"),
        m=(2, BOUNDED | values_of(0), "m is"),
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
call("candidates", partial(k_seq, [0, 1], [TILT] * 2, ROW, rng()), rho=(2, FINITE | values_of(0, 0.5), "rho"))
for function in (root, best_acceptance):
    call("candidates", function, p=(ROW, ROWS, "p"), q=(TILT, P, "q"), m=(2, BOUNDED | values_of(0), "m is"))
call("candidates", best_acceptance, p=(ROW, {}), q=(TILT, {}), m=(2, values_of(11), "unknowns"))
call(
    "candidates",
    partial(best_acceptance, replace=False),
    p=(ROW, {}),
    q=(TILT, {}),
    m=(2, values_of(4), "m is"),
)
call(
    "candidates",
    partial(kept_by_k_seq, np.array(ROW), np.array(TILT)),
    m=(2, BOUNDED | values_of(0), "m is"),
    rho=(1, FINITE | NONE | values_of(0), "rho"),
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
    verify_cost=(1, COST | values_of(0), "verify_cost"),
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
        k=(2, LENGTH | values_of(0), "k is"),
    )
call(
    "cost",
    best_block,
    target=(TOY, MODELS, "target"),
    draft=(OTHER, MODELS, "draft"),
    prefix=([0], TEXTS, "prefix"),
    k=(1, LENGTH | values_of(0, 12), "k "),
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
    agreements=([0.5], values_of(None, 0.5, "ab", [2], ["a"], [NAN], {0.5}), "agreement"),
    longest=(1, LENGTH | values_of(0), "longest"),
    n_tokens=(3, WHOLE, "n_tokens"),
    seed=(0, SEEDS, "seed"),
    draft_cost=(0.1, FINITE | NONE, "draft_cost"),
)

K = (
    BOUNDED
    | values_of(0)
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
    prompts=([[0]], values_of(None, 0, "ab", [0], [None], [[3]], {0}), "pr"),
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


def cases() -> Iterator[Case]:
    """Each function with one wrong argument."""
    for kind, function, arguments in CALLS:
        yield from each_wrong(kind, function, arguments)


def each_wrong(kind: str, function: Any, arguments: dict[str, tuple[Any, ...]]) -> Iterator[Case]:
    title = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
    for argument, (_, sort, *names) in arguments.items():
        for name, (wrong, value) in sort.items():
            run = partial(_with_one_wrong, function, arguments, argument, wrong)
            shows = (value, "shape (") if isinstance(value, str) else value
            yield Case(kind, f"{title}({argument}: {name})", run, tuple(names), shows)


def _with_one_wrong(function: Any, arguments: Any, argument: str, wrong: Any) -> Any:
    right = {name: value() if value is rng else value for name, (value, *_) in arguments.items()}
    return function(**{**right, argument: wrong})
