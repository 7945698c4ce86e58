"""The command line on good and on bad input."""

import json
import os
import subprocess
import sys

import pytest

from specdecode import __version__, cli, generate_speculative, proof, verifiers
from specdecode.certify import worlds


@pytest.fixture
def spec_decode(capsys):
    """Run a command line in this process; returns (exit status, stdout, stderr)."""

    def run(*argv):
        try:
            status = cli.main(list(argv))
        except SystemExit as leaving:  # how argparse ends
            status = leaving.code
        done = capsys.readouterr()
        return status, done.out, done.err

    return run


def test_run_prints_the_figures_of_the_first_implementation(spec_decode):
    status, out, _ = spec_decode("run", "--agreement", "0.8", "--k", "4", "--tokens", "5000")
    assert status == 0
    for figure in ("5000", "1302", "0.710", "0.870  0.870  0.856  0.872", "3.840", "2.74×", "draft cost 0.1"):
        assert figure in out, figure


def test_run_json(spec_decode):
    status, out, _ = spec_decode("run", "--json")
    report = json.loads(out)
    assert status == 0
    assert report["specdecode"] == __version__
    assert (report["target_passes"], report["draft_passes"], report["tokens"]) == (1302, 5208, 5000)
    assert report["settings"] == {
        "agreement": 0.8,
        "draft_cost": 0.1,
        "draft_seed": 2,
        "k": 4,
        "seed": 0,
        "target_seed": 1,
        "temperature": 1,
        "tokens": 5000,
        "vocab_size": 32,
        "verifier": "token",
        "exact": True,
        "top_k": 0,
        "top_p": 1,
        "min_p": 0,
    }
    assert len(report["acceptance_by_position"]) == 4


def test_seeds_and_settings_matter(spec_decode):
    def passes(*argv):
        return json.loads(spec_decode("run", "--json", "--tokens", "500", *argv)[1])["target_passes"]

    assert passes() == passes("--seed", "0") != passes("--seed", "1")
    assert passes("--target-seed", "3") != passes()
    assert passes("--agreement", "1") == 100
    assert passes("--temperature", "0", "--agreement", "1") == 100


def test_rules_and_settings_are_run(spec_decode):
    argv = ["run", "--verifier", "block", "--temperature", "0.8", "--top-p", "0.9", "--k", "auto", "--json"]
    report = json.loads(spec_decode(*argv)[1])
    assert report["settings"]["verifier"] == "block"
    assert report["settings"]["top_p"] == 0.9
    assert report["tokens"] == 5000
    assert len(report["acceptance_by_position"]) > 4, "a good draft lets the policy grow"

    def passes(*argv):
        return json.loads(spec_decode("run", "--json", "--agreement", "0.5", *argv)[1])["target_passes"]

    assert passes("--verifier", "block") < passes()
    assert passes("--top-k", "1") != passes("--min-p", "0.5") != passes()


def test_a_lossy_rule_is_labelled(spec_decode):
    assert "not the target's law" in spec_decode("run", "--verifier", "lenient", "--tokens", "100")[1]
    report = json.loads(spec_decode("run", "--verifier", "mixture", "--tokens", "100", "--json")[1])
    assert report["settings"]["exact"] is False
    assert "not the target's law" not in spec_decode("run", "--verifier", "block", "--tokens", "100")[1]


def test_nothing_asked_is_no_crash(spec_decode):
    status, out, _ = spec_decode("run", "--tokens", "0")
    assert status == 0
    assert "–" in out
    assert json.loads(spec_decode("run", "--tokens", "0", "--json")[1])["tokens_per_step"] is None


def test_verify_passes_and_says_what_it_is_about(spec_decode):
    status, out, _ = spec_decode("verify", "--pairs", "600")
    assert status == 0
    assert "PASS" in out
    assert "about one token" in out
    assert "28 worlds" in out


@pytest.fixture
def few_worlds(monkeypatch):
    """The generator on six worlds instead of all, to be quick."""
    six = worlds.generator_worlds()[:6]
    monkeypatch.setattr(proof, "generator_worlds", lambda: six)


