"""Let Coq read the proofs: `python book/proofs/check.py`.

Lets nothing into programs.v, proofs.v and theorems.v but definitions, statements and their proofs; compiles
them; asks Coq on which axioms each theorem rests (none), and whether it says what is stored in checked.json;
alters the programs one definition at a time and sees the proofs refuse each (alterations.toml). With
--coqchk, Coq's separate checker reads the compiled proofs once more, and all that they rest on (a minute).
With --save the result goes into checked.json, which the book shows.

Exit code 0: proved. 1: not proved, with what and where. 2: it could not be asked.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = ("programs.v", "proofs.v", "theorems.v")
ALTERATIONS = "alterations.toml"
STORED = HERE / "checked.json"
TESTED = ((8, 16), (8, 20))  # the oldest and the newest Coq that have read these files
TIMEOUT = 600  # seconds for one file
INSTALL = (
    "apt-get install --no-install-recommends coq libcoq-mathcomp-ssreflect libcoq-mathcomp-algebra"
    " (Debian 12 or 13)"
)
# What may stand outside a proof. Everything else is refused: axioms, parameters, modules, classes,
# attributes, plugins, other files, and the switches of the kernel.
ALLOWED = re.compile(
    r"From mathcomp Require Import all_ssreflect all_algebra$"
    r"|From SpecDecode Require (Import )?(programs|proofs)$"
    r"|Import (GRing\.Theory|Num\.Theory|Order\.Theory)( (GRing\.Theory|Num\.Theory|Order\.Theory))*$"
    r"|Local Open Scope ring_scope$"
    r"|(Set Implicit Arguments|Unset Strict Implicit|Unset Printing Implicit Defensive)$"
    r"|(Section|End) \w+$"
    r"|(Implicit Types?|Variables?|Hypothes[ie]s|Notation)\b"
    r"|(Definition|Fixpoint|Inductive|Theorem|Lemma|Proof)\b"
)
ONLY_IN = {"Lemma": ("proofs.v",), "Notation": ("programs.v",), "Theorem": ("theorems.v",)}
ASSUMED = re.compile(r"(Variables?|Hypothes[ie]s)\b")  # axioms, if outside a section
NAMED = re.compile(r"\b(?:Lemma|Theorem|Definition|Fixpoint|Inductive)\s+(\w+)")
CLOSED = "Closed under the global context"
# What the kernel computes with itself, and newer libraries load. Print Assumptions says no theorem uses it.
PRIMITIVE = re.compile(r"Coq\.(Numbers\.Cyclic\.Int63\.PrimInt63|Strings\.PrimString|Floats|Array)\.")


class NotProved(Exception):
    """The proofs do not prove the theorems; the message says what and where."""


class CannotAsk(Exception):
    """Coq, or something it should be asked about, is missing or unreadable."""


def run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise NotProved(f"{' '.join(command[:1] + command[-1:])} took more than {TIMEOUT} s") from None
    except FileNotFoundError:
        raise CannotAsk(f"no {command[0]} on the path; want {INSTALL}") from None


def coq_version() -> str:
    """The version of the Coq on the path, which has Mathematical Components.

    Raises
    ------
    CannotAsk
        If there is none, or none that has read these files before, or no library; says how to install them.
    """
    if shutil.which("coqc") is None:
        raise CannotAsk(f"no coqc on the path; want Coq with Mathematical Components: {INSTALL}")
    told = run(["coqc", "--print-version"]).stdout
    version = told.split()[0] if told.split() else "unknown"
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    oldest, newest = (".".join(map(str, bound)) for bound in TESTED)
    if not TESTED[0] <= numbers <= TESTED[1]:
        raise CannotAsk(
            f"coqc is version {version}; these files have been read by {oldest} to {newest}; want {INSTALL}"
        )
    with tempfile.TemporaryDirectory() as made:
        Path(made, "library.v").write_text("From mathcomp Require Import all_ssreflect all_algebra.\n")
        if run(["coqc", "-w", "none", "library.v"], Path(made)).returncode:
            raise CannotAsk(f"Coq {version} has no Mathematical Components that it can load; want {INSTALL}")
    return version


# What stands in the files.


def read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotAsk(f"{name}: {error}") from None


def without_comments(text: str) -> str:
    """Coq source with a blank for each comment, which nest, and each string; lines stay where they are."""
    kept, depth = [], 0
    for part in re.split(r'(\(\*|\*\)|"[^"]*")', text):
        if part == "(*":
            depth += 1
        elif part == "*)" and depth:
            depth -= 1
        elif depth or part.startswith('"'):
            kept.append(" " + "\n" * part.count("\n"))
        else:
            kept.append(part)
    return "".join(kept)


def sentences(source: str) -> list[tuple[int, str]]:
    """The sentences of a source without comments: the line each begins in, and its words."""
    found, position = [], 0
    for match in re.finditer(r"\.(?=\s|$)", source):
        sentence = source[position : match.start()]
        begins = position + len(sentence) - len(sentence.lstrip())
        found.append((source.count("\n", 0, begins) + 1, " ".join(sentence.split())))
        position = match.end()
    if rest := source[position:].strip():
        found.append((source.count("\n", 0, position) + 1, f"{' '.join(rest.split())} (no full stop)"))
    return found


def refuse_unproved(name: str, text: str) -> None:
    """Let nothing pass but definitions, statements and finished proofs.

    Raises
    ------
    NotProved
        Names the file, the line, the lemma it is in, and what stands there.

    Examples
    --------
    >>> refuse_unproved("proofs.v", "Lemma hard : False.\\nProof.\\nAdmitted.")
    Traceback (most recent call last):
    ...
    check.NotProved: proofs.v:3, in hard: Admitted
    """
    opened, lemma, proving = 0, "", False
    for line, sentence in sentences(without_comments(text)):
        where = f"{name}:{line}, " + (f"in {lemma}: " if lemma else "")
        words = re.sub(r"^[-+*{}\s]+", "", sentence)
        if proving:
            if words == "Qed":
                proving, lemma = False, ""
            elif re.match(r"[A-Z#]", words) or re.search(r"\b(admit|give_up|abort|abstract)\b", words):
                raise NotProved(f"{where}{words[:100]}")
            continue
        first = words.partition(" ")[0]
        if not ALLOWED.match(words) or name not in ONLY_IN.get(first, (name,)):
            raise NotProved(f"{where}{words[:100]}")
        opened += (first == "Section") - (first == "End")
        if ASSUMED.match(words) and opened < 1:
            raise NotProved(f"{where}outside a section, an axiom: {words[:100]}")
        if named := NAMED.match(words):
            lemma = named[1]
        proving = first == "Proof"
    if proving:
        raise NotProved(f"{name}, in {lemma}: the proof has no end")


def theorems(text: str) -> list[str]:
    """The names of the theorems of theorems.v, in order."""
    return re.findall(r"\bTheorem\s+(\w+)", without_comments(text))


def digests(folder: Path = HERE) -> dict[str, str]:
    """The SHA-256 of each file that a result is about."""
    return {name: hashlib.sha256(read(folder, name).encode()).hexdigest() for name in (*FILES, ALTERATIONS)}


# What Coq says.


def coqc(folder: Path, name: str) -> str:
    """Compile one file of a folder, and return what it printed.

    Raises
    ------
    NotProved
        With Coq's first complaint, its line, and the lemma it is in.
    """
    done = run(["coqc", "-w", "none", "-Q", ".", "SpecDecode", name], folder)
    if done.returncode == 0:
        return done.stdout
    told = done.stderr.strip()
    place = re.search(r'File "\./([\w.]+)", line (\d+)', told)
    complaint = " ".join(told.partition("Error:")[2].split()) or told or "no complaint was printed"
    if not place:
        raise NotProved(f"{name}: {complaint[:300]}")
    number, source = int(place[2]), without_comments(read(folder, place[1]))
    before = [match for match in NAMED.finditer(source) if source.count("\n", 0, match.start()) < number]
    within = f"in {before[-1][1]}: " if before else ""
    raise NotProved(f"{place[1]}:{number}, {within}{complaint[:300]}")


def compile_all(folder: Path) -> None:
    for name in FILES:
        coqc(folder, name)


def ask(folder: Path, questions: list[str]) -> list[str]:
    """Coq's answers to questions about a compiled folder, with the notations of programs.v."""
    imports = (
        "From mathcomp Require Import all_ssreflect all_algebra.\n"
        "From SpecDecode Require Import programs theorems.\nLocal Open Scope ring_scope.\n"
    )
    marked = "".join(f'Eval compute in "mark"%string.\n{question}\n' for question in questions)
    (folder / "asked.v").write_text(f"From Coq Require Import String.\n{imports}{marked}")
    return [
        answer.strip() for answer in re.split(r'\s+= "mark"%string\s+: string', coqc(folder, "asked.v"))[1:]
    ]


