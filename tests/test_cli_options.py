"""Options: those that the registers declare, and those that cannot be or do not go together."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from specdecode import cli
from specdecode.certify import certify
from specdecode.certify.worlds import verifier_worlds
from specdecode.drafts import DRAFTS
from specdecode.policies import POLICIES
from specdecode.verifiers import RULES

README = Path(__file__).parents[1] / "README.md"


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


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_runs_as_it_claims(spec_decode, rule):
    argv = ["run", "--verifier", rule.name, "--tokens", "20"]
    if rule.claim == "exact at temperature 0":
        status, out, err = spec_decode(*argv)
        assert (status, out) == (2, "")
        assert "want --temperature 0 with it" in err
        argv += ["--temperature", "0"]
    status, out, _ = spec_decode(*argv, "--json")
    report = json.loads(out)
    assert status == 0
    assert report["tokens"] == 20
    assert report["claim"] == rule.claim
    assert report["settings"]["verifier"] == rule.name
    assert report["settings"]["exact"] == (rule.claim != "lossy")
    status, out, _ = spec_decode(*argv)
    assert status == 0
    assert ("not the target's law" in out) == (rule.claim == "lossy")


def test_the_help_says_which_rules_are_not_exact(spec_decode):
    told = " ".join(spec_decode("run", "--help")[1].split())
    for claim in ("exact at temperature 0", "lossy"):
        names = ", ".join(rule.name for rule in RULES.values() if rule.claim == claim)
        assert f"{claim}: {names}" in told


@pytest.mark.parametrize("rule", ["token", "block", "one_hot", "sampler_match"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_leaves_the_greedy_text_alone(spec_decode, draft, rule):
    """At temperature 0 there is one text, whatever proposes it and however it is verified."""
    argv = ["run", "--temperature", "0", "--tokens", "30", "--draft", draft, "--verifier", rule]
    status, out, _ = spec_decode(*argv, "--json")
    report = json.loads(out)
    assert status == 0
    assert report["draft"] == draft
    assert report["tokens"] == 30
    assert (report["draft_passes"] == 0) == (draft == "ngram")


def test_drafts_differ(spec_decode):
    def passes(*argv):
        return json.loads(spec_decode("run", "--json", "--tokens", "500", *argv)[1])["target_passes"]

    assert passes() == passes("--draft", "model")
    assert len({passes("--draft", draft) for draft in DRAFTS}) == len(DRAFTS)


@pytest.mark.parametrize("policy", [*POLICIES, "auto"])
def test_every_policy_runs(spec_decode, policy):
    status, out, _ = spec_decode("run", "--k", policy, "--tokens", "200", "--json")
    report = json.loads(out)
    assert status == 0
    assert report["settings"]["k"] == policy
    assert report["tokens"] == 200
    if policy == "auto":
        best = json.loads(spec_decode("run", "--k", "best", "--tokens", "200", "--json")[1])
        assert report["acceptance_by_position"] == best["acceptance_by_position"]


def test_json_of_any_depth_is_one_line(spec_decode):
    status, out, err = spec_decode("compare", "--extra", 10**5 * "[")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "want a JSON object" in err


TWO = ["compare", "a.py:f", "b.py:f"]
SERVERS = ["compare", "--base-url", "http://x", "--prompt", "a"]
BAD = [
    (["run", "--k=--"], "argument --k: '--' is no value"),
    (["run", "--model=--"], "argument --model: '--' is no value"),
    (["run", "--tokens", "5", "--top-p=--"], "argument --top-p: '--' is no value"),
    (["sweep", "--save=--"], "argument --save: '--' is no value"),
    (["sweep", "--agreements=--"], "argument --agreements: '--' is no value"),
    (["verify", "--seed=--"], "argument --seed: '--' is no value"),
    (["certify", "--draws=--", "x"], "argument --draws: '--' is no value"),
    (["compare", "--prompt=--"], "argument --prompt: '--' is no value"),
    (["--version=--"], "argument --version: ignored explicit argument '--'"),
    (["--", "--json"], "invalid choice"),
    (["--"], "COMMAND"),
    (["run", "--", "--json"], "unrecognized arguments"),
    (["certify", "--", "--x=--"], "'--x=--' names no function"),
    (["run", "--draft", "none"], "invalid choice: 'none'"),
    (["run", "--k", "worst"], "want a whole number from 1 to 1000, auto, or a policy: fixed,"),
    (["run", "--draft", "ngram", "--agreement", "0.5"], "--agreement does not go with --draft ngram"),
    (["run", "--draft", "ngram", "--draft-cost", "0.5"], "--draft-cost does not go with --draft ngram"),
    (["run", "--model", "smollm2", "--draft", "ngram", "--prompt", "a"], "--draft does not go with"),
    ([*TWO, "--extra", '{"a": 1}'], "--extra does not go with two programs"),
    ([*TWO, "--reference-extra", "{}"], "--reference-extra does not go with two programs"),
    ([*TWO, "--send-seeds"], "--send-seeds does not go with two programs"),
    ([*TWO, "--key-env", "OPENAI_API_KEY"], "--key-env does not go with two programs"),
    ([*TWO, "--model", "m"], "--model does not go with two programs"),
    ([*TWO, "--timeout", "3"], "--timeout does not go with two programs"),
    ([*TWO, "--prompt", "a"], "--prompt does not go with two programs"),
    ([*SERVERS, "--extra", "{"], "want a JSON object"),
    ([*SERVERS, "--max-paths", "3"], "--max-paths does not go with servers"),
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


def test_every_option_for_servers_alone_is_refused_for_programs(spec_decode):
    """None is forgotten: they are read off the help."""
    told = spec_decode("compare", "--help")[1].partition("servers with")[2]
    options = [line.split()[0] for line in told.splitlines() if line.startswith("  --")]
    assert len(options) > 12
    for option in options:
        if option.endswith("-url"):  # naming a server is what makes it a comparison of servers
            continue
        value = {"--send-seeds": [], "--extra": ["{}"], "--reference-extra": ["{}"]}.get(option, ["1"])
        status, out, err = spec_decode(*TWO, option, *value)
        assert (status, out) == (2, "")
        assert f"{option} does not go with two programs" in err


def test_progress_shows_on_a_terminal_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(cli._tracked(range(5), 5, "steps")) == list(range(5))
    assert "steps" not in capsys.readouterr().err
    monkeypatch.setattr(cli, "_PROGRESS_AFTER", 0)
    assert list(cli._tracked(range(5), 5, "steps")) == list(range(5))
    assert "of 5 steps" in capsys.readouterr().err


def test_alone_at_a_terminal_it_shows_what_there_is():
    pty = pytest.importorskip("pty", reason="a terminal of Unix")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "specdecode"]
    done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 2
    assert "usage: spec-decode" in shown
    assert shown.count("  spec-decode ") == 4, "the examples"
    help_ = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert help_.returncode == 0
    assert help_.stdout.count("\n  spec-decode ") == 4


EXAMPLES = {
    "help": lambda spec_decode: textwrap.dedent(
        spec_decode("certify", "--help")[1].partition("an example")[2].partition("\n")[2]
    ),
    "README": lambda spec_decode: README.read_text().partition("```python\n")[2].partition("```")[0],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_verifier_is_exact(spec_decode, name):
    code, space = EXAMPLES[name](spec_decode), {}
    exec(code, space)
    verifier = space.get("verifier") or space["my_verifier"]
    assert code.count("\n") < 13
    assert certify(verifier, worlds=verifier_worlds()[:6]).verdict == "exact"
    wrong = code.replace("p - q", "p")  # and is looked at: without the q it is not
    exec(wrong, space)
    assert (
        certify(space.get("verifier") or space["my_verifier"], worlds=verifier_worlds()[:6]).verdict
        == "not exact"
    )


def test_the_help_says_what_a_function_is_handed(spec_decode):
    told = spec_decode("certify", "--help")[1]
    for words in (
        "verifier(draft_tokens, draft_dists, target_dists, rng) -> emitted",
        "int64 (k,)",
        "float64 (k, V)",
        "float64 (k + 1, V)",
        "generate(target, draft, prefix, n_tokens, k, rng) -> tokens",
        "verifier(draft_tokens, draft_dists, target_dists[, generator]) -> emitted",
    ):
        assert words in told