def test_verify_json(spec_decode, few_worlds):
    report = json.loads(spec_decode("verify", "--pairs", "600", "--json")[1])
    assert report["verdict"] == "PASS"
    assert report["total_variation"] <= report["tolerance"] == 1e-12
    assert len(report["worlds"]) == 6
    assert all(world["equal"] for world in report["worlds"])


def test_verify_fails_on_a_wrong_generator(spec_decode, few_worlds, monkeypatch):
    def greedily(*args, **kwargs):
        return generate_speculative(*args, **kwargs, verifier=verifiers.greedy)

    wrong = lambda **kwargs: proof.verify_generator(**kwargs, generate=greedily)  # noqa: E731
    monkeypatch.setattr(cli, "verify_generator", wrong)
    status, out, _ = spec_decode("verify", "--pairs", "60")
    assert status == 1
    assert "not equal: dense, k = 1" in out
    assert "FAIL" in out


@pytest.mark.parametrize("wrong", [lambda p, q: q, lambda p, q: p * float("nan")])
def test_verify_fails_on_a_wrong_rule(spec_decode, few_worlds, monkeypatch, wrong):
    broken = lambda *args, **kwargs: proof.verify_identity(*args, **kwargs | {"induced": wrong})  # noqa: E731
    monkeypatch.setattr(cli, "verify_identity", broken)
    status, out, _ = spec_decode("verify", "--pairs", "60")
    assert status == 1
    assert "FAIL" in out
    assert "PASS" not in out
    status, out, _ = spec_decode("verify", "--pairs", "60", "--json")
    assert status == 1
    assert json.loads(out)["verdict"] == "FAIL"


def test_sweep_prints_a_table_and_saves_the_figure(spec_decode, tmp_path):
    figure = tmp_path / "sweep.svg"
    argv = ["sweep", "--k", "3", "--tokens", "300", "--agreements", "0.5", "0.9", "--save", str(figure)]
    status, out, _ = spec_decode(*argv)
    assert status == 0
    assert out.count("←") == 3, "one best k an agreement, and the key"
    assert "<svg" in figure.read_text()
    first = figure.read_bytes()
    spec_decode(*argv)
    assert figure.read_bytes() == first, "the same figure is the same file"

    cells = json.loads(spec_decode("sweep", "--k", "2", "--tokens", "300", "--json")[1])["cells"]
    assert {cell["k"] for cell in cells} == {1, 2}
    for cell in cells:
        assert cell["tokens_per_step"] == pytest.approx(cell["expected_tokens_per_step"], rel=0.25)


BAD = [
    (["run", "--verifier", "greedy"], "want --temperature 0 with it"),
    (["run", "--verifier", "none"], "invalid choice"),
    (["run", "--temperature", "0", "--top-p", "0.9"], "has nothing to do"),
    (["run", "--top-p", "0"], "top_p is 0.0; want a number above 0"),
    (["run", "--k", "sometimes"], "want a whole number from 1 to 1000"),
    ([], "COMMAND"),
    (["nonsense"], "invalid choice: 'nonsense'"),
    (["run", "--nonsense"], "--nonsense"),
    (["run", "--k", "0"], "'0'; want a whole number from 1 to 1000"),
    (["run", "--k", "two"], "'two'; want a whole number"),
    (["run", "--tokens", "-1"], "want a whole number from 0 to"),
    (["run", "--agreement", "1.5"], "'1.5'; want a number from 0 to 1"),
    (["run", "--agreement", "nan"], "want a number from 0 to 1"),
    (["run", "--draft-cost", "-1"], "want a finite number, 0 or more"),
    (["run", "--draft-cost", "inf"], "want a finite number"),
    (["run", "--temperature", "-0.5"], "want a finite number, 0 or more"),
    (["run", "--seed", "-1"], "want a whole number from 0 to"),
    (["run", "--prompt", "hello"], "--prompt does not go with --model toy"),
    (["run", "--model", "smollm2"], '--prompt "…"'),
    (["run", "--model", "smollm2", "--prompt", ""], "at least one character"),
    (["run", "--model", "smollm2", "--prompt", "a", "--agreement", "0.5"], "--agreement does not go with"),
    (["run", "--model", "smollm2", "--prompt", "a", "--model-path", "/nowhere.gguf"], "/nowhere.gguf"),
    (["run", "--model", "gpt"], "invalid choice: 'gpt'"),
    (["verify", "--pairs", "0"], "want a whole number from 1 to 1000000"),
    (["run", "--vocab-size", "100000"], "want a whole number from 1 to 4096"),
    (["run", "--k", "10000000000000000000000"], "want a whole number from 1 to 1000"),
    (["sweep", "--save", ""], "names no picture format"),
    (["sweep", "--save", "figure.xyz"], "want a name ending in .svg, .png or .pdf"),
    (["sweep", "--save", "/nowhere/figure.svg"], "want a file in a folder that exists and is yours"),
    (["sweep", "--agreements", "2"], "want a number from 0 to 1"),
]


