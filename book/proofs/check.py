"""Let Coq read the proofs: `python book/proofs/check.py`.

Compiles programs.v, proofs.v and theorems.v, asks Coq on which axioms each theorem rests (none), looks for
statements that would let one in, alters the programs one definition at a time and sees the proofs refuse
each (alterations.toml). With --coqchk, Coq's separate checker reads the compiled proofs once more, and all
that they rest on (a minute). With --save the result goes into checked.json, which the book shows; without,
that must speak of the same files.

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("programs.v", "proofs.v", "theorems.v")
ALTERATIONS = "alterations.toml"
STORED = HERE / "checked.json"
TESTED = ((8, 16), (8, 20))  # the oldest and the newest Coq that have read these files
INSTALL = (
    "apt-get install --no-install-recommends coq libcoq-mathcomp-ssreflect libcoq-mathcomp-algebra"
    " (Debian 12 or 13)"
)
# What Coq accepts without a proof, or without the checks that make a proof one.
UNPROVED = re.compile(
    r"\b(Axioms?|Conjectures?|Parameters?|Admitted|admit|give_up|Declare\s+Module|Module\s+Type"
    r"|Admit\s+Obligations|Unset\s+(?:Guard|Positivity|Universe)\s+Checking|bypass_check|Primitive|Symbol)\b"
)
ASSUMED = re.compile(r"\b(Variables?|Hypothes[ie]s|Context)\b")  # axioms, if outside a section
# What the kernel computes with itself, and newer libraries load. Print Assumptions says no theorem uses it.
PRIMITIVE = re.compile(r"Coq\.(Numbers\.Cyclic\.Int63\.PrimInt63|Strings\.PrimString|Floats|Array)\.")
NAMED = re.compile(r"^\s*(?:Lemma|Theorem|Corollary|Fact|Definition|Fixpoint)\s+(\w+)", re.MULTILINE)


class NotProved(Exception):
    """The proofs do not prove the theorems; the message says what and where."""


class CannotAsk(Exception):
    """No Coq here that these files are known to compile with."""


def coq_version() -> str:
    """The version of the Coq on the path.

    Raises
    ------
    CannotAsk
        If there is none, or none that has read these files before; says how to install one.
    """
    if shutil.which("coqc") is None:
        raise CannotAsk(f"no coqc on the path; want Coq with Mathematical Components: {INSTALL}")
    told = subprocess.run(["coqc", "--print-version"], capture_output=True, text=True).stdout
    version = told.split()[0] if told.split() else "unknown"
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    oldest, newest = (".".join(map(str, bound)) for bound in TESTED)
    if not TESTED[0] <= numbers <= TESTED[1]:
        raise CannotAsk(
            f"coqc is version {version}; these files have been read by {oldest} to {newest}; want {INSTALL}"
        )
    return version


def without_comments(text: str) -> str:
    """Coq source with its comments, which nest, and its strings blanked; lines stay where they are."""
    kept, depth = [], 0
    for part in re.split(r'(\(\*|\*\)|"[^"]*")', text):
        if part == "(*":
            depth += 1
        elif part == "*)" and depth:
            depth -= 1
        elif depth or part.startswith('"'):
            kept.append("\n" * part.count("\n"))
        else:
            kept.append(part)
    return "".join(kept)


def refuse_unproved(name: str, text: str) -> None:
    """Look for what Coq takes on trust.

    Raises
    ------
    NotProved
        Names the file, the line, and the lemma or axiom.

    Examples
    --------
    >>> refuse_unproved("x.v", "Lemma hard : False.\\nProof. Admitted.")
    Traceback (most recent call last):
    ...
    check.NotProved: x.v:2, in hard: Admitted.
    """
    source, opened, number = without_comments(text), [], 1
    for sentence in re.split(r"(?<=\.)(?=\s)", source):
        words = sentence.split()
        if words[:1] in (["Section"], ["Module"]):
            opened.append(words[0])
        elif words[:1] == ["End"] and opened:
            opened.pop()
        found = UNPROVED.search(sentence) or (None if "Section" in opened else ASSUMED.search(sentence))
        if found:
            line = number + sentence[: found.start()].count("\n")
            said = found[0] if found[0][0].islower() else " ".join(sentence[found.start() :].split())
            raise NotProved(f"{name}:{line}, {within(source, line)}{said[:100]}")
        number += sentence.count("\n")


def within(source: str, number: int) -> str:
    """The lemma or definition that a line belongs to, as words to put before a complaint."""
    names = [match[1] for match in NAMED.finditer(source) if source[: match.start(1)].count("\n") < number]
    return f"in {names[-1]}: " if names else ""


def coqc(folder: Path, name: str) -> str:
    """Compile one file of a folder, and return what it printed.

    Raises
    ------
    NotProved, CannotAsk
        With Coq's first complaint, its line, and the lemma it is in.
    """
    done = subprocess.run(
        ["coqc", "-w", "none", "-Q", ".", "SpecDecode", name], cwd=folder, capture_output=True, text=True
    )
    if done.returncode == 0:
        return done.stdout
    told = done.stderr.strip()
    if re.search(r"(Cannot find|Unable to locate|library).*mathcomp|mathcomp.*(prefix|loadpath)", told, re.S):
        raise CannotAsk(f"Coq has no Mathematical Components; want {INSTALL}")
    place = re.search(r'File "\./([\w.]+)", line (\d+)', told)
    complaint = " ".join(told.partition("Error:")[2].split()) or told or "no complaint was printed"
    if not place:
        raise NotProved(f"{name}: {complaint[:300]}")
    number = int(place[2])
    source = without_comments((folder / place[1]).read_text())
    raise NotProved(f"{place[1]}:{number}, {within(source, number)}{complaint[:300]}")


def compile_all(folder: Path) -> None:
    for name in FILES:
        coqc(folder, name)


def theorems(text: str) -> list[str]:
    """The names of the theorems of theorems.v, in order."""
    return re.findall(r"^Theorem\s+(\w+)", without_comments(text), re.MULTILINE)


def assumptions(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """On which axioms each theorem of a compiled folder rests, as Coq prints them."""
    answers = ask(folder, [f"Print Assumptions {name}." for name in names], r"Closed under|Axioms:")
    if len(answers) != len(names):
        raise NotProved(f"Coq answered {len(answers)} times about the axioms of {len(names)} theorems")
    return {
        name: [] if answer.startswith("Closed") else re.findall(r"^([\w.']+)\s*:", answer, re.MULTILINE)[1:]
        for name, answer in zip(names, answers)
    }


def statements(folder: Path, names: list[str]) -> dict[str, str]:
    """What each theorem of a compiled folder says, all its hypotheses included, as Coq prints it."""
    answers = ask(folder, [f"Check {name}." for name in names], "|".join(rf"{name}\b" for name in names))
    return {name: answer.partition(":")[2].strip() for name, answer in zip(names, answers)}


def ask(folder: Path, questions: list[str], begins: str) -> list[str]:
    """Coq's answers to questions about a compiled folder, each of which begins a line in a known way."""
    imports = (
        "From mathcomp Require Import all_ssreflect all_algebra.\n"
        "From SpecDecode Require Import programs theorems.\nLocal Open Scope ring_scope.\n"
    )
    (folder / "asked.v").write_text(imports + "\n".join(questions) + "\n")
    return re.split(rf"^(?={begins})", coqc(folder, "asked.v"), flags=re.MULTILINE)[1:]


