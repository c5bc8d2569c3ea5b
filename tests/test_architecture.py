"""The repository keeps its shape: imports point downwards, and what should be light is light."""

import ast
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import pnca

SOURCE = Path(pnca.__file__).parent

# A package may import those of lower levels, never of its own level or above (except itself).
LEVELS = {
    "exceptions": 0,
    "files": 1,
    "maths": 2,
    "accelerated": 3,
    "training": 4,
    "networks": 4,
    "estimators": 5,
    "calibration": 6,
    "rivals": 7,
    "data": 7,
    "vision": 7,
    "evaluation": 7,
    "experiments": 8,
    "reports": 9,
    "interfaces": 10,
}


def imported_packages(path):
    """The parts of pnca that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "pnca" and len(parts) > 1 and parts[1] in LEVELS:
                yield parts[1]


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*/**/*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports__point_downwards_only(path):
    own = path.relative_to(SOURCE).parts[0]
    assert own in LEVELS, f"{own} has no level yet: add it to LEVELS and to docs/design.md"
    for other in imported_packages(path):
        assert other == own or LEVELS[other] < LEVELS[own], f"{path.name} of {own} imports {other}"


def test_imports__a_wrong_one_would_be_seen(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from pnca.interfaces import cli\n    from pnca import reports\n")
    assert list(imported_packages(bad)) == ["interfaces", "reports"]


def loaded_by(statement):
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_import__of_the_package_loads_neither_torch_nor_scikit_learn():
    assert not {"torch", "sklearn", "scipy"} & loaded_by("import pnca")


def test_import__of_the_command_line_loads_neither_torch_nor_matplotlib():
    assert not {"torch", "sklearn", "matplotlib"} & loaded_by("import pnca.interfaces.cli")


def test_import__of_the_models_loads_no_optional_dependency():
    optional = {"matplotlib", "PIL", "rich", "typer"}  # scikit-learn itself loads pandas where it is there
    assert not optional & loaded_by("from pnca import PNCAClassifier, BNNClassifier")


def test_public_names__all_exist():
    for name in pnca.__all__:
        assert getattr(pnca, name).__name__ == name
    assert set(pnca.__all__) <= set(dir(pnca))
    with pytest.raises(AttributeError, match="no attribute 'PCNAClassifier'"):
        pnca.PCNAClassifier  # noqa: B018


def test_version__is_that_of_the_package_metadata():
    try:
        installed = version("pnca")
    except PackageNotFoundError:
        pytest.skip("pnca runs from src/ here and is not installed")
    assert pnca.__version__ == installed
