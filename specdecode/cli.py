"""The command `spec-decode`: verify the rule, run it, sweep it, certify a sampler, compare two programs.

Every command prints a short answer for a person, or with --json one object for a program (its schema
is on the book's page of commands). Exit status: 0 success, 1 a certificate failed, 2 bad input.
"""

import argparse
import contextlib
import inspect
import json
import multiprocessing
import os
import platform
import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from specdecode import __version__, policies, verifiers
from specdecode.certify import certify, certify_generator
from specdecode.checks import as_count
from specdecode.clock import machine, one_thread
from specdecode.cost import speedup
from specdecode.drafts import NGramDraft, as_draft
from specdecode.loading import load_function, source_hash
from specdecode.models import MappedModel
from specdecode.proof import verify_generator, verify_identity
from specdecode.sameness import Sameness, same_law
from specdecode.sampling import Settings
from specdecode.speculative import Trace, generate_target_only, stream_speculative
from specdecode.sweep import sweep, toy_world

__all__ = ["main"]

_AGREEMENTS = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
_PROGRESS_AFTER = 2.0  # seconds
_VERIFIERS = ("token", "block", "greedy", "one_hot", "sampler_match", "typical", "lenient", "mixture")
_FLOAT32 = 1e-6  # what float32 rounding adds up to over a few tokens
_SHOWN = 8  # positions whose conditional acceptance is printed


def main(argv=None):
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments after the command's name; those of the process if left out.

    Returns
    -------
    int
        Exit status: 0, 1 when a certificate fails, 2 on bad input.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot write × must not cost the answer
            stream.reconfigure(errors="replace")
    try:
        args = _parser().parse_args(argv)
        report, succeeded, show = args.command(args)
        if args.json:
            versions = {"python": platform.python_version(), "numpy": np.__version__}
            print(json.dumps({"specdecode": __version__, **versions, **report}, allow_nan=False))
        else:
            show()
        sys.stdout.flush()
        return 0 if succeeded else 1
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _refused("not enough memory; want a smaller vocabulary, or fewer tokens or pairs")
    except (ValueError, ImportError, OSError) as error:
        return _refused(error)
    except KeyboardInterrupt:
        print("spec-decode: interrupted", file=sys.stderr)
        return 130


def _refused(why):
    print(f"spec-decode: {' '.join(str(why).split())}", file=sys.stderr)
    return 2


class _Console(Console):
    """Leaves a closed pipe to `main`; rich alone would make a failure of it."""

    def on_broken_pipe(self):
        raise BrokenPipeError


class _Parser(argparse.ArgumentParser):
    """Argument errors as one line, like every other error."""

    def error(self, message):
        self.exit(2, f"spec-decode: {message}; `{self.prog} --help` lists what is accepted\n")


