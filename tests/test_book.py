"""What must be true of the book and nbval cannot see.

nbval runs every cell and compares outputs, but a cell that was never run passes in silence, and so do a
misspelt tag, a warning, a path of somebody's machine and a picture without a caption. Each guard below
takes a notebook and returns what is wrong with it; `DOCTORED` holds, for each, notebooks that it must
refuse.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pybtex.database import BibliographyData, parse_file, parse_string

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
NOTEBOOKS = sorted(p for p in BOOK.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
PAGES = sorted(p for p in BOOK.rglob("*.md") if "_static" not in p.parts)

MAX_CODE_CELLS = 30
MAX_IGNORED_OUTPUTS = 3
KNOWN_TAGS = {
    "nbval-ignore-output",
    "raises-exception",
    *(f"{verb}-{part}" for verb in ("hide", "remove") for part in ("cell", "input", "output")),
}
LABEL_PREFIXES = {
    "theorem": "thm-",
    "lemma": "lem-",
    "definition": "def-",
    "math": "eq-",
    "figure": "fig-",
    "exercise": "ex-",
}
MACHINE_TRACES = {
    "a path of a machine": re.compile(r"/(home|root|tmp|Users)/|[A-Z]:\\+Users|(site|dist)-packages"),
    "a memory address": re.compile(r"\bat 0x[0-9a-fA-F]{6,}"),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d(?!\d)"),
    "a time of day": re.compile(r"\b\d{1,2}:\d\d:\d\d\b"),
}

Notebook = nbformat.NotebookNode
Guard = Callable[[Notebook], list[str]]


# --- reading a notebook -------------------------------------------------------------------------------------


def code_cells(nb: Notebook) -> list[tuple[str, Notebook]]:
    """The code cells, each with the words a complaint begins with."""
    cells = [cell for cell in nb.cells if cell.cell_type == "code"]
    return [(f"code cell {i} ({head(cell.source)!r})", cell) for i, cell in enumerate(cells, start=1)]


def head(source: str) -> str:
    return source.strip().partition("\n")[0][:40]


def tags(cell: Notebook) -> list[str]:
    return cell.metadata.get("tags", [])


def has_picture(cell: Notebook) -> bool:
    return any(mime.startswith("image/") for out in cell.outputs for mime in out.get("data", {}))


def output_texts(cell: Notebook) -> Iterator[str]:
    """Everything a reader or the page's source could show of the outputs, pictures in base64 left out."""
    for out in cell.outputs:
        yield out.get("text", "")
        yield from out.get("traceback", [])
        for mime, data in out.get("data", {}).items():
            if mime.startswith("text/") or mime == "image/svg+xml":
                yield data


def prose(nb: Notebook) -> str:
    """The Markdown of a notebook: its Markdown cells and the captions of its figures."""
    texts = [cell.source for cell in nb.cells if cell.cell_type == "markdown"]
    captions = [cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "") for cell in nb.cells]
    return "\n\n".join([*texts, *captions])


# --- guards of one notebook ---------------------------------------------------------------------------------


def not_executed_in_order(nb: Notebook) -> list[str]:
    return [
        f"{where} has execution count {cell.execution_count}, in a fresh run it would be {i}"
        for i, (where, cell) in enumerate(code_cells(nb), start=1)
        if cell.execution_count != i
    ]


def empty_cells(nb: Notebook) -> list[str]:
    return [f"{where} is empty" for where, cell in code_cells(nb) if not cell.source.strip()]


def stderr_or_error(nb: Notebook) -> list[str]:
    complaints = []
    for where, cell in code_cells(nb):
        failed = any(out.output_type == "error" for out in cell.outputs)
        if any(out.get("name") == "stderr" for out in cell.outputs):
            complaints.append(f"{where} wrote to stderr")
        if failed and "raises-exception" not in tags(cell):
            complaints.append(f"{where} ended in an error; if it is meant to, tag it raises-exception")
        if "raises-exception" in tags(cell) and not failed:
            complaints.append(f"{where} is tagged raises-exception and raised nothing")
    return complaints


