"""`spec-decode verify`: the one-token identity on random rows, and the law of the running generator."""

import argparse
import math

from specdecode import cli
from specdecode.cli.arguments import whole
from specdecode.cli.console import Answer, Console, tracked

__all__ = ["answer", "declare"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--pairs", type=whole(1, 10**6), default=4000, help="random pairs of rows (default 4000)"
    )


def answer(args: argparse.Namespace) -> Answer:
    """Verify: PASS or FAIL."""
    from specdecode import proof  # it needs scipy, which the options do not

    identity = cli.verify_identity(
        args.pairs, args.seed, track=lambda pairs: tracked(pairs, len(pairs), "pairs")
    )
    worlds = cli.verify_generator(
        worlds=proof.generator_worlds(), track=lambda worlds: tracked(worlds, len(worlds), "worlds")
    )
    failed = [found.world for found in worlds if not found.equal]
    paths = sum(found.paths for found in worlds)
    passed = identity.passed and not failed
    verdict = "PASS" if passed else "FAIL"
    report = {
        "command": "verify",
        "seed": args.seed,
        "pairs": identity.pairs,
        "total_variation": identity.total_variation if math.isfinite(identity.total_variation) else None,
        "tolerance": identity.tolerance,
        "rational_pairs": identity.rational_pairs,
        "rational_failures": identity.rational_failures,
        "worlds": [
            {
                "name": found.world.name,
                "k": found.world.k,
                "n_tokens": found.world.n_tokens,
                "stop": found.world.stop,
                "paths": found.paths,
                "equal": found.equal,
            }
            for found in worlds
        ],
        "verdict": verdict,
    }

    def show() -> None:
        console = Console(highlight=False)
        console.print("One-token identity: q·min(1, p/q) + rejection mass · residual = p")
        console.print(
            f"  {identity.pairs} random pairs in floats: largest total variation "
            f"{identity.total_variation:.1e}, allowed {identity.tolerance:g}"
        )
        console.print(
            f"  {identity.rational_pairs} random pairs in Fractions: "
            f"{identity.rational_pairs - identity.rational_failures} equal, {identity.rational_failures} not"
        )
        console.print("That is about one token. The running generator, enumerated in Fractions:")
        console.print(
            f"  {len(worlds)} worlds, {paths} paths: "
            f"{len(worlds) - len(failed)} laws equal plain sampling's, {len(failed)} not"
        )
        for world in failed:
            console.print(f"  not equal: {world.name}, k = {world.k}, {world.n_tokens} tokens")
        console.print(verdict, style="bold green" if passed else "bold red")

    return Answer(report, passed, show)
