"""`spec-decode run`: generate with speculation and count what it cost; the toy world, or a real model."""

import argparse
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from specdecode.cli.arguments import given, number, or_default, refuse, toy_world_options, whole, world
from specdecode.cli.console import Answer, Console, rounded, times, tracked
from specdecode.drafts import DRAFTS
from specdecode.models import MappedModel, Model
from specdecode.policies import POLICIES, Policy
from specdecode.sampling import Settings
from specdecode.speculative import Trace, stream_speculative
from specdecode.sweep import toy_world
from specdecode.verifiers import RULES, Rule

__all__ = ["answer", "counts", "declare", "policy", "rule_and_rows", "settings", "shaped", "show_counts"]

_SHAPING = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}  # and what leaves a row as it is
_SHOWN = 8  # positions whose conditional acceptance is printed


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--model", choices=["toy", "smollm2"], default="toy", help="what to sample (default toy)"
    )
    parser.add_argument(
        "--draft", choices=list(DRAFTS), help="toy: what proposes (default model; smollm2: ngram)"
    )
    parser.add_argument(
        "--k", type=_length, default=4, help=f"draft length (default 4), auto, or {', '.join(POLICIES)}"
    )
    parser.add_argument(
        "--verifier", choices=list(RULES), default="token", help=f"rule (default token; {_exceptions()})"
    )
    parser.add_argument("--tokens", type=whole(0, 10**8), help="new tokens (default 5000; smollm2: 64)")
    parser.add_argument("--temperature", type=number(0), help="of the target and the draft (default 1)")
    parser.add_argument("--top-k", type=whole(0, 10**9), help="keep the likeliest (default 0: all)")
    parser.add_argument("--top-p", type=number(0, 1), help="keep the fewest of this mass (default 1: all)")
    parser.add_argument(
        "--min-p", type=number(0, 1), help="keep this share of the top or more (default 0: all)"
    )
    parser.add_argument("--agreement", type=number(0, 1), help="toy: how far the draft agrees (default 0.8)")
    parser.add_argument("--draft-cost", type=number(0), help="toy: draft pass ÷ target pass (default 0.1)")
    parser.add_argument("--prompt", help="smollm2: the text to continue")
    parser.add_argument("--model-path", help="smollm2: a GGUF file in place of the installed one")
    toy_world_options(parser)


def _length(text: str) -> int | str:
    if text == "auto" or text in POLICIES:
        return text
    try:
        return whole(1, 1000)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, auto, or a policy: {', '.join(POLICIES)}") from None


def _exceptions() -> str:
    """The rules that do not claim to be exact, for the help."""
    claims: dict[str, list[str]] = {}
    for rule in RULES.values():
        claims.setdefault(rule.claim, []).append(rule.name)
    return "; ".join(f"{claim}: {', '.join(names)}" for claim, names in claims.items() if claim != "exact")


def answer(args: argparse.Namespace) -> Answer:
    """Generate, and count."""
    if args.model == "smollm2":
        from specdecode.cli import smollm

        return smollm.answer(args)
    return _toy(args)


def _toy(args: argparse.Namespace) -> Answer:
    refuse(args, ["prompt", "model_path"], "--model toy")
    name = or_default(args.draft, "model")
    if name == "ngram":
        refuse(args, ["agreement", "draft_cost", "draft_seed"], "--draft ngram")
    agreement = or_default(args.agreement, 0.8)
    draft_cost = or_default(args.draft_cost, 0.0 if name == "ngram" else 0.1)  # to look up costs no pass
    n_tokens = or_default(args.tokens, 5000)
    rule, shape = rule_and_rows(args)
    target, model = (shaped(each, shape) for each in toy_world(agreement, **world(args)))
    draft = DRAFTS[name](model)
    k = args.k if isinstance(args.k, int) else policy(args.k, draft_cost)
    rng = np.random.default_rng(args.seed)
    steps = stream_speculative(target, draft, [0], n_tokens, k, rng, verifier=rule.verify)
    trace = Trace.collect(tracked(steps, n_tokens, "tokens", lambda step: len(step[1])), draft)
    report = {
        "command": "run",
        "model": "toy",
        "draft": name,
        "claim": rule.claim,
        "settings": {
            "agreement": agreement,
            "k": args.k,
            "tokens": n_tokens,
            **settings(args),
            "draft_cost": draft_cost,
            **world(args),
            "seed": args.seed,
        },
        **counts(trace),
        "speedup": trace.speedup(draft_cost),
    }

    def show() -> None:
        speedup = f"{times(trace.speedup(draft_cost))} at draft cost {draft_cost:g}"
        show_counts(trace, rule, [("speedup", speedup)])

    return Answer(report, True, show)


def policy(name: str, draft_cost: float) -> Policy:
    """The policy of a name; `auto` is the best for the cost."""
    return POLICIES["best" if name == "auto" else name](draft_cost)


def rule_and_rows(args: argparse.Namespace) -> tuple[Rule, Settings]:
    """The rule that verifies, and what shapes the rows.

    Raises
    ------
    ValueError
        If the rule would not be exact at this temperature, or a setting is out of its range.
    """
    rule = RULES[args.verifier]
    if rule.claim == "exact at temperature 0" and args.temperature != 0:
        raise ValueError(
            f"--verifier {rule.name} is exact at temperature 0 alone; want --temperature 0 with it"
        )
    return rule, Settings(**given(args, _SHAPING))


def shaped(model: Model, shape: Settings) -> Model:
    """The model with its rows shaped; itself where there is nothing to do."""
    return model if shape == Settings() else MappedModel(model, shape)


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Rule and shaping, for a report."""
    exact = RULES[args.verifier].claim != "lossy"
    return {"verifier": args.verifier, "exact": exact, **_SHAPING, **given(args, _SHAPING)}


def counts(trace: Trace) -> dict[str, Any]:
    """What was counted, for a report."""
    return {
        "tokens": len(trace.tokens),
        "target_passes": trace.target_passes,
        "draft_passes": trace.draft_passes,
        "acceptance_rate": trace.acceptance_rate,
        "conditional_acceptance": trace.conditional_acceptance,
        "acceptance_by_position": trace.acceptance_by_position,
        "tokens_per_step": trace.tokens_per_step,
    }


def show_counts(trace: Trace, rule: Rule, more: list[tuple[str, str]]) -> None:
    """What was counted, for a person; and that a lossy rule is lossy."""
    table = Table(box=None, show_header=False, pad_edge=False)
    alphas = trace.acceptance_by_position
    by_position = "  ".join(map(rounded, alphas[:_SHOWN])) + ("  …" if len(alphas) > _SHOWN else "")
    # Beside the speed of a lossy rule stands that it is not that of the target's text.
    lossy = [("lossy", "this is not the target's law")] if rule.claim == "lossy" else []
    for name, value in [
        ("generated tokens", str(len(trace.tokens))),
        ("target passes", str(trace.target_passes)),
        ("acceptance rate", rounded(trace.acceptance_rate)),
        ("conditional acceptance", by_position or "nothing proposed"),
        ("tokens per target pass", rounded(trace.tokens_per_step)),
        *more,
        *lossy,
    ]:
        table.add_row(name, Text(value))
    Console(highlight=False).print(table)