def assumptions(folder: Path, names: list[str]) -> dict[str, str]:
    """What each theorem of a compiled folder rests on, as Coq prints it; empty for nothing."""
    answers = ask(folder, [f"Print Assumptions {name}." for name in names])
    if len(answers) != len(names):
        raise NotProved(f"Coq answered {len(answers)} times about the axioms of {len(names)} theorems")
    return {
        name: "" if answer == CLOSED else " ".join(answer.split()) or "nothing was said"
        for name, answer in zip(names, answers)
    }


def statements(folder: Path, names: list[str]) -> dict[str, str]:
    """What each theorem of a compiled folder says, all its hypotheses included, as Coq prints it."""
    answers = ask(folder, [f"Check {name}." for name in names])
    return {name: answer.partition(":")[2].strip() for name, answer in zip(names, answers)}


def refuse_other_statements(folder: Path, names: list[str], stored: dict[str, str]) -> None:
    """Whether the theorems are those that are stored, and say the same.

    Raises
    ------
    NotProved
        Names a theorem that is missing, new, or says something else.
    """
    for name in [*stored, *names]:
        if name not in names:
            raise NotProved(f"theorem {name} is not there any more; if that is meant, store it with --save")
        if name not in stored:
            raise NotProved(f"theorem {name} is new; store what it says with --save")
    questions = {name: f"Check ({name} : {statement})." for name, statement in stored.items()}
    try:
        ask(folder, list(questions.values()))
    except NotProved:  # one by one, to say which
        for name, question in questions.items():
            try:
                ask(folder, [question])
            except NotProved as other:
                raise NotProved(f"theorem {name} does not say what is stored: {other}") from None
        raise