def altered(text: str, alteration: dict) -> str:
    """programs.v with one definition altered.

    Raises
    ------
    ValueError
        If the definition does not have the old text exactly once.
    """
    start = re.search(rf"^(?:Definition|Fixpoint) {alteration['definition']}\b", text, re.MULTILINE)
    if not start:
        raise ValueError(f"programs.v defines no {alteration['definition']}")
    end = re.compile(r"\.\n\n").search(text, start.end()).start()
    body, old = text[start.start() : end], alteration["coq"]["old"]
    if body.count(old) != 1:
        raise ValueError(f"{alteration['definition']} has {old!r} {body.count(old)} times; want once")
    return text[: start.start()] + body.replace(old, alteration["coq"]["new"]) + text[end:]


def try_alteration(folder: Path, alteration: dict) -> str | None:
    """Where the proofs refuse an alteration; None if they go through.

    Raises
    ------
    NotProved
        If the altered programs are no programs.
    """
    with tempfile.TemporaryDirectory() as made:
        trial = Path(made)
        for name in FILES:
            shutil.copy(folder / name, trial)
        (trial / "programs.v").write_text(altered((folder / "programs.v").read_text(), alteration))
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
    listed = tomllib.loads((folder / ALTERATIONS).read_text())
    with ThreadPoolExecutor(2) as pool:
        refusals = list(pool.map(lambda one: try_alteration(folder, one), listed["alteration"]))
        harmless = list(pool.map(lambda one: try_alteration(folder, one), listed["harmless"]))
    for one, refused in zip(listed["alteration"], refusals):
        if refused is None:
            raise NotProved(f"the proofs go through although {one['difference']} ({one['name']!r})")
    for one, refused in zip(listed["harmless"], harmless):
        if refused is not None:
            raise NotProved(f"{refused} refuses a harmless alteration: {one['difference']}")
    return {one["name"]: refused for one, refused in zip(listed["alteration"], refusals)}