def _parser():
    parser = _Parser(
        prog="spec-decode", description="Speculative decoding: verify the rule, run it, certify a sampler."
    )
    parser.add_argument("--version", action="version", version=f"spec-decode {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    verify = commands.add_parser("verify", help="check that the emitted token has the target's law")
    verify.set_defaults(command=_verify)
    verify.add_argument(
        "--pairs", type=_whole(1, 10**6), default=4000, help="random pairs of rows (default 4000)"
    )

    run = commands.add_parser("run", help="generate text and count what it cost")
    run.set_defaults(command=_run)
    run.add_argument(
        "--model", choices=["toy", "smollm2"], default="toy", help="what to sample (default toy)"
    )
    run.add_argument("--k", type=_length, default=4, help="draft length, or auto (default 4)")
    run.add_argument(
        "--verifier",
        choices=_VERIFIERS,
        default="token",
        help="rule (default token; the last three: lossy)",
    )
    run.add_argument("--tokens", type=_whole(0, 10**8), help="new tokens (default 5000; smollm2: 64)")
    run.add_argument("--temperature", type=_number(0), help="of the target and the draft (default 1)")
    run.add_argument("--top-k", type=_whole(0, 10**9), help="keep the likeliest (default 0: all)")
    run.add_argument("--top-p", type=_number(0, 1), help="keep the fewest of this mass (default 1: all)")
    run.add_argument(
        "--min-p", type=_number(0, 1), help="keep this share of the top or more (default 0: all)"
    )
    run.add_argument("--agreement", type=_number(0, 1), help="toy: how far the draft agrees (default 0.8)")
    run.add_argument("--draft-cost", type=_number(0), help="toy: draft pass ÷ target pass (default 0.1)")
    run.add_argument("--prompt", help="smollm2: the text to continue")
    run.add_argument("--model-path", help="smollm2: a GGUF file in place of the installed one")

    table = commands.add_parser("sweep", help="a table over agreements and draft lengths")
    table.set_defaults(command=_sweep)
    table.add_argument("--k", type=_whole(1, 64), default=8, help="longest draft length (default 8)")
    table.add_argument("--tokens", type=_whole(1, 10**8), default=2000, help="tokens a cell (default 2000)")
    table.add_argument(
        "--agreements",
        type=_number(0, 1),
        nargs="+",
        default=_AGREEMENTS,
        metavar="A",
        help="default 0 to 1 in eight steps",
    )
    table.add_argument(
        "--draft-cost", type=_number(0), default=0.1, help="draft pass ÷ target pass (default 0.1)"
    )
    table.add_argument("--save", metavar="FILE", help="save the figure: a name ending in .svg, .png or .pdf")

    judge = commands.add_parser(
        "certify",
        help="does a sampler of yours emit exactly p?",
        description="Does a sampler of yours emit exactly p? Certifying a file runs it.",
    )
    judge.set_defaults(command=_certify)
    judge.add_argument("function", metavar="FILE.py:FUNCTION", help="or package.module:function")
    judge.add_argument("--generator", action="store_true", help="it is a whole generator, not a verifier")
    judge.add_argument("--torch", action="store_true", help="a verifier on torch tensors that draws by torch")
    judge.add_argument("--require", choices=["enumerated"], help="fail if it could only be sampled")
    judge.add_argument("--tolerance", type=_number(0), help="allowed distance (default 1e-12; float32: 1e-6)")
    judge.add_argument("--draws", type=_whole(100, 10**8), help="texts a world, if it has to be sampled")
    judge.add_argument("--alpha", type=_number(0, 1), help="false alarms, if sampled (default 1e-6)")
    judge.add_argument("--seconds", type=_number(0.1), default=120.0, help="wall-clock limit (default 120)")

    pair = commands.add_parser(
        "compare",
        help="have two programs, or two servers, the same law?",
        description="Have two programs, or two servers, the same law? With and without speculation, say. "
        "Comparing files runs them.",
    )
    pair.set_defaults(command=_compare)
    pair.add_argument(
        "programs",
        nargs="*",
        metavar="FILE.py:PROGRAM",
        help="two of them: program(rng), drawing from rng, or program(), drawing by torch",
    )
    pair.add_argument("--require", choices=["enumerated"], help="fail if they could only be sampled")
    pair.add_argument("--tolerance", type=_number(0), help="allowed distance (default 1e-12; torch: 1e-6)")
    pair.add_argument("--max-paths", type=_whole(1, 10**8), help="paths of each program (default 20000)")
    pair.add_argument("--draws", type=_whole(100, 10**8), help="texts each (default 20000; servers: 1000)")
    pair.add_argument("--alpha", type=_number(0, 1), default=1e-6, help="false alarms (default 1e-6)")
    pair.add_argument("--seconds", type=_number(0.1), default=120.0, help="wall-clock limit (default 120)")
    server = pair.add_argument_group("servers with an OpenAI-compatible /completions")
    server.add_argument("--base-url", help="http://HOST:PORT/v1, with speculation")
    server.add_argument("--reference-url", help="without it (default: --base-url)")
    server.add_argument("--model", help="its name (default: the only one there)")
    server.add_argument("--reference-model", help="name at the reference (default: --model)")
    server.add_argument("--extra", type=_json_object, default={}, help="more fields of a request, as JSON")
    server.add_argument("--reference-extra", type=_json_object, default={}, help="those at the reference")
    server.add_argument("--prompt", action="append", help="may be given more than once")
    server.add_argument("--max-tokens", type=_whole(1, 10**4), help="length of a completion (default 4)")
    server.add_argument("--temperature", type=_number(0), help="of both (default 1)")
    server.add_argument("--choices", type=_whole(1, 128), help="completions a request (default 1)")
    server.add_argument("--concurrency", type=_whole(1, 256), help="requests at a time (default 8)")
    server.add_argument("--timeout", type=_number(0.1), help="seconds a request may take (default 30)")
    server.add_argument("--retries", type=_whole(0, 20), help="of a request that failed (default 3)")
    server.add_argument("--send-seeds", action="store_true", help="send a seed of its own with each request")
    server.add_argument(
        "--key-env", default="OPENAI_API_KEY", metavar="NAME", help="variable with the key (OPENAI_API_KEY)"
    )

    for command in (verify, run, table, judge, pair):
        command.add_argument("--seed", type=_whole(0, 2**63), default=0, help="sampling seed (default 0)")
        command.add_argument("--json", action="store_true", help="print one JSON object instead")
    for command in (run, table):
        command.add_argument("--vocab-size", type=_whole(1, 4096), help="toy: number of tokens (default 32)")
        command.add_argument("--target-seed", type=_whole(0, 2**63), help="toy: target's seed (default 1)")
        command.add_argument("--draft-seed", type=_whole(0, 2**63), help="toy: draft's seed (default 2)")
    return parser


def _whole(least, most):
    def parse(text):
        try:
            number = as_count(int(text), "it", least)
        except ValueError:
            number = most + 1
        if number > most:
            raise argparse.ArgumentTypeError(f"{text!r}; want a whole number from {least} to {most}")
        return number

    return parse


def _length(text):
    return text if text == "auto" else _whole(1, 1000)(text)


def _number(low, high=float("inf")):
    want = f"a number from {low} to {high}" if high < float("inf") else f"a finite number, {low} or more"

    def parse(text):
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high or number == float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r}; want {want}")
        return number

    return parse


