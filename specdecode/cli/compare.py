"""`spec-decode compare`: have two programs, or two servers, the same law?"""

import argparse
import inspect
import os
from collections.abc import Callable
from typing import Any

from rich.text import Text

from specdecode.cli.arguments import given, json_object, number, or_default, refuse, whole
from specdecode.cli.child import FLOAT32, in_child, torch_adapter
from specdecode.cli.console import Answer, Console, tracked

__all__ = ["answer", "declare"]

_SAMPLING = ("max_tokens", "temperature", "choices", "concurrency", "timeout", "retries")
_SERVERS = ("model", "reference_model", "extra", "reference_extra", "prompt", "send_seeds", "key_env")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Have two programs, or two servers, the same law? With and without speculation, say. "
        "Comparing files runs them."
    )
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="FILE.py:PROGRAM",
        help="two of them: program(rng), drawing from rng, or program(), drawing by torch",
    )
    parser.add_argument("--require", choices=["enumerated"], help="fail if they could only be sampled")
    parser.add_argument("--tolerance", type=number(0), help="allowed distance (default 1e-12; torch: 1e-6)")
    parser.add_argument("--max-paths", type=whole(1, 10**8), help="paths of each program (default 20000)")
    parser.add_argument("--draws", type=whole(100, 10**8), help="texts each (default 20000; servers: 1000)")
    parser.add_argument("--alpha", type=number(0, 1), default=1e-6, help="false alarms (default 1e-6)")
    parser.add_argument("--seconds", type=number(0.1), default=120.0, help="wall-clock limit (default 120)")
    server = parser.add_argument_group("servers with an OpenAI-compatible /completions")
    server.add_argument("--base-url", help="http://HOST:PORT/v1, with speculation")
    server.add_argument("--reference-url", help="without it (default: --base-url)")
    server.add_argument("--model", help="its name (default: the only one there)")
    server.add_argument("--reference-model", help="name at the reference (default: --model)")
    server.add_argument("--extra", type=json_object, help="more fields of a request, as JSON")
    server.add_argument("--reference-extra", type=json_object, help="those at the reference")
    server.add_argument("--prompt", action="append", help="may be given more than once")
    server.add_argument("--max-tokens", type=whole(1, 10**4), help="length of a completion (default 4)")
    server.add_argument("--temperature", type=number(0), help="of both (default 1)")
    server.add_argument("--choices", type=whole(1, 128), help="completions a request (default 1)")
    server.add_argument("--concurrency", type=whole(1, 256), help="requests at a time (default 8)")
    server.add_argument("--timeout", type=number(0.1), help="seconds a request may take (default 30)")
    server.add_argument("--retries", type=whole(0, 20), help="of a request that failed (default 3)")
    server.add_argument(
        "--send-seeds", action="store_true", default=None, help="send a seed of its own with each request"
    )
    server.add_argument("--key-env", metavar="NAME", help="variable with the key (OPENAI_API_KEY)")


def answer(args: argparse.Namespace) -> Answer:
    """Compare two programs, or two servers."""
    compared = _servers if args.base_url or args.reference_url else _programs
    found = compared(args)
    text = found.pop("text")
    accepted = ["equal"] if args.require == "enumerated" else ["equal", "no difference found"]

    def show() -> None:
        Console(highlight=False, soft_wrap=True).print(Text(text))

    passed = found["verdict"] in accepted and found.pop("has_power", True)
    return Answer({"command": "compare", **found}, passed, show)


def _programs(args: argparse.Namespace) -> dict[str, Any]:
    refuse(args, [*_SERVERS, *_SAMPLING], "two programs")
    if len(args.programs) != 2:
        raise ValueError(
            f"{len(args.programs)} programs; want two, FILE.py:PLAIN FILE.py:SPECULATIVE, or --base-url"
        )
    options = given(args, ["tolerance", "max_paths", "draws", "alpha", "seed"])
    return in_child(" and ".join(args.programs), args.seconds, same_programs, args.programs, options)


def same_programs(names: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """In the child: the comparison of two programs as plain data."""
    from specdecode.certify.same import same_law
    from specdecode.loading import load_function

    programs, tolerance = [], 1e-12
    for name in names:
        function = load_function(name)
        if _required(function) == 1:
            programs.append(function)
        elif _required(function) == 0:
            programs.append(torch_adapter().drawing(function))
            tolerance = FLOAT32
        else:
            raise ValueError(f"{name} takes neither an rng nor nothing; want program(rng) or program()")
    found = same_law(*programs, **{"tolerance": tolerance, **options})
    return {"programs": names, **found.to_dict(), "text": str(found), "has_power": found.has_power}


def _required(function: Callable[..., Any]) -> int | None:
    """How many arguments a program must be given; None if that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(p.default is p.empty and p.kind not in optional for p in parameters)


def _servers(args: argparse.Namespace) -> dict[str, Any]:
    if args.programs:
        raise ValueError("both programs and servers were named; want one kind")
    if not args.base_url:
        raise ValueError("--reference-url without --base-url; want both, or two programs")
    if not args.prompt:
        raise ValueError('servers are compared on prompts; want --prompt "…", once or more')
    refuse(args, ["tolerance", "max_paths"], "servers")
    from specdecode.adapters.servers import Server, compare_servers

    server = Server(args.base_url, args.model, args.extra or {})
    reference = Server(
        or_default(args.reference_url, args.base_url),
        or_default(args.reference_model, args.model),
        args.reference_extra or {},
    )
    found = compare_servers(
        server,
        reference,
        args.prompt,
        alpha=args.alpha,
        seconds=args.seconds,
        api_key=os.environ.get(or_default(args.key_env, "OPENAI_API_KEY")),
        seeds=args.seed if args.send_seeds else None,
        track=lambda requests: tracked(requests, len(requests), "requests"),
        **given(args, [*_SAMPLING, "draws"]),
    )
    addresses = {"server": args.base_url, "reference": reference.base_url}
    return {**addresses, **found.to_dict(), "text": str(found)}
