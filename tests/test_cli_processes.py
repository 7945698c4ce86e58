"""Other people's code in a process of its own: it ends, with all that it started, and in one line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")

FORKING = """
import os, subprocess, sys, time
from pathlib import Path

def note(pid):
    with open("pids", "a") as file:
        file.write(f"{pid}\\n")

def forks(*args):
    if not Path("pids").exists():
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            note(pid)
    return plain(*args)

def forks_and_loops(*args):
    forks(*args)
    while True:
        time.sleep(0.1)

def leaves(*args):
    # Twice forked, and in a session of its own, as a daemon is.
    if not Path("pids").exists():
        code = "import os, time; os.fork() and os._exit(0); open('pids', 'a').write(f'{os.getpid()}\\\\n'); "
        subprocess.Popen([sys.executable, "-c", code + "time.sleep(600)"], start_new_session=True)
        while not Path("pids").exists() or not Path("pids").read_text().endswith("\\n"):
            time.sleep(0.01)
    return plain(*args)

def crowd(*args):
    for _ in range(200):  # and no more, should nothing stop it
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        note(pid)
    time.sleep(600)

def copies(*args):
    # The copies go on as if they were the program.
    if not Path("pids").exists():
        note(0)
        os.fork()
    return plain(*args)

def plain(t, q, p, rng):
    for i, x in enumerate(t):
        if not rng.random() < p[i][x] / q[i][x]:
            rest = (p[i] - q[i]).clip(0)
            return [*t[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*t, rng.choice(len(p[-1]), p=p[-1])]
"""


@pytest.fixture
def certify(tmp_path):
    """Certify a function of a file outside the package; returns what was done and the processes noted."""
    (tmp_path / "mine.py").write_text(FORKING)

    def run(name, *options, ended_by=None, after=None):
        command = [sys.executable, "-m", "specdecode", "certify", f"mine.py:{name}", *options]
        pids = tmp_path / "pids"
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        ) as child:
            if ended_by:
                wait_for(lambda: pids.exists() and len(pids.read_text().split()) >= after)
                child.send_signal(ended_by)
            out, err = child.communicate(timeout=120)
        noted = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
        return subprocess.CompletedProcess(command, child.returncode, out, err), noted

    return run


def wait_for(condition):
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience, "it never came to that"
        time.sleep(0.01)


def alive(pids):
    """Those that run; a process that is dead and not yet buried does not."""

    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def test_what_is_alive_is_seen():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert alive([sleeper.pid, 2**22 + 1]) == [sleeper.pid]
        sleeper.kill()
    assert alive([sleeper.pid]) == []


def test_what_a_sampler_started_ends_with_the_answer(certify):
    done, noted = certify("forks")
    assert done.returncode == 0, done.stderr
    assert "forks: exact" in done.stdout
    assert len(noted) == 5
    assert alive(noted) == []


def test_what_a_sampler_started_ends_when_the_time_is_up(certify):
    done, noted = certify("forks_and_loops", "--seconds", "4")
    assert done.returncode == 1, done.stderr
    assert "did not finish within 4 s" in done.stdout
    assert len(noted) == 5
    assert alive(noted) == []


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_what_a_sampler_started_ends_with_the_command(certify, name, status):
    done, noted = certify("forks_and_loops", ended_by=getattr(signal, name), after=5)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == ("spec-decode: interrupted\n" if name == "SIGINT" else "")
    assert len(noted) == 5
    assert alive(noted) == []


def test_what_has_left_the_session_ends_too(certify):
    done, noted = certify("leaves")
    assert done.returncode == 0, done.stderr
    assert len(noted) == 1
    assert alive(noted) == []


def test_there_is_a_limit_on_the_number_of_processes(certify):
    done, noted = certify("crowd", "--seconds", "60")
    assert done.returncode == 1, done.stderr
    assert "ran more than 64 processes at a time" in done.stdout
    assert len(noted) >= 60
    assert alive(noted) == []


def test_a_copy_of_the_program_says_nothing(certify):
    done, _ = certify("copies")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("copies: exact") == 1


RAISING = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class MuteValue(ValueError):
    __str__ = Mute.__str__

def mute(t, q, p, rng): raise Mute
def mute_value(t, q, p, rng): raise MuteValue
def leaves(t, q, p, rng): raise SystemExit(3)
def says(t, q, p, rng): raise SystemExit("good-bye")
def interrupts(t, q, p, rng): raise KeyboardInterrupt
def base(t, q, p, rng): raise BaseException("of its own\\nin two lines")
def stops(t, q, p, rng): raise GeneratorExit
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mute", "mute"),
        ("mute_value", "mute_value"),
        ("leaves", "leaves: not exact"),
        ("says", "says: not exact"),
        ("interrupts", "mine.py:interrupts raised KeyboardInterrupt"),
        ("base", "mine.py:base raised BaseException: of its own in two lines"),
        ("stops", "mine.py:stops raised GeneratorExit"),
    ],
)
def test_whatever_code_raises_is_no_traceback(tmp_path, name, says):
    (tmp_path / "mine.py").write_text(RAISING)
    command = [sys.executable, "-m", "specdecode", "certify", f"mine.py:{name}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert says in done.stdout
    assert "Traceback" not in done.stdout
    if "raised" in says:
        assert done.stdout.count("\n") == 1


WARNING = """
import warnings

import numpy as np

def verifier(draft_tokens, draft_dists, target_dists, rng):
    row = np.zeros(2) / 0.0  # floating point that NumPy would warn of is not spoken of
    for number in range(5):
        warnings.warn(f"number {number}")
    return [rng.choice(len(target_dists[0]), p=target_dists[0])]
"""


def test_what_code_warns_of_is_said_once_in_the_answer(tmp_path):
    (tmp_path / "mine.py").write_text(WARNING)
    command = [sys.executable, "-m", "specdecode", "certify", "mine.py:verifier"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    notes = [line for line in done.stdout.splitlines() if "it warned" in line]
    assert len(notes) == 4
    assert "  note: it warned: UserWarning: number 0 (mine.py, line 9)" in notes
    assert not any("RuntimeWarning" in note for note in notes)
    assert notes[-1] == "  note: it warned of more, 6 kinds in all"
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert [f"  note: {note}" for note in json.loads(done.stdout)["notes"] if "warned" in note] == notes


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "class E(Exception):\n    def __str__(self): raise self\nraise E",
            "cannot be loaded: E: its text cannot be had",
        ),
        ("raise SystemExit('good-bye')", "cannot be loaded: SystemExit: good-bye"),
        ("raise Exception('two\\nlines')", "cannot be loaded: Exception: two lines"),
        ("import asyncio\nraise asyncio.CancelledError", "cannot be loaded: CancelledError"),
    ],
)
def test_a_file_that_raises_is_one_line(tmp_path, source, says):
    (tmp_path / "mine.py").write_text(source)
    command = [sys.executable, "-m", "specdecode", "certify", "mine.py:f"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


def test_an_error_of_ours_is_one_line_too(tmp_path):
    """A program whose outcome cannot even be looked at."""
    (tmp_path / "mine.py").write_text(
        "class Odd:\n"
        "    def __getattr__(self, name): raise MemoryError('odd')\n"
        "    __hash__ = __eq__ = __repr__ = __iter__ = lambda *args: 1 / 0\n"
        "def odd(rng): return Odd()\n"
    )
    command = [sys.executable, "-m", "specdecode", "compare", "mine.py:odd", "mine.py:odd"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert (done.stdout + done.stderr).count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_other_processes_are_left_alone(tmp_path):
    """Neither what the caller runs beside it, nor what runs with the caller's environment."""
    from specdecode.cli.certify import certified
    from specdecode.cli.child import in_child

    (tmp_path / "mine.py").write_text(FORKING)
    name = f"{tmp_path / 'mine.py'}:plain"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        answer = in_child("it", 60.0, certified, name, "verifier", {"seed": 0})
        assert answer["verdict"] == "exact"
        assert alive([sleeper.pid, os.getpid()]) == [sleeper.pid, os.getpid()]
        sleeper.kill()
