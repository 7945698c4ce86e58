"""Malformed inputs, generated: wrong types, shapes and values, wherever something is anyone's to give.

    python tests/malformed.py      prints what is tried, by kind, with counts and some of the messages

A case is a call that must end in one clear line, and `message` says whether it does. They are made in

malformed_arguments    every argument of the public functions
malformed_lines        every option of the command line; files without a function
malformed_servers      answers of servers, and how they are asked
"""

import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specdecode.checks import shown

SECONDS = 10  # after which a case counts as one that hangs


@dataclass(frozen=True)
class Case:
    """A call that must be refused: what its message may call the argument, and how it shows the value."""

    kind: str
    name: str
    run: Callable[[], Any]
    names: tuple[str, ...] = ()
    value: tuple[str, ...] = ()


REMEDIES = (
    "want ",
    "compare it with another",
    "; a Markov model needs ",
    "; it has ",  # functions, in place of the one that was named
    "cannot be loaded: ",
    "`spec-decode",  # whose --help lists what is accepted
    "pip install",
)


class Refused(Exception):
    """The command line ended with status 2, and this is what it said."""


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
        raise AssertionError(f"{case.name} is accepted: {shown(found)}")
    assert "\n" not in said, f"{case.name}: {said}"
    assert len(said) < 500, f"{case.name}: {said}"
    assert any(words in said for words in REMEDIES), f"{case.name}: {said}"
    assert not case.names or any(name in said for name in case.names), f"{case.name}: {said}"
    assert not case.value or any(value in said for value in case.value), f"{case.name}: {said}"
    return said


def everything(folder: Path) -> Iterator[Case]:
    """All cases; those of servers where they can be asked."""
    import malformed_arguments
    import malformed_lines
    import malformed_servers

    yield from malformed_arguments.cases()
    yield from malformed_lines.command_lines()
    yield from malformed_lines.files(folder)
    with contextlib.suppress(ImportError):
        yield from malformed_servers.cases()


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
    import malformed  # under the name by which the others know it

    sys.exit(malformed.main())