def unknown_tags(nb: Notebook) -> list[str]:
    complaints = []
    for where, cell in code_cells(nb):
        complaints += [f"{where} has the unknown tag {tag!r}" for tag in tags(cell) if tag not in KNOWN_TAGS]
        if re.search(r"^\s*#\s*(NBVAL|PYTEST_VALIDATE)_", cell.source, re.MULTILINE | re.IGNORECASE):
            complaints.append(f"{where} steers nbval by a comment; use a tag, where it is counted")
    return complaints


def too_many_ignored_outputs(nb: Notebook) -> list[str]:
    ignored = [where for where, cell in code_cells(nb) if "nbval-ignore-output" in tags(cell)]
    if len(ignored) <= MAX_IGNORED_OUTPUTS:
        return []
    return [f"{len(ignored)} outputs are not compared, at most {MAX_IGNORED_OUTPUTS} may be: {ignored}"]


def too_many_code_cells(nb: Notebook) -> list[str]:
    n = len(code_cells(nb))
    return [f"{n} code cells, at most {MAX_CODE_CELLS} fit in a chapter"] if n > MAX_CODE_CELLS else []


def plots_without_show(nb: Notebook) -> list[str]:
    """A cell that draws must not end in a value; under nbval a trailing semicolon does not silence one."""
    complaints = []
    for where, cell in code_cells(nb):
        if has_picture(cell) and ends_in_value(cell.source):
            complaints.append(f"{where} draws and ends in a value; end it with plt.show()")
        if any(re.search(r"<Axes|<matplotlib\.|\[<mpl", text) for text in output_texts(cell)):
            complaints.append(f"{where} shows a Matplotlib object; end it with plt.show()")
    return complaints