def _json_object(text):
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"""{text!r}; want a JSON object, such as '{{"top_k": 0}}'""")
    return found


def _verify(args):
    identity = verify_identity(
        args.pairs, args.seed, track=lambda pairs: _tracked(pairs, len(pairs), "pairs")
    )
    worlds = verify_generator(track=lambda worlds: _tracked(worlds, len(worlds), "worlds"))
    failed = [found.world for found in worlds if not found.equal]
    paths = sum(found.paths for found in worlds)
    passed = identity.passed and not failed
    verdict = "PASS" if passed else "FAIL"
    report = {
        "command": "verify",
        "seed": args.seed,
        "pairs": identity.pairs,
        "total_variation": _finite(identity.total_variation),
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

    def show():
        console = _Console(highlight=False)
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

    return report, passed, show


def _certify(args):
    """Certify in a child process: a loop that draws nothing can only be stopped from outside."""
    options = {"tolerance": args.tolerance, "draws": args.draws, "alpha": args.alpha, "seed": args.seed}
    if args.torch and args.generator:
        raise ValueError("--torch is for verifiers; for a whole program compare it with another: `compare`")
    if args.torch:
        options = {"tolerance": _FLOAT32, **{n: v for n, v in options.items() if v is not None}}
    options = {name: value for name, value in options.items() if value is not None}
    kind = "torch" if args.torch else "generator" if args.generator else "verifier"
    answer = _in_child(args.function, args.seconds, _certified, args.function, kind, options)
    answer = {"worlds": [], "witness": None, **answer}
    text = answer.pop("text")
    accepted = ["exact"] if args.require == "enumerated" else ["exact", "no difference found"]

    def show():
        console = _Console(highlight=False, soft_wrap=True)
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("world", "k", "tokens", "paths or draws", "total variation or p"):
            table.add_column(heading, justify="left" if heading == "world" else "right")
        for check in answer["worlds"]:
            found = check["total_variation"] if check["p_value"] is None else check["p_value"]
            size = check["paths"] or check["draws"]
            cells = check["world"], check["k"], check["n_tokens"], size, f"{found:.1e}"
            table.add_row(*map(str, cells), style=None if check["passed"] else "bold red")
        if answer["worlds"]:
            console.print(table)
        console.print(Text(text))
        witness = answer.get("witness")
        if witness:
            console.print("\nTo see it again:\n")
            console.print(Text(witness["snippet"]))

    return {"command": "certify", **answer}, answer["verdict"] in accepted, show


def _certified(name, kind, options):
    function = load_function(name)
    sampler, ask = function, certify_generator if kind == "generator" else certify
    if kind == "torch":
        sampler = _torch_adapter().as_verifier(function)
    found = ask(sampler, track=lambda worlds: _tracked(worlds, len(worlds), "worlds"), **options)
    source = {"function": name, "source_sha256": source_hash(function)}
    return {**source, **found.to_dict(), "text": str(found)}


def _torch_adapter():
    from specdecode.adapters import pytorch

    pytorch.torch.set_num_threads(1)  # small models are slower on more, and sums then depend on the split
    return pytorch


def _in_child(what, seconds, task, *given):
    """The answer of task(*given), made in a child process with a limit on its time."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(sender, task, given))
    child.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(seconds) else None
    except EOFError:
        child.join()
        answer = _unfinished(f"{what} ended the process with status {child.exitcode}")
    finally:
        child.kill()
    if answer is None:
        answer = _unfinished(f"{what} did not finish within {seconds:g} s; --seconds raises the limit")
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def _unfinished(why):
    return {"verdict": "not finished", "reason": why, "text": why}


def _answer(sender, task, given):
    """Runs in the child: send the answer, or the error, as plain data."""
    os.dup2(2, 1)  # what the code prints, and what it starts, must not mix with the answer
    with contextlib.redirect_stdout(sys.stderr):
        try:
            sender.send(task(*given))
        except (ValueError, ImportError, TypeError) as error:
            sender.send({"error": str(error)})


def _compare(args):
    servers = args.base_url or args.reference_url
    answer = _compared_servers(args) if servers else _compared_programs(args)
    text = answer.pop("text")
    accepted = ["equal"] if args.require == "enumerated" else ["equal", "no difference found"]

    def show():
        _Console(highlight=False, soft_wrap=True).print(Text(text))

    return {"command": "compare", **answer}, answer["verdict"] in accepted, show


_SERVER_OPTIONS = ("max_tokens", "temperature", "choices", "concurrency", "timeout", "retries")


def _compared_programs(args):
    _refuse(args, ["model", "reference_model", "prompt", *_SERVER_OPTIONS], "two programs")
    if len(args.programs) != 2:
        raise ValueError(
            f"{len(args.programs)} programs; want two, FILE.py:PLAIN FILE.py:SPECULATIVE, or --base-url"
        )
    options = {name: getattr(args, name) for name in ("tolerance", "max_paths", "draws", "alpha", "seed")}
    options = {name: value for name, value in options.items() if value is not None}
    options["seconds"] = 0.8 * args.seconds  # the rest is for the imports
    return _in_child(" and ".join(args.programs), args.seconds, _same_programs, args.programs, options)


def _same_programs(names, options):
    programs, tolerance = [], 1e-12
    for name in names:
        function = load_function(name)
        if _required(function) == 1:
            programs.append(function)
        elif _required(function) == 0:
            programs.append(_torch_adapter().drawing(function))
            tolerance = _FLOAT32
        else:
            raise ValueError(f"{name} takes neither an rng nor nothing; want program(rng) or program()")
    found = same_law(*programs, **{"tolerance": tolerance, **options})
    return {"programs": list(names), **_told(found)}


def _required(function):
    """How many arguments a program must be given; None if that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(p.default is p.empty and p.kind not in optional for p in parameters)


def _told(found: Sameness):
    return {**found.to_dict(), "text": str(found)}


def _compared_servers(args):
    if args.programs:
        raise ValueError("both programs and servers were named; want one kind")
    if not args.base_url:
        raise ValueError("--reference-url without --base-url; want both, or two programs")
    if not args.prompt:
        raise ValueError('servers are compared on prompts; want --prompt "…", once or more')
    _refuse(args, ["tolerance", "max_paths"], "servers")
    from specdecode.adapters.servers import Server, compare_servers

    server = Server(args.base_url, args.model, args.extra)
    reference = Server(
        _default(args.reference_url, args.base_url),
        _default(args.reference_model, args.model),
        args.reference_extra,
    )
    options = {name: getattr(args, name) for name in (*_SERVER_OPTIONS, "draws")}
    found = compare_servers(
        server,
        reference,
        args.prompt,
        alpha=args.alpha,
        seconds=args.seconds,
        api_key=os.environ.get(args.key_env),
        seeds=args.seed if args.send_seeds else None,
        track=lambda requests: _tracked(requests, len(requests), "requests"),
        **{name: value for name, value in options.items() if value is not None},
    )
    return {"server": args.base_url, "reference": reference.base_url, **_told(found)}


def _run(args):
    return _run_toy(args) if args.model == "toy" else _run_smollm(args)


def _run_toy(args):
    _refuse(args, ["prompt", "model_path"], "--model toy")
    agreement, draft_cost = _default(args.agreement, 0.8), _default(args.draft_cost, 0.1)
    n_tokens = _default(args.tokens, 5000)
    shape, verifier = _settings(args)
    target, draft = (_shaped(model, shape) for model in toy_world(agreement, **_world(args)))
    k = policies.best(draft_cost) if args.k == "auto" else args.k
    rng = np.random.default_rng(args.seed)
    steps = stream_speculative(target, draft, [0], n_tokens, k, rng, verifier=verifier)
    trace = Trace.collect(_tracked(steps, n_tokens, "tokens", lambda step: len(step[1])), as_draft(draft))
    report = {
        "command": "run",
        "model": "toy",
        "settings": {
            "agreement": agreement,
            "k": args.k,
            "tokens": n_tokens,
            **_told_settings(args),
            "draft_cost": draft_cost,
            **_world(args),
            "seed": args.seed,
        },
        **_counts(trace),
        "speedup": trace.speedup(draft_cost),
    }

    def show():
        speedup = f"{_times(trace.speedup(draft_cost))} at draft cost {draft_cost:g}"
        _show_counts(trace, [("speedup", speedup), *_warning(verifier)])

    return report, True, show


def _sweep(args):
    if args.save is not None:
        from specdecode import plots  # asked before the work, so that nothing is lost afterwards

        plots.check_path(args.save)
    steps = sweep(args.agreements, args.k, args.tokens, args.seed, draft_cost=args.draft_cost, **_world(args))
    rows = list(_tracked(steps, len(args.agreements) * args.k, "runs"))
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
            **_world(args),
            "seed": args.seed,
        },
        "cells": rows,
        "figure": args.save,
    }

    def show():
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("agreement", "α", "k", "τ measured", "τ exact", "speedup"):
            table.add_column(heading, justify="right")
        best = {}
        for row in rows:  # by the exact value: the best of several counts is often only the luckiest
            expected = speedup(row["expected_tokens_per_step"], row["k"], args.draft_cost)
            best[row["agreement"]] = max(best.get(row["agreement"], (0, 0)), (expected, row["k"]))
        for row in rows:
            is_best = row["k"] == best[row["agreement"]][1]
            table.add_row(
                f"{row['agreement']:g}",
                _rounded(row["conditional_acceptance"]),
                str(row["k"]),
                _rounded(row["tokens_per_step"]),
                _rounded(row["expected_tokens_per_step"]),
                _times(row["speedup"]) + (" ←" if is_best else "  "),
                style="bold" if is_best else None,
                end_section=row["k"] == args.k,
            )
        console = _Console(highlight=False)
        console.print(table)
        console.print(
            f"α  conditional acceptance\n"
            f"τ  tokens per target pass: measured over {args.tokens} tokens, and exact in closed form\n"
            f"←  the best k tried for this agreement, by the exact τ, at draft cost {args.draft_cost:g}"
        )
        if args.save:
            console.print(f"figure saved to {args.save}")

    return report, True, show


