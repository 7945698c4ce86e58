"""`spec-decode sweep`: a table over agreements and draft lengths, and its figure."""

import argparse
from typing import Any

from specdecode.cli.arguments import number, toy_world_options, whole, world
from specdecode.cli.console import Answer, Console, rounded, table_of, times, tracked
from specdecode.cost import speedup
from specdecode.sweep import sweep

__all__ = ["answer", "declare"]

_AGREEMENTS = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--k", type=whole(1, 64), default=8, help="longest draft length (default 8)")
    parser.add_argument("--tokens", type=whole(1, 10**8), default=2000, help="tokens a cell (default 2000)")
    parser.add_argument(
        "--agreements",
        type=number(0, 1),
        nargs="+",
        default=_AGREEMENTS,
        metavar="A",
        help="default 0 to 1 in eight steps",
    )
    parser.add_argument(
        "--draft-cost", type=number(0), default=0.1, help="draft pass ÷ target pass (default 0.1)"
    )
    parser.add_argument("--save", metavar="FILE", help="save the figure: a name ending in .svg, .png or .pdf")
    toy_world_options(parser)


def answer(args: argparse.Namespace) -> Answer:
    """Measure every cell, and draw the figure."""
    if args.save is not None:
        from specdecode import plots  # asked before the work, so that nothing is lost afterwards

        plots.check_path(args.save)
    steps = sweep(args.agreements, args.k, args.tokens, args.seed, draft_cost=args.draft_cost, **world(args))
    rows = list(tracked(steps, len(args.agreements) * args.k, "runs"))
    if args.save is not None:
        plots.use_style()
        plots.save(plots.draw_sweep(rows), args.save)
    report = {
        "command": "sweep",
        "settings": {
            "agreements": list(args.agreements),
            "k": args.k,
            "tokens": args.tokens,
            "draft_cost": args.draft_cost,
            **world(args),
            "seed": args.seed,
        },
        "cells": rows,
        "figure": args.save,
    }
    return Answer(report, True, lambda: _show(args, rows))


def _show(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    table = table_of("agreement", "α", "k", "τ measured", "τ exact", "speedup")
    best: dict[float, tuple[float, int]] = {}
    for row in rows:  # by the exact value: the best of several counts is often only the luckiest
        expected = speedup(row["expected_tokens_per_step"], row["k"], args.draft_cost)
        best[row["agreement"]] = max(best.get(row["agreement"], (0, 0)), (expected, row["k"]))
    for row in rows:
        is_best = row["k"] == best[row["agreement"]][1]
        table.add_row(
            f"{row['agreement']:g}",
            rounded(row["conditional_acceptance"]),
            str(row["k"]),
            rounded(row["tokens_per_step"]),
            rounded(row["expected_tokens_per_step"]),
            times(row["speedup"]) + (" ←" if is_best else "  "),
            style="bold" if is_best else None,
            end_section=row["k"] == args.k,
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"α  conditional acceptance\n"
        f"τ  tokens per target pass: measured over {args.tokens} tokens, and exact in closed form\n"
        f"←  the best k tried for this agreement, by the exact τ, at draft cost {args.draft_cost:g}"
    )
    if args.save:
        console.print(f"figure saved to {args.save}")