def read_by_coqchk(folder: Path) -> None:
    """Let coqchk read the compiled theorems and everything they rest on.

    Raises
    ------
    NotProved
        If it objects, or finds an axiom anywhere in it.
    """
    done = subprocess.run(
        ["coqchk", "-silent", "-o", "-Q", ".", "SpecDecode", "SpecDecode.theorems"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    summary = done.stdout + done.stderr
    found = re.search(r"\* Axioms:(.*?)\n\s*\n?\*", summary, re.S)
    if done.returncode or not found:
        raise NotProved(f"coqchk: {' '.join(summary.split())[:300]}")
    axioms = [name for name in found[1].split() if name != "<none>" and not PRIMITIVE.match(name)]
    if axioms:
        raise NotProved(f"coqchk: {', '.join(axioms)[:300]}")


def check(folder: Path = HERE, *, alterations: bool = True, with_coqchk: bool = False) -> dict:
    """Check the proofs in a folder.

    Parameters
    ----------
    folder : Path
        Holds the three files, and alterations.toml. Not written to.
    alterations : bool
        Whether to see the proofs refuse altered programs, the longest part.
    with_coqchk : bool

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
        If Coq is missing, or is another one.
    """
    result: dict = {"coq": coq_version(), "files": digests(folder)}
    for name in FILES:
        refuse_unproved(name, (folder / name).read_text())
    with tempfile.TemporaryDirectory() as made:
        trial = Path(made)
        for name in FILES:
            shutil.copy(folder / name, trial)
        compile_all(trial)
        names = theorems((trial / "theorems.v").read_text())
        if not names:
            raise NotProved("theorems.v has no theorem")
        for name, axioms in assumptions(trial, names).items():
            if axioms:
                raise NotProved(f"{name} rests on {', '.join(axioms)}")
        result["theorems"] = statements(trial, names)
        if with_coqchk:
            read_by_coqchk(trial)
    if alterations:
        result["alterations"] = check_alterations(folder)
    return result


def digests(folder: Path = HERE) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (*FILES, ALTERATIONS)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave the alterations out")
    parser.add_argument("--coqchk", action="store_true", help="let coqchk read everything, too")
    parser.add_argument("--save", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the three files are")
    asked = parser.parse_args(arguments)
    if asked.save and asked.quick:
        parser.error("--save stores the alterations too; want it without --quick")
    try:
        found = check(asked.folder, alterations=not asked.quick, with_coqchk=asked.coqchk)
    except NotProved as broken:
        print(f"not proved: {broken}", file=sys.stderr)
        return 1
    except (CannotAsk, OSError, ValueError) as missing:
        print(f"cannot check: {missing}", file=sys.stderr)
        return 2
    print(f"Coq {found['coq']}: {len(found['theorems'])} theorems, no axiom, nothing admitted")
    if asked.coqchk:
        print("coqchk: the same, of everything they rest on")
    if not asked.quick:
        print(f"{len(found['alterations'])} altered programs, each refused")
    if asked.save:
        STORED.write_text(json.dumps(found, indent=2) + "\n")
    elif asked.folder == HERE and found["files"] != json.loads(STORED.read_text())["files"]:
        print(f"{STORED.name} speaks of other files; store this result with --save", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