def _run_smollm(args):
    _refuse(args, ["agreement", "draft_cost", "vocab_size", "target_seed", "draft_seed"], "--model smollm2")
    if not args.prompt:
        raise ValueError('--model smollm2 continues a text: want --prompt "…" with at least one character')
    from specdecode import smollm

    n_tokens = _default(args.tokens, 64)
    with one_thread():
        model = smollm.load(args.model_path)
        prompt = model.encode(args.prompt)
        shape, verifier = _settings(args)
        target, draft = _shaped(model, shape), NGramDraft(model.vocab_size)
        # A look-up costs nothing to draft, so what decides is how much of it was kept.
        k = policies.heuristic(start=4, longest=16) if args.k == "auto" else args.k
        longest = len(prompt) + n_tokens + (k.longest if args.k == "auto" else k)
        if longest > model.context_length:
            sizes = f"{len(prompt)} tokens of prompt, {n_tokens} new ones and k = {args.k}"
            raise ValueError(f"{sizes} make {longest}; want at most {model.context_length}")
        writer = None if args.json else _Writer(model, args.prompt)

        def rounds():
            rng = np.random.default_rng(args.seed)
            options = {"verifier": verifier, "stop": model.stop_ids}
            for step in stream_speculative(target, draft, prompt, n_tokens, k, rng, **options):
                if writer:
                    writer.write(*step)
                yield step

        # Reading the prompt is not part of either time: both start with it in the cache.
        model.next_dist(prompt)
        began = time.perf_counter()
        trace = Trace.collect(rounds(), draft)
        speculative_seconds = time.perf_counter() - began
        if writer:
            writer.close()

        model.next_dist(prompt)
        rng = np.random.default_rng(args.seed)
        began = time.perf_counter()
        plain = generate_target_only(target, prompt, n_tokens, rng, stop=model.stop_ids)
        plain_seconds = time.perf_counter() - began

    speculative_pace = _ratio(speculative_seconds, len(trace.tokens))
    plain_pace = _ratio(plain_seconds, len(plain))
    gain = _ratio(plain_pace, speculative_pace)
    report = {
        "command": "run",
        "model": "smollm2",
        "settings": {
            "k": args.k,
            "tokens": n_tokens,
            **_told_settings(args),
            "seed": args.seed,
            "threads": 1,
        },
        "machine": machine(),
        "prompt": args.prompt,
        "text": model.decode(trace.tokens),
        **_counts(trace),
        "seconds_per_token": speculative_pace,
        "target_only_seconds_per_token": plain_pace,
        "speedup": gain,
    }

    def show():
        if gain is None:
            return _show_counts(trace, [])
        words = "faster" if gain > 1 else "slower"
        _show_counts(
            trace,
            [
                ("wall-clock", f"{1000 * speculative_pace:.0f} ms a token, one thread"),
                ("target only", f"{1000 * plain_pace:.0f} ms a token, same seed, {len(plain)} tokens"),
                ("speedup", f"{_times(gain)}, {words} than the target alone, this time"),
                ("on", machine()),
                *_warning(verifier),
            ],
        )

    return report, True, show


