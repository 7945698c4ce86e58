"""Malformed command lines, and files that hold no function to certify."""

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from malformed import Case, Refused

from specdecode import cli, loading
from specdecode.checks import shown
from specdecode.cli.certify import certified
from specdecode.cli.compare import same_programs
from specdecode.cli.parser import _COMMANDS, _Command
from specdecode.loading import load_function

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
        yield Case("command line", shown(" ".join(argv)), partial(spec_decode, *argv))


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
        yield Case("files", shown(name), partial(_loaded, load_function, name))
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