def read_by_coqchk(folder: Path) -> None:
    """Let coqchk read the compiled theorems and everything they rest on.

    Raises
    ------
    NotProved
        If it objects, or finds anything that was not checked, used or not.
    """
    done = run(["coqchk", "-silent", "-o", "-Q", ".", "SpecDecode", "SpecDecode.theorems"], folder)
    summary = done.stdout + done.stderr
    found = dict(re.findall(r"\* ([^:*]+):(.*?)(?=\n\s*\n|\Z)", summary, re.S))
    if done.returncode or "Axioms" not in found or len(found) < 5:
        raise NotProved(f"coqchk: {' '.join(summary.split())[:300]}")
    for what, names in found.items():
        trusted = [name for name in names.split() if name != "<none>" and not PRIMITIVE.match(name)]
        if trusted and what != "Theory":
            raise NotProved(f"coqchk, {what}: {', '.join(trusted)[:300]}")


# Altered programs.


def listed_alterations(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The wrong alterations and the harmless ones.

    Raises
    ------
    CannotAsk
        If the list cannot be read, or has none of a kind.
    """
    try:
        listed = tomllib.loads(read(folder, ALTERATIONS))
        kinds = listed["alteration"], listed["harmless"]
        for one in (*kinds[0], *kinds[1]):
            altered(read(folder, "programs.v"), one)
            one["name"], one["difference"]
        if not all(kinds):
            raise ValueError("want at least one [[alteration]] and one [[harmless]]")
    except KeyError as missing:
        raise CannotAsk(f"{ALTERATIONS}: an entry without {missing}") from None
    except ValueError as error:
        raise CannotAsk(f"{ALTERATIONS}: {error}") from None
    return kinds


def altered(text: str, alteration: dict[str, Any]) -> str:
    """programs.v with one definition altered.

    Raises
    ------
    ValueError
        If the definition does not have the old text exactly once.
    """
    definition, old = alteration["definition"], alteration["coq"]["old"]
    start = re.search(rf"^(?:Definition|Fixpoint) {re.escape(definition)}\b", text, re.MULTILINE)
    if not start:
        raise ValueError(f"programs.v defines no {definition}")
    end = text.index(".\n\n", start.end())
    body = text[start.start() : end]
    if body.count(old) != 1:
        raise ValueError(f"{definition} has {old!r} {body.count(old)} times; want once")
    return text[: start.start()] + body.replace(old, alteration["coq"]["new"]) + text[end:]


def try_alteration(folder: Path, alteration: dict[str, Any]) -> str | None:
    """Where the proofs refuse an alteration; None if they go through.

    Raises
    ------
    NotProved
        If the altered programs are no programs.
    """
    with copied(folder) as trial:
        (trial / "programs.v").write_text(altered(read(folder, "programs.v"), alteration))
        try:
            coqc(trial, "programs.v")
        except NotProved as broken:
            raise NotProved(f"altered by {alteration['name']!r}: {broken}") from None
        try:
            compile_all(trial)
        except NotProved as refused:
            return re.sub(r":\d+, in (\w+).*", r", \1", str(refused), flags=re.S)
    return None


def check_alterations(folder: Path) -> dict[str, str]:
    """Each alteration's name, and where the proofs refuse it.

    Raises
    ------
    NotProved
        If they accept a wrong one, or refuse a harmless one.
    """
    wrong, harmless = listed_alterations(folder)
    with ThreadPoolExecutor(2) as pool:
        refusals, spared = (
            list(pool.map(lambda one: try_alteration(folder, one), kind)) for kind in (wrong, harmless)
        )
    for one, refused in zip(wrong, refusals):
        if refused is None:
            raise NotProved(f"the proofs go through although {one['difference']} ({one['name']!r})")
    for one, refused in zip(harmless, spared):
        if refused is not None:
            raise NotProved(f"{refused} refuses a harmless alteration: {one['difference']}")
    return {one["name"]: str(refused) for one, refused in zip(wrong, refusals)}


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A copy of the three files to work in."""
    with tempfile.TemporaryDirectory() as made:
        for name in FILES:
            Path(made, name).write_text(read(folder, name))
        yield Path(made)


def check(
    folder: Path = HERE,
    *,
    stored: dict[str, Any] | None = None,
    alterations: bool = True,
    coqchk: bool = False,
) -> dict[str, Any]:
    """Check the proofs in a folder.

    Parameters
    ----------
    folder : Path
        Holds the three files, and alterations.toml. Not written to.
    stored : dict[str, Any], optional
        An earlier result; the theorems must be those it names, and say the same.
    alterations : bool
        Whether to see the proofs refuse altered programs, the longest part.
    coqchk : bool
        Whether to let the separate checker read everything, too.

    Returns
    -------
    dict
        "coq": its version; "files": name -> SHA-256; "theorems": name -> what it says, as Coq prints it;
        "alterations": name -> where the proofs refuse it, if asked for.

    Raises
    ------
    NotProved
        Names the file, the line and the lemma, or the axiom.
    CannotAsk
        If Coq is missing, or is another one, or a file cannot be read.
    """
    result: dict[str, Any] = {"coq": coq_version(), "files": digests(folder)}
    if alterations:
        listed_alterations(folder)  # a list that cannot be read is told before the long part
    for name in FILES:
        refuse_unproved(name, read(folder, name))
    names = theorems(read(folder, "theorems.v"))
    if not names:
        raise NotProved("theorems.v has no theorem")
    with copied(folder) as trial:
        compile_all(trial)
        for name, rests_on in assumptions(trial, names).items():
            if rests_on:
                raise NotProved(f"{name} rests on more than logic: {rests_on[:300]}")
        result["theorems"] = statements(trial, names)
        if stored:
            refuse_other_statements(trial, names, stored["theorems"])
        if coqchk:
            read_by_coqchk(trial)
    if alterations:
        result["alterations"] = check_alterations(folder)
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave the alterations out")
    parser.add_argument("--coqchk", action="store_true", help="let coqchk read everything, too")
    parser.add_argument("--save", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the files are")
    asked = parser.parse_args(arguments)
    home = asked.folder.resolve() == HERE
    if asked.save and (asked.quick or not home):
        parser.error(
            "--save stores the whole result, and of this folder; want it without --quick and --folder"
        )
    try:
        stored = {} if asked.save else json.loads(read(HERE, STORED.name))
        found = check(asked.folder, stored=stored, alterations=not asked.quick, coqchk=asked.coqchk)
    except NotProved as broken:
        print(f"not proved: {broken}", file=sys.stderr)
        return 1
    except (CannotAsk, ValueError) as missing:
        print(f"cannot check: {missing}", file=sys.stderr)
        return 2
    print(f"Coq {found['coq']}: {len(found['theorems'])} theorems, no axiom, nothing admitted")
    if asked.coqchk:
        print("coqchk: the same, of everything they rest on")
    if not asked.quick:
        print(f"{len(found['alterations'])} altered programs, each refused")
    if asked.save:
        STORED.write_text(json.dumps(found, indent=2) + "\n")
    elif home and found["files"] != stored["files"]:
        print(f"{STORED.name} is of other files; store this result with --save", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