class _Writer:
    """Streams text as it is accepted: drafted tokens green and underlined, the target's own plain."""

    def __init__(self, model, prompt):
        self.model, self.tokens, self.shown = model, [], ""
        self.console = _Console(highlight=False, soft_wrap=True)
        self.console.print(Text(prompt, style="dim"), end="")

    def write(self, round_, kept):
        for place, token in enumerate(kept):
            self.tokens.append(token)
            text = self.model.decode(self.tokens)
            if not text.endswith("\ufffd"):  # the bytes of its last character have all arrived
                self._show(text, "green underline" if place < round_.accepted else "")

    def _show(self, text, style):
        self.console.print(Text(text[len(self.shown) :], style=style), end="")
        self.shown = text

    def close(self):
        self._show(self.model.decode(self.tokens), "")
        self.console.print("\n")
        if self.console.is_terminal:
            key = Text.assemble(("drafted and accepted", "green underline"), " · the target's own\n")
            self.console.print(key)


def _world(args):
    """Size and seeds of the toy world, as asked for or by default."""
    defaults = {"vocab_size": 32, "target_seed": 1, "draft_seed": 2}
    return {name: _default(getattr(args, name), default) for name, default in defaults.items()}


_SHAPING = ("temperature", "top_k", "top_p", "min_p")


