"""What the command line costs before it does anything: which libraries it imports."""

import json

import pytest

HEAVY = {"numpy", "scipy", "rich", "matplotlib", "sympy", "torch", "transformers", "gguf", "httpx2"}


@pytest.fixture
def imported(run_python):
    """The heavy libraries that a piece of code imports, in a fresh interpreter."""

    def run(code):
        done = run_python(
            f"import json, sys\n{code}\n"
            "print('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
        )
        assert done.returncode == 0, done.stderr
        return HEAVY & set(json.loads(done.stdout.splitlines()[-1]))

    return run


def command(*argv):
    return f"from specdecode import cli\ntry: cli.main({list(argv)!r})\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    "argv", [["--version"], ["--help"], [], ["nonsense"], ["--nonsense"], ["--", "--json"]], ids=" ".join
)
def test_the_line_itself_is_read_without_any_library(imported, argv):
    assert imported(command(*argv)) == set()


@pytest.mark.parametrize("name", ["verify", "run", "sweep", "certify", "compare"])
def test_the_options_of_a_command_are_read_without_scipy(imported, name):
    assert imported(command(name, "--help")) <= {"numpy", "rich"}
    assert imported(command(name, "--seed", "-1")) <= {"numpy", "rich"}


def test_a_command_imports_what_it_needs(imported):
    """The checks above are able to fail."""
    assert imported(command("run", "--tokens", "1", "--json")) >= {"numpy"}


def test_the_package_imports_its_names_when_they_are_asked_for(imported):
    assert imported("import specdecode; specdecode.__version__; specdecode.cli; dir(specdecode)") == set()
    assert imported("from specdecode import random_markov") == {"numpy"}


def test_the_public_names_are_where_they_were(run_python):
    done = run_python(
        "import specdecode\n"
        "from specdecode import *\n"
        "assert set(specdecode.__all__) <= set(dir(specdecode))\n"
        "assert generate_speculative is specdecode.speculative.generate_speculative\n"
        "assert generate_target_only is specdecode.generate_target_only\n"
        "assert random_markov is specdecode.models.random_markov\n"
        "assert draft_from_target is specdecode.draft_from_target\n"
        "assert specdecode.verifiers.token and specdecode.exact.law\n"
        "assert not hasattr(specdecode, 'nonsense') and not hasattr(specdecode, '_nonsense')\n"
    )
    assert done.returncode == 0, done.stderr
