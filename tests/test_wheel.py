"""The wheel holds all of the package, and runs beside its declared dependencies alone."""

import shutil
import subprocess
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


def pip(*arguments):
    done = subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def build(source, folder):
    """Build the wheel of a source tree, with nothing downloaded, and return where it is."""
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def copy_source(folder):
    """A copy to build in: a build leaves files behind, and packs those an earlier one left."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "specdecode", folder / "specdecode", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def missing(wheel, source):
    """Files of the package that are not in the wheel."""
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "specdecode").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    return wanted - set(ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copy_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build(source, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_every_file_of_the_package(wheel, source):
    assert not missing(wheel, source)
    assert {"specdecode/py.typed", "specdecode/book.mplstyle"} <= set(ZipFile(wheel).namelist())


def test_a_forgotten_package_is_missed(tmp_path):
    source = copy_source(tmp_path)
    text = (source / "pyproject.toml").read_text()
    head, table, rest = text.partition("[tool.setuptools")
    assert table, "no table says which packages there are"
    _, _, rest = rest.partition("\n\n")
    one = '[tool.setuptools]\npackages = ["specdecode"]\n\n'
    (source / "pyproject.toml").write_text(head + one + rest)
    left_out = missing(build(source, tmp_path), source)
    assert "specdecode/adapters/pytorch/__init__.py" in left_out
    assert "specdecode/rule.py" not in left_out


def needed(one):
    """The distributions that one without extras needs, itself left out."""
    found = {}
    for requirement in map(Requirement, one.requires or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            other = distribution(requirement.name)
            found |= {other.name: other, **needed(other)}
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the unpacked wheel and its declared dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    for other in needed(itself(folder)).values():
        for top in {file.parts[0] for file in other.files} - {"..", "__pycache__"}:
            (folder / top).symlink_to(other.locate_file(top))
    return folder


def itself(folder):
    return next(one for one in distributions(path=[str(folder)]) if one.name == "specdecode")


@pytest.fixture
def run(installed):
    """Run code that sees that folder and the standard library."""

    def run(code):
        code = f"import sys; sys.path.append({str(installed)!r})\n{code}"
        return subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)

    return run


def test_nothing_else_is_seen(installed, run):
    assert {"numpy", "rich", "scipy"} <= needed(itself(installed)).keys()
    assert "No module named 'pytest'" in run("import pytest").stderr
    assert str(installed) in run("import specdecode; print(specdecode.__file__)").stdout


@pytest.mark.parametrize(
    ("argv", "says"), [(["--version"], "spec-decode "), (["verify", "--pairs", "10"], "PASS")]
)
def test_the_command_runs(run, argv, says):
    done = run(f"from specdecode.cli import main\nsys.exit(main({argv}))")
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_every_module_imports_but_for_an_extra(installed, run):
    extras = {Requirement(one).name for one in itself(installed).requires}
    done = run(
        "import pkgutil, specdecode\n"
        "for module in pkgutil.walk_packages(specdecode.__path__, 'specdecode.'):\n"
        "    try: module.name.endswith('__main__') or __import__(module.name)\n"
        "    except ImportError as error:\n"
        f"        if error.name not in {extras} and 'pip install' not in str(error):\n"
        "            print(module.name, error)\n"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
