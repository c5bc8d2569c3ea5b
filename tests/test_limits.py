"""Limits of size: what is longer than a reader can hold is divided."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ["src/pnca", "src/pnca_studies", "benchmarks"]

MAX_FILE_LINES = 400
MAX_BODY_LINES = 40
MAX_METHODS = 30

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(root):
    """Path below root and syntax tree of every source file."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def long_files(root):
    for path, _ in parsed(root):
        n = len((root / path).read_text(encoding="utf-8").splitlines())
        if n > MAX_FILE_LINES:
            yield f"{path}: {n} lines"


def body_lines(function):
    """Lines from the first statement after the docstring to the last, blank ones and comments included."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


def long_functions(root):
    for path, tree in parsed(root):
        for node in ast.walk(tree):
            if isinstance(node, Function) and (n := body_lines(node)) > MAX_BODY_LINES:
                yield f"{path}:{node.lineno} {node.name}: {n} lines"


def last_name(base):
    """``B`` of the bases ``B``, ``module.B`` and ``B[T]``; None of anything else."""
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", None)


def methods(tree_class, classes):
    """Names of methods and properties, those of bases in this repository included.

    Fitted attributes, whose names end in an underscore, do not count. Where several classes have the name of
    a base, all of them are taken, which can only count too many.
    """
    names = {
        node.name
        for node in tree_class.body
        if isinstance(node, Function) and (node.name.startswith("__") or not node.name.endswith("_"))
    }
    for base in map(last_name, tree_class.bases):
        for found in classes.get(base, []):
            if found is not tree_class:
                names |= methods(found, classes)
    return names


def large_classes(root):
    nodes = [(path, node) for path, tree in parsed(root) for node in ast.walk(tree)]
    nodes = [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)]
    classes = {}
    for _, node in nodes:
        classes.setdefault(node.name, []).append(node)
    for path, node in nodes:
        if (n := len(methods(node, classes))) > MAX_METHODS:
            yield f"{path}:{node.lineno} {node.name}: {n} methods and properties"


def test_files__have_at_most_400_lines():
    assert list(long_files(ROOT)) == []


def test_functions__have_at_most_40_lines_of_body():
    assert list(long_functions(ROOT)) == []


def test_classes__have_at_most_30_methods_with_their_bases():
    assert list(large_classes(ROOT)) == []


def test_limits__what_exceeds_them_would_be_seen(tmp_path):
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    base = "".join(f"    def a{i}(self): pass\n" for i in range(30))
    more = "".join(f"    def {name}(self): pass\n" for name in ("a0", "b", "fitted_"))
    (tmp_path / "src/pnca/base.py").write_text("class A:\n" + base)
    (tmp_path / "src/pnca/more.py").write_text("import base\nclass B(base.A):\n" + more)
    forty, docstring = "    x = 1\n" * 40, '    """One.\n\n    Two.\n    """\n'
    (tmp_path / "src/pnca_studies/f.py").write_text(
        f"def f():\n{docstring}{forty}async def g():\n{forty}    y = 2\n"
    )
    (tmp_path / "benchmarks/short.py").write_text("\n" * 400)
    (tmp_path / "benchmarks/long.py").write_text("\n" * 401)
    assert list(large_classes(tmp_path)) == ["src/pnca/more.py:2 B: 31 methods and properties"]
    assert list(long_functions(tmp_path)) == ["src/pnca_studies/f.py:46 g: 41 lines"]
    assert list(long_files(tmp_path)) == ["benchmarks/long.py: 401 lines"]