@pytest.mark.parametrize(
    ("argv", "says"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input_is_one_line_and_status_2(spec_decode, argv, says):
    status, out, err = spec_decode(*argv)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("spec-decode: ")
    assert says in err


SAMPLERS = """
import numpy as np

def right(t, q, p, rng):
    for i, x in enumerate(t):
        if not rng.random() < p[i][x] / q[i][x]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*t[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*t, rng.choice(len(p[-1]), p=p[-1])]

def wrong(t, q, p, rng):
    return [int(np.argmax(row)) for row in p]

def hidden(t, q, p, rng, own=np.random.default_rng(0)):
    print("this must not mix with the answer")
    return right(t, q, p, own)

def loops(t, q, p, rng):
    while True:
        pass

def quits(t, q, p, rng):
    import os
    os._exit(0)

def generate(target, draft, prefix, n_tokens, k, rng):
    text = list(prefix)
    while len(text) < len(prefix) + n_tokens:
        text.append(rng.choice(target.vocab_size, p=target.next_dist(text)))
    return text[len(prefix):]
"""


@pytest.fixture
def certify(tmp_path):
    """Certify a function of a file outside the package, as a user would."""
    (tmp_path / "mine.py").write_text(SAMPLERS)
    (tmp_path / "broken.py").write_text("import nonsense_that_is_not_installed")

    def run(name, *options):
        command = [sys.executable, "-m", "specdecode", "certify", name, *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return run


@pytest.mark.parametrize(
    ("name", "options", "status", "says"),
    [
        ("mine.py:right", [], 0, "right: exact"),
        ("mine:right", [], 0, "right: exact"),
        ("mine.py:wrong", [], 1, "wrong: not exact"),
        ("mine.py:hidden", ["--draws", "500"], 0, "hidden: no difference found"),
        ("mine.py:hidden", ["--draws", "500", "--require", "enumerated"], 1, "hidden: no difference found"),
        ("mine.py:generate", ["--generator"], 0, "stop tokens not tested"),
        ("mine.py:loops", ["--seconds", "3"], 1, "did not finish within 3 s"),
        ("mine.py:quits", [], 1, "ended the process with status 0"),
    ],
)
def test_certify_judges_a_file_outside_the_package(certify, name, options, status, says):
    done = certify(name, *options)
    assert done.returncode == status, done.stderr
    assert says in done.stdout
    assert ("To see it again" in done.stdout) == ("not exact" in says)


def test_certify_json_holds_everything(certify):
    report = json.loads(certify("mine.py:hidden", "--json", "--draws", "500").stdout)
    assert report["verdict"] == "no difference found"
    assert "randomness or state of its own" in report["reason"]
    report = json.loads(certify("mine.py:wrong", "--json").stdout)
    assert report["verdict"] == "not exact"
    assert len(report["source_sha256"]) == 64
    assert report["witness"]["probability"] != report["witness"]["expected"]
    assert {"specdecode", "python", "numpy", "tolerance", "worlds"} <= report.keys()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.py:f", "there is no file 'nowhere.py'"),
        ("mine.py:nothing", "mine.py has no 'nothing'; it has generate, hidden, loops, quits, right, wrong"),
        ("mine.py", "want FILE.py:FUNCTION or package.module:function"),
        ("broken.py:f", "cannot be loaded: ModuleNotFoundError"),
        ("no_such_module:f", "cannot be loaded: ModuleNotFoundError"),
        ("mine.py:generate", "does not take 4 arguments"),
        ("mine.py:np", "is not callable"),
    ],
)
def test_what_cannot_be_certified_is_one_line_and_status_2(certify, name, says):
    done = certify(name)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


PROGRAMS = """
import numpy as np

def plain(rng):
    return tuple(int(x) for x in rng.choice(3, size=2, p=[0.5, 0.25, 0.25]))

def other(rng):
    print("this must not mix with the answer")
    return tuple(int(u >= 0.5) + int(u >= 0.75) for u in rng.random(2))

def wrong(rng):
    u = rng.random()  # one uniform for both
    return (int(u >= 0.5) + int(u >= 0.75),) * 2

def normal(rng):
    return plain(np.random.default_rng(int(abs(rng.normal()) * 2**40)))

def loops(rng):
    while True:
        pass

def two(a, b):
    pass
"""
TORCH_PROGRAMS = """
import torch

def plain():
    return torch.multinomial(torch.tensor([0.5, 0.25, 0.25]), 2, replacement=True)

def race():
    return (torch.tensor([0.5, 0.25, 0.25]) / torch.empty(2, 3).exponential_()).argmax(dim=-1)

def verifier(t, q, p):
    at = torch.arange(len(t))
    n = int((torch.rand(len(t)) < p[at, t] / q[at, t]).cumprod(0).sum())
    row = p[n] if n == len(t) else torch.relu(p[n] - q[n])
    return torch.cat([t[:n], torch.multinomial(row, 1)])
"""


@pytest.fixture
def compare(tmp_path):
    """Compare two programs of files outside the package, as a user would."""
    (tmp_path / "mine.py").write_text(PROGRAMS)
    (tmp_path / "torches.py").write_text(TORCH_PROGRAMS)
    (tmp_path / "without.py").write_text("import sys\nsys.modules['torch'] = None\ndef f(): pass")

    def run(*argv, command="compare"):
        argv = [sys.executable, "-m", "specdecode", command, *argv]
        return subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)

    return run


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["mine.py:plain", "mine.py:other"], 0, "plain and other: equal\n  enumerated: 9 and 9 paths"),
        (["mine.py:plain", "mine.py:wrong"], 1, "differs most at (0, 0): 0.25 against 0.5"),
        (["mine.py:plain", "mine.py:normal", "--draws", "500"], 0, "no difference found"),
        (["mine.py:plain", "mine.py:normal", "--draws", "500", "--require", "enumerated"], 1, "rng.normal"),
        (["mine.py:plain", "mine.py:wrong", "--max-paths", "2"], 1, "more than 2 paths"),
        (["mine.py:plain", "mine.py:loops", "--seconds", "3"], 1, "did not finish within 3 s"),
    ],
)
def test_compare_judges_programs_outside_the_package(compare, argv, status, says):
    done = compare(*argv)
    assert done.returncode == status, done.stderr
    assert says in done.stdout