def _settings(args):
    """What shapes the rows, and the rule that verifies."""
    if args.verifier == "greedy" and args.temperature != 0:
        raise ValueError("--verifier greedy is exact at temperature 0 alone; want --temperature 0 with it")
    return Settings(**{name: getattr(args, name) for name in _SHAPING}), getattr(verifiers, args.verifier)


def _shaped(model, shape):
    return model if shape == Settings() else MappedModel(model, shape)


def _told_settings(args):
    off = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
    return {
        "verifier": args.verifier,
        "exact": not verifiers.is_lossy(getattr(verifiers, args.verifier)),
        **{name: _default(getattr(args, name), off[name]) for name in _SHAPING},
    }


def _warning(verifier):
    """A line for a rule that is lossy: its speed is not that of the target's text."""
    return [("lossy", "this is not the target's law")] if verifiers.is_lossy(verifier) else []


def _default(value, default):
    return default if value is None else value


def _refuse(args, names, what):
    for name in names:
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} does not go with {what}; want one or the other")


def _counts(trace):
    return {
        "tokens": len(trace.tokens),
        "target_passes": trace.target_passes,
        "draft_passes": trace.draft_passes,
        "acceptance_rate": trace.acceptance_rate,
        "conditional_acceptance": trace.conditional_acceptance,
        "acceptance_by_position": trace.acceptance_by_position,
        "tokens_per_step": trace.tokens_per_step,
    }


