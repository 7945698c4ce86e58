"""The line that is read: which command, and the options that its room declares.

The rooms of the commands import what they need at their top. Only the one that was named is imported, to
declare its options: the line itself knows no more than the names of the commands and a line of help on each.
"""

import argparse
import sys
from importlib import import_module
from typing import Any, NoReturn

from specdecode import __version__

__all__ = ["command_line", "in_one_line"]

_COMMANDS = {
    "verify": "check that the emitted token has the target's law",
    "run": "generate text and count what it cost",
    "sweep": "a table over agreements and draft lengths",
    "certify": "does a sampler of yours emit exactly p?",
    "compare": "have two programs, or two servers, the same law?",
}

_WORD = 200  # characters: a path is shown whole

_EXAMPLES = """\
examples:
  spec-decode verify                                      the rule, and the running generator
  spec-decode run --agreement 0.8 --k 4                   the toy world, counted
  spec-decode certify FILE.py:FUNCTION                    does a verifier of yours emit exactly p?
  spec-decode compare FILE.py:PLAIN FILE.py:SPECULATIVE   have two programs the same law?
"""


def in_one_line(message: object) -> str:
    """A message as one line, whatever was typed; no word of it fills the screen."""
    return " ".join(word if len(word) <= _WORD else f"{word[: _WORD - 1]}…" for word in str(message).split())


class _Parser(argparse.ArgumentParser):
    """Argument errors as one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"spec-decode: {in_one_line(message)}; `{self.prog} --help` lists what is accepted\n")


class _Line(_Parser):
    """The whole line. Empty, at a terminal, it asks what there is."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        args = sys.argv[1:] if args is None else list(args)
        if not args and sys.stderr.isatty():
            self.print_help(sys.stderr)
            self.exit(2)
        return super().parse_known_args(args, namespace)


class _Command(_Parser):
    """What follows the name of a command; its room is imported when that is to be read."""

    room: str

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._declare()
        self._refuse_dashes(args)
        return super().parse_known_args(args, namespace)

    def _declare(self) -> None:
        from specdecode.cli.arguments import seed

        room = import_module(self.room)
        room.declare(self)
        self.set_defaults(command=room.answer)
        self.add_argument("--seed", type=seed, default=0, help="sampling seed (default 0)")
        self.add_argument("--json", action="store_true", help="print one JSON object instead")

    def _refuse_dashes(self, args: list[str]) -> None:
        """Refuse `--k=--`, of which argparse would make an empty list."""
        for argument in args[: args.index("--")] if "--" in args else args:
            option, _, value = argument.partition("=")
            if option.startswith("-") and value == "--":
                self.error(f"argument {option}: '--' is no value; want one after the =")


def command_line() -> argparse.ArgumentParser:
    """The parser of the whole line; what it makes has `command`, a function from it to an `Answer`."""
    line = _Line(
        prog="spec-decode",
        description="Speculative decoding: verify the rule, run it, certify a sampler.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    line.add_argument("--version", action="version", version=f"spec-decode {__version__}")
    commands = line.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, help_ in _COMMANDS.items():
        commands.add_parser(name, help=help_).room = f"specdecode.cli.{name}"
    return line