def test_compare_json_holds_everything(compare):
    report = json.loads(compare("mine.py:plain", "mine.py:other", "--json").stdout)
    assert (report["command"], report["verdict"], report["paths"]) == ("compare", "equal", [9, 9])
    report = json.loads(compare("mine.py:plain", "mine.py:normal", "--json", "--draws", "500").stdout)
    assert report["samples"][0]["draws"] == [500, 500]
    assert {"subjects", "programs", "alpha", "resolution", "reason", "notes"} <= report.keys()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "0 programs; want two"),
        (["mine.py:plain"], "1 programs; want two"),
        (["mine.py:plain", "mine.py:two"], "takes neither an rng nor nothing"),
        (["mine.py:plain", "mine.py:nothing"], "mine.py has no 'nothing'"),
        (["mine.py:plain", "mine.py:other", "--prompt", "a"], "--prompt does not go with two programs"),
        (["mine.py:plain", "mine.py:other", "--base-url", "http://x"], "want one kind"),
        (["--reference-url", "http://x"], "--reference-url without --base-url"),
        (["--base-url", "http://x"], "want --prompt"),
        (["--base-url", "http://x", "--extra", "[]", "--prompt", "a"], "want a JSON object"),
        (
            ["--base-url", "http://x", "--prompt", "a", "--tolerance", "1"],
            "--tolerance does not go with servers",
        ),
        (["without.py:f", "without.py:f"], "pip install 'specdecode[torch]'"),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_status_2(compare, argv, says):
    done = compare(*argv)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


