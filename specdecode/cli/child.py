"""Other people's code, in a process of its own, which ends with all that it started.

The child leads a session of its own. It, and whatever it started, is killed when the answer is there, when
the time is up, when more processes run than a sampler can want, and when the command is interrupted. What has
left the session is known by a mark in its environment. Finding such processes, and counting any, needs
Linux's /proc; elsewhere the child and its process group are killed (on Windows the child alone).

What the code warns of, on thousands of paths, is said once in a note of the answer.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from uuid import uuid4

from specdecode.loading import in_a_line

__all__ = ["FLOAT32", "in_child", "torch_adapter"]

FLOAT32 = 1e-6  # what float32 rounding adds up to over a few tokens

_MOST = 64  # processes at a time
_SHOWN = 3  # warnings
_MARK = "SPEC_DECODE_CHILD"

# The package is the parent's own, wherever that came from; then the paths are the parent's.
_START = """
import json, sys
sys.path[:], root, *request = json.loads(sys.argv.pop())
sys.path.insert(0, root)
import specdecode
del sys.path[0]
from specdecode.cli.child import work
work(*request)
"""


def in_child(what: str, seconds: float, task: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """The answer of task(*given), made in a child process with a limit on its time.

    Parameters
    ----------
    what : str
        What the code is called in an answer.
    seconds : float
    task : callable
        A function of a module of this package; it returns plain data.
    *given
        Plain data.

    Returns
    -------
    dict
        What the task returned, or the verdict "not finished" with its reason.

    Raises
    ------
    ValueError
        If the task refused what it was given.
    """
    mark = uuid4().hex
    with tempfile.TemporaryDirectory() as folder, _ended_by_signals():
        file = Path(folder) / "answer"
        root = str(Path(__file__).parents[2])
        request = [sys.path, root, str(file), what, task.__module__, task.__name__, given]
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what the code prints, and what it starts, must not mix with the answer
            env=os.environ | {_MARK: mark},
            start_new_session=True,
        )
        try:
            reason = _wait(child, seconds, mark)
        finally:
            _end(child, mark)
        if file.is_file():
            answer: dict[str, Any] = json.loads(file.read_text())
        else:
            reason = reason or f"ended the process with status {child.returncode}"
            answer = _unfinished(f"{what} {reason}")
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def work(file: str, what: str, module: str, task: str, given: list[Any]) -> NoReturn:
    """In the child: leave the answer, or the error, as plain data."""
    me = os.getpid()
    with contextlib.redirect_stdout(sys.stderr), _warnings_gathered() as warned:
        try:
            answer = getattr(import_module(module), task)(*given)
        except (ValueError, ImportError, TypeError) as error:
            answer = {"error": in_a_line(error).removeprefix(f"{type(error).__name__}: ")}
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            answer = _unfinished(f"{what} ended the process with status {status}")
        except BaseException as error:  # of the code's own: an interrupt from the keyboard stays outside
            answer = _unfinished(f"{what} raised {in_a_line(error)}")
    if warned and "text" in answer:
        notes = [f"it warned: {warning}" for warning in list(warned)[:_SHOWN]]
        notes += [f"it warned of more, {len(warned)} kinds in all"] if len(warned) > _SHOWN else []
        answer["notes"] = [*answer.get("notes", []), *notes]
        answer["text"] = "\n".join([answer["text"], *(f"  note: {note}" for note in notes)])
    if os.getpid() == me:  # and no copy of it that the code forked
        draft = Path(file + ".draft")
        draft.write_text(json.dumps(answer))
        draft.replace(file)
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(0)  # whatever the code has left to do


@contextlib.contextmanager
def _warnings_gathered() -> Iterator[dict[str, None]]:
    """Warnings once each, in the order in which they came, in place of lines on stderr."""
    found: dict[str, None] = {}

    def gather(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
    ) -> None:
        kind = in_a_line(message) if isinstance(message, Warning) else f"{category.__name__}: {message}"
        found[f"{kind[:200]} ({Path(filename).name}, line {lineno})"] = None

    with warnings.catch_warnings():
        warnings.showwarning = gather
        yield found


def _unfinished(why: str) -> dict[str, Any]:
    return {"verdict": "not finished", "reason": why, "text": why}


def _wait(child: "subprocess.Popen[bytes]", seconds: float, mark: str) -> str | None:
    """Wait for the child to end by itself; else why it is to be ended."""
    deadline = time.monotonic() + seconds
    pause = 0.1
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(pause, left))
            return None
        began = time.monotonic()
        if len(_started(child, mark)) > _MOST:
            return f"ran more than {_MOST} processes at a time"
        pause = max(pause, 20 * (time.monotonic() - began))  # looking costs at most a twentieth of the time
    return f"did not finish within {seconds:g} s; --seconds raises the limit"


def _end(child: "subprocess.Popen[bytes]", mark: str) -> None:
    """Kill the child and all that it started."""
    child.kill()
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # at once: a fork cannot run away from it
    child.wait()
    patience = time.monotonic() + 5  # for what the kernel holds on to
    while (alive := _started(child, mark)) and time.monotonic() < patience:
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)


def _started(child: "subprocess.Popen[bytes]", mark: str) -> list[int]:
    """Processes alive in the child's session, or with its mark; none where there is no /proc."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.listdir("/proc"):
            if entry.isdigit() and _belongs(entry, child.pid, f"{_MARK}={mark}".encode()):
                found.append(int(entry))
    return found


def _belongs(entry: str, session: int, mark: bytes) -> bool:
    try:
        # pid (name, of any characters) state parent group session …
        state, _, _, its = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[:4]
        if state in b"ZX":  # dead already
            return False
        return int(its) == session or mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or someone else's
        return False


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a signal that ends the command end what it started too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]  # `nohup` ignores one

    def leave(number: int, frame: Any) -> NoReturn:
        sys.exit(128 + number)

    try:
        for number in ours:
            signal.signal(number, leave)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def torch_adapter() -> ModuleType:
    """The adapter for PyTorch, on one thread."""
    from specdecode.adapters import pytorch  # says what to install, if torch is missing

    import_module("torch").set_num_threads(1)  # small models are slower on more, and sums depend on the split
    return pytorch
