"""What is shown to a person: answers, tables, progress."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from rich import console, table

from specdecode import cli

__all__ = ["Answer", "Console", "rounded", "table_of", "times", "tracked"]

Item = TypeVar("Item")


class Answer(NamedTuple):
    """What a command comes to."""

    report: dict[str, Any]  # for --json
    succeeded: bool
    show: Callable[[], None]  # for a person


class Console(console.Console):
    """Leaves a closed pipe to `main`; rich alone would make a failure of it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def table_of(*headings: str, left: int = 0) -> table.Table:
    """A table with these headings, numbers to the right, the first `left` columns to the left."""
    found = table.Table(box=None, header_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        found.add_column(heading, justify="left" if place < left else "right")
    return found


def rounded(number: float | None) -> str:
    """Three digits; a dash for nothing ÷ nothing."""
    return "–" if number is None else f"{number:.3f}"


def times(number: float | None) -> str:
    """A factor; a dash for nothing ÷ nothing."""
    return "–" if number is None else f"{number:.2f}×"


def tracked(
    items: Iterable[Item], total: int, what: str, advance: Callable[[Item], int] = lambda item: 1
) -> Iterator[Item]:
    """Pass items on; on a terminal, and once two seconds have gone by, show how far they are."""
    screen = console.Console(stderr=True)
    if not screen.is_terminal:
        yield from items
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=screen, transient=True)
    task = progress.add_task(what, total=total)
    due = time.monotonic() + cli._PROGRESS_AFTER
    try:
        for item in items:
            yield item
            progress.advance(task, advance(item))
            if time.monotonic() > due:
                progress.start()
                due = float("inf")
    finally:
        progress.stop()