def test_torch_programs_and_verifiers(compare):
    pytest.importorskip("torch", reason="the extra torch is not installed")
    done = compare("torches.py:plain", "torches.py:race")
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout
    done = compare("torches.py:verifier", "--torch", command="certify")
    assert done.returncode == 0, done.stderr
    assert "as_verifier(verifier): exact" in done.stdout
    done = compare("torches.py:verifier", "--torch", "--generator", command="certify")
    assert done.returncode == 2
    assert "--torch is for verifiers" in done.stderr


def test_version_and_help(spec_decode):
    assert spec_decode("--version")[:2] == (0, f"spec-decode {__version__}\n")
    for command in ("verify", "run", "sweep", "certify"):
        status, out, _ = spec_decode(command, "--help")
        assert status == 0
        assert "--seed" in out
        assert "--json" in out


def test_it_runs_as_a_module_and_does_not_mind_a_closed_pipe():
    command = [sys.executable, "-m", "specdecode"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"spec-decode {__version__}\n")
    for command in ("run --tokens 50", "verify --pairs 60", "run --json --tokens 50"):
        shell = f"set -o pipefail; {sys.executable} -m specdecode {command} | true"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_a_terminal_without_unicode_still_gets_its_answer():
    command = [sys.executable, "-m", "specdecode", "run", "--tokens", "50"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert "target passes" in done.stdout


def test_progress_waits_and_stays_off_a_pipe(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_PROGRESS_AFTER", 0)
    assert list(cli._tracked(range(5), 5, "steps")) == list(range(5))
    assert capsys.readouterr().err == ""


def test_more_that_cannot_be_compared(compare, tmp_path):
    """A program that always fails, one that returns no outcome, and two files with one neighbour's name."""
    (tmp_path / "odd.py").write_text(
        "import os\n"
        "def fails(rng): raise NameError('engine')\n"
        "def objects(rng): return {'tokens': [1]}\n"
        "def lists(rng): return [int(rng.random() < 0.5)]\n"
        "def noisy(rng):\n    os.system('echo noise')\n    return [int(rng.random() < 0.5)]\n"
        "def optional(temperature=1.0): return 1\n"
    )
    for pair, says in (
        (["odd.py:fails", "odd.py:fails"], "fails raised NameError: engine, every time"),
        (["odd.py:objects", "odd.py:lists"], "it returned a dict; want token ids"),
    ):
        done = compare(*pair)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert says in done.stderr
    done = compare("odd.py:lists", "odd.py:noisy", "--json")
    assert json.loads(done.stdout)["verdict"] == "equal"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "neighbour.py").write_text(f"WHO = '{name}'")
        (tmp_path / name / f"engine_{name}.py").write_text(
            "from neighbour import WHO\ndef f(rng): return WHO"
        )
    done = compare("a/engine_a.py:f", "b/engine_b.py:f")
    assert done.returncode == 2
    assert "are both the module neighbour; want different names" in done.stderr