def _show_counts(trace, more):
    table = Table(box=None, show_header=False, pad_edge=False)
    alphas = trace.acceptance_by_position
    by_position = "  ".join(map(_rounded, alphas[:_SHOWN])) + ("  …" if len(alphas) > _SHOWN else "")
    for name, value in [
        ("generated tokens", str(len(trace.tokens))),
        ("target passes", str(trace.target_passes)),
        ("acceptance rate", _rounded(trace.acceptance_rate)),
        ("conditional acceptance", by_position or "nothing proposed"),
        ("tokens per target pass", _rounded(trace.tokens_per_step)),
        *more,
    ]:
        table.add_row(name, Text(value))
    _Console(highlight=False).print(table)


def _rounded(number):
    return "–" if number is None else f"{number:.3f}"


def _times(number):
    return "–" if number is None else f"{number:.2f}×"


def _ratio(part, whole):
    return part / whole if part is not None and whole else None


def _finite(number):
    return number if np.isfinite(number) else None


def _tracked(items, total, what, advance=lambda item: 1):
    """Pass items on; on a terminal, and once two seconds have gone by, show how far they are."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = progress.add_task(what, total=total)
    due = time.monotonic() + _PROGRESS_AFTER
    try:
        for item in items:
            yield item
            progress.advance(task, advance(item))
            if time.monotonic() > due:
                progress.start()
                due = float("inf")
    finally:
        progress.stop()