def ends_in_value(source: str) -> bool:
    """Whether the last statement is an expression that is not a call of `show` or `display`."""
    statements = ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE)).body
    if not statements or not isinstance(statements[-1], ast.Expr):
        return False
    value = statements[-1].value
    called = value.func if isinstance(value, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", None)) not in {"show", "display"}


def machine_traces(nb: Notebook) -> list[str]:
    complaints = []
    for where, cell in code_cells(nb):
        for text in output_texts(cell):
            for what, pattern in MACHINE_TRACES.items():
                if found := pattern.search(text):
                    near = text[max(0, found.start() - 20) : found.end() + 20]
                    complaints.append(f"{where} shows {what}: {near!r}")
        if "execution" in cell.metadata:
            complaints.append(f"{where} has the times of its execution in its metadata")
    return complaints


def pictures_without_words(nb: Notebook) -> list[str]:
    complaints = []
    for where, cell in code_cells(nb):
        if not has_picture(cell):
            continue
        mystnb = cell.metadata.get("mystnb", {})
        figure = mystnb.get("figure", {})
        if not mystnb.get("image", {}).get("alt", "").strip():
            complaints.append(f"{where} draws without mystnb.image.alt in its metadata")
        if not figure.get("caption", "").strip():
            complaints.append(f"{where} draws without mystnb.figure.caption in its metadata")
        if not figure.get("name", "").startswith("fig-"):
            complaints.append(f"{where} draws without a mystnb.figure.name that starts with fig-")
    return complaints


def wrong_kernel(nb: Notebook) -> list[str]:
    name = nb.metadata.get("kernelspec", {}).get("name")
    return [] if name == "python3" else [f"the kernel is {name!r}, it must be 'python3'"]


def wrong_labels(nb: Notebook) -> list[str]:
    return wrong_labels_in(prose(nb))


def wrong_labels_in(text: str) -> list[str]:
    """Labels that do not say what they name: thm- lem- def- eq- fig- ex-, each by its directive."""
    any_prefix = tuple(LABEL_PREFIXES.values())
    labels = [("math", label) for label in re.findall(r"^\s*\$\$\s*\(([^)\s]+)\)\s*$", text, re.MULTILINE)]
    for directive in re.finditer(r"^\s*[`:]{3,}\{([\w:-]+)\}.*((?:\n\s*:[\w-]+:.*)*)", text, re.MULTILINE):
        kind = directive[1].removeprefix("prf:")
        labels += [(kind, label) for label in re.findall(r":(?:label|name):\s*(\S+)", directive[2])]
    return [
        f"{label!r}, the label of a {kind!r}, must start with {' or '.join(prefixes)}"
        for kind, label in labels
        if not label.startswith(prefixes := (LABEL_PREFIXES[kind],) if kind in LABEL_PREFIXES else any_prefix)
    ]


GUARDS: list[Guard] = [
    not_executed_in_order,
    empty_cells,
    stderr_or_error,
    unknown_tags,
    too_many_ignored_outputs,
    too_many_code_cells,
    plots_without_show,
    machine_traces,
    pictures_without_words,
    wrong_kernel,
    wrong_labels,
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, guard):
    complaints = guard(nbformat.read(path, as_version=4))
    assert not complaints, "\n".join([path.name, *complaints])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_labels_of_page(path):
    assert not wrong_labels_in(path.read_text(encoding="utf-8"))


# --- the guards are shown to refuse -------------------------------------------------------------------------


def sound_notebook() -> Notebook:
    """A chapter in small that every guard accepts."""
    svg = {"image/svg+xml": "<svg/>", "text/plain": "<Figure size 640x480 with 1 Axes>"}
    figure = {"image": {"alt": "A rising line"}, "figure": {"caption": "It rises.", "name": "fig-rise"}}
    cells = [
        new_markdown_cell(":::{prf:theorem} One\n:label: thm-one\n\n$1 = 1$\n:::\n\n$$\n1\n$$ (eq-one)"),
        new_code_cell("1 + 1", execution_count=1, outputs=[result("2")]),
        new_code_cell(
            "plt.plot([0, 1])\nplt.show()",
            execution_count=2,
            outputs=[new_output("display_data", data=svg)],
            metadata={"mystnb": figure},
        ),
        new_code_cell(
            "1 / 0",
            execution_count=3,
            outputs=[new_output("error", ename="E", evalue="division by zero", traceback=[])],
            metadata={"tags": ["raises-exception"]},
        ),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def result(text: str) -> Notebook:
    return new_output("execute_result", data={"text/plain": text})


def add_code(source="2", n=1, **fields):
    """Append n cells that continue the count."""

    def doctor(nb):
        for _ in range(n):
            count = 1 + sum(cell.cell_type == "code" for cell in nb.cells)
            nb.cells.append(new_code_cell(source, **{"execution_count": count, **fields}))

    return doctor


def set_in(index, **fields):
    return lambda nb: nb.cells[index].update(fields)


def set_metadata(index, **fields):
    return lambda nb: nb.cells[index].metadata.update(fields)


def add_prose(text):
    return lambda nb: nb.cells.append(new_markdown_cell(text))


FIGURE = {"image": {"alt": "A line"}, "figure": {"caption": "A line.", "name": "fig-line"}}

DOCTORED = [
    (not_executed_in_order, set_in(1, execution_count=None), "execution count None"),
    (not_executed_in_order, set_in(1, execution_count=7), "in a fresh run it would be 1"),
    (empty_cells, add_code(" \n"), "is empty"),
    (stderr_or_error, add_code(outputs=[new_output("stream", name="stderr", text="w")]), "stderr"),
    (stderr_or_error, set_metadata(3, tags=[]), "ended in an error"),
    (stderr_or_error, set_in(3, outputs=[]), "raised nothing"),
    (unknown_tags, set_metadata(1, tags=["nbval-ignore-outputs"]), "'nbval-ignore-outputs'"),
    (unknown_tags, set_metadata(1, tags=["nbval-skip"]), "'nbval-skip'"),
    (unknown_tags, add_code("# NBVAL_SKIP\n2"), "by a comment"),
    (too_many_ignored_outputs, add_code(n=4, metadata={"tags": ["nbval-ignore-output"]}), "4 outputs"),
    (too_many_code_cells, add_code(n=MAX_CODE_CELLS), "33 code cells"),
    (plots_without_show, set_in(2, source="plt.plot([0, 1])"), "ends in a value"),
    (plots_without_show, set_in(2, source="plt.plot([0, 1]);"), "ends in a value"),
    (plots_without_show, set_in(2, source="%matplotlib inline\nax"), "ends in a value"),
    (plots_without_show, add_code(outputs=[result("<Axes: xlabel='k'>")]), "Matplotlib object"),
    (machine_traces, add_code(outputs=[result("'/home/me/x'")]), "a path of a machine"),
    (machine_traces, add_code(outputs=[result("'/root/x'")]), "a path of a machine"),
    (machine_traces, add_code(outputs=[result("PosixPath('/tmp/x')")]), "a path of a machine"),
    (machine_traces, add_code(outputs=[result(r"'C:\\Users\\me'")]), "a path of a machine"),
    (machine_traces, add_code(outputs=[new_output("stream", text="site-packages/x.py")]), "a path"),
    (machine_traces, add_code(outputs=[result("<object at 0x7f0123456789>")]), "a memory address"),
    (
        machine_traces,
        add_code(outputs=[new_output("display_data", data={"image/svg+xml": "<svg>2025-01-31T12:00</svg>"})]),
        "a date",
    ),
    (machine_traces, add_code(outputs=[result("'12:34:56'")]), "a time of day"),
    (machine_traces, set_metadata(1, execution={"iopub.execute_input": "now"}), "times of its execution"),
    (pictures_without_words, set_metadata(2, mystnb={**FIGURE, "image": {}}), "mystnb.image.alt"),
    (pictures_without_words, set_metadata(2, mystnb={"image": FIGURE["image"]}), "mystnb.figure.caption"),
    (
        pictures_without_words,
        set_metadata(2, mystnb={**FIGURE, "figure": {"caption": "A line.", "name": "line"}}),
        "starts with fig-",
    ),
    (pictures_without_words, set_in(2, metadata=nbformat.from_dict({})), "mystnb.image.alt"),
    (wrong_kernel, lambda nb: nb.metadata.kernelspec.update(name="my-venv"), "'my-venv'"),
    (wrong_kernel, lambda nb: nb.metadata.pop("kernelspec"), "None"),
    (wrong_labels, add_prose(":::{prf:theorem} Two\n:label: two\n:::"), "'two', the label of a 'theorem'"),
    (
        wrong_labels,
        add_prose(":::{prf:lemma}\n:class: x\n:label: thm-two\n:::"),
        "'thm-two', the label of a 'lemma'",
    ),
    (wrong_labels, add_prose("```{math}\n:label: two\n2\n```"), "'two', the label of a 'math'"),
    (wrong_labels, add_prose("$$\n2\n$$ (two)"), "'two', the label of a 'math'"),
    (wrong_labels, add_prose(":::{prf:remark}\n:label: rem-two\n:::"), "'rem-two', the label of a 'remark'"),
    (wrong_labels, add_prose(":::{exercise}\n:label: two\n:::"), "'two', the label of a 'exercise'"),
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_sound_notebook_is_accepted(guard):
    assert guard(sound_notebook()) == []


@pytest.mark.parametrize(("guard", "doctor", "complaint"), DOCTORED, ids=lambda x: getattr(x, "__name__", ""))
def test_doctored_notebook_is_refused(guard, doctor, complaint):
    nb = sound_notebook()
    doctor(nb)
    complaints = guard(nb)
    assert any(complaint in said for said in complaints), f"{guard.__name__} said {complaints}"


def test_every_guard_is_shown_to_refuse():
    assert {guard for guard, _, _ in DOCTORED} == set(GUARDS)


# --- the table of contents ----------------------------------------------------------------------------------


def toc_entries(node) -> list[str]:
    """The files a table of contents names, in reading order."""
    if isinstance(node, list):
        return [entry for child in node for entry in toc_entries(child)]
    if isinstance(node, dict):
        own = [node[key] for key in ("root", "file") if key in node]
        return own + [entry for child in node.values() for entry in toc_entries(child)]
    return []


def wrong_toc(toc: dict, sources: list[str]) -> list[str]:
    """Compare a table of contents with the sources that exist, both without suffixes."""
    entries = toc_entries(toc)
    return [
        *(
            f"{entry} is in the table of contents and not in the book"
            for entry in entries
            if entry not in sources
        ),
        *(
            f"{source} is in the book and not in the table of contents"
            for source in sources
            if source not in entries
        ),
        *(f"{entry} is in the table of contents twice" for entry in set(entries) if entries.count(entry) > 1),
    ]


def test_toc():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    sources = [path.relative_to(ROOT).with_suffix("").as_posix() for path in NOTEBOOKS + PAGES]
    assert not (complaints := wrong_toc(toc, sources)), "\n".join(complaints)


def test_wrong_toc_is_refused():
    toc = {"root": "intro", "parts": [{"chapters": [{"file": "one", "sections": [{"file": "two"}]}]}]}
    assert wrong_toc(toc, ["intro", "one", "two"]) == []
    assert wrong_toc(toc, ["intro", "one"]) == ["two is in the table of contents and not in the book"]
    assert wrong_toc(toc, ["intro", "one", "two", "x"]) == [
        "x is in the book and not in the table of contents"
    ]
    twice = {**toc, "chapters": [{"file": "one"}]}
    assert wrong_toc(twice, ["intro", "one", "two"]) == ["one is in the table of contents twice"]


# --- sources ------------------------------------------------------------------------------------------------


def wrong_bibliography(bib: BibliographyData) -> list[str]:
    keys = list(bib.entries)
    return [
        *(f"{b} comes before {a} in the alphabet" for a, b in pairwise(keys) if a.lower() > b.lower()),
        *(
            f"{key} has neither DOI nor URL"
            for key in keys
            if not {"doi", "url"} & set(bib.entries[key].fields)
        ),
    ]


def cited_keys(text: str) -> set[str]:
    roles = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text)
    return {key.strip() for role in roles for key in role.split(",")}


def test_bibliography():
    assert not (complaints := wrong_bibliography(parse_file(BOOK / "references.bib"))), "\n".join(complaints)


def test_wrong_bibliography_is_refused():
    entry = "@misc{{{}, title = {{T}}, {}}}\n"
    b, a = entry.format("b2", "doi = {10.1/x}"), entry.format("a1", "url = {https://x.org}")
    assert wrong_bibliography(parse_string(a + b, "bibtex")) == []
    assert wrong_bibliography(parse_string(b + a, "bibtex")) == ["a1 comes before b2 in the alphabet"]
    bare = parse_string(entry.format("c3", "year = {2020}"), "bibtex")
    assert wrong_bibliography(bare) == ["c3 has neither DOI nor URL"]


@pytest.mark.parametrize("path", NOTEBOOKS + PAGES, ids=lambda path: path.stem)
def test_citations_exist(path):
    is_notebook = path.suffix == ".ipynb"
    text = prose(nbformat.read(path, as_version=4)) if is_notebook else path.read_text(encoding="utf-8")
    unknown = cited_keys(text) - set(parse_file(BOOK / "references.bib").entries)
    assert not unknown, f"{path.name} cites {sorted(unknown)}, which references.bib does not have"


def test_citations_are_found():
    assert cited_keys("{cite:t}`a1` and {cite:p}`b2, c3` and {cite}`d4`, not `e5`") == {
        "a1",
        "b2",
        "c3",
        "d4",
    }
    nb = sound_notebook()
    nb.cells[2].metadata.mystnb.figure.caption = "After {cite:t}`f6`."
    assert cited_keys(prose(nb)) == {"f6"}


# --- nbval as the book sets it up ---------------------------------------------------------------------------


def test_nbval_compares_text_and_not_pictures(tmp_path):
    """book/conftest.py leaves SVG out and nothing else; nbval runs in a process of its own."""
    pytest.importorskip("nbval")
    draw = "from IPython.display import SVG, display\ndisplay(SVG('<svg>new</svg>'))"
    drawn = new_output(
        "display_data",
        data={"image/svg+xml": "<svg>old</svg>", "text/plain": "<IPython.core.display.SVG object>"},
    )
    cells = [
        new_code_cell(draw, execution_count=1, outputs=[drawn]),
        new_code_cell("1 + 1", execution_count=2, outputs=[result("3")]),
    ]
    no_such_kernel = {"kernelspec": {"name": "no-such-kernel", "display_name": "none"}}
    nbformat.write(new_notebook(cells=cells, metadata=no_such_kernel), tmp_path / "doctored.ipynb")
    (tmp_path / "conftest.py").write_text((BOOK / "conftest.py").read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", "--color=no", "-rA"]
    ran = subprocess.run(
        [*command, "doctored.ipynb"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout
    assert re.search(r"PASSED .*Cell 0", ran.stdout), ran.stdout
    assert re.search(r"FAILED .*Cell 1", ran.stdout), ran.stdout
