"""The command `spec-decode`: verify the rule, run it, sweep it, certify a sampler, compare two programs.

Every command prints a short answer for a person, or with --json one object for a program (its schema
is on the book's page of commands). Exit status: 0 success, 1 a certificate failed, 2 bad input.

parser     the line: five commands, each read by its own room
arguments  what an option may be
verify, run, smollm, sweep, certify, compare    the commands: options, work, answer
console    what is shown to a person
child      other people's code, in a process of its own

A command's room is imported when the command is named, so that `--version` and `--help` cost no library.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specdecode import __version__
from specdecode.cli.parser import command_line, in_one_line

if TYPE_CHECKING:
    from specdecode.proof import verify_generator as verify_generator
    from specdecode.proof import verify_identity as verify_identity

__all__ = ["main"]

_PROGRESS_AFTER = 2.0  # seconds


def main(argv: Sequence[str] | None = None) -> int:
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
        args = command_line().parse_args(argv)
        answer = args.command(args)
        if args.json:
            print(_as_json(answer.report))
        else:
            answer.show()
        sys.stdout.flush()
        return 0 if answer.succeeded else 1
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


def _refused(why: object) -> int:
    print(f"spec-decode: {in_one_line(why)}", file=sys.stderr)
    return 2


def _as_json(report: dict[str, Any]) -> str:
    import json
    import platform

    import numpy as np

    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return json.dumps({"specdecode": __version__, **versions, **report}, allow_nan=False)


def __getattr__(name: str) -> Any:
    """What commands look up here, so that another can stand in for it: imported when it is asked for."""
    if name in ("verify_generator", "verify_identity"):
        from specdecode import proof

        return getattr(proof, name)
    if name == "_tracked":
        from specdecode.cli.console import tracked

        return tracked
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
