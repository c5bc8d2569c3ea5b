"""Make notebooks of the examples, outputs included: ``make notebooks``.

An example is a script in the form of sphinx-gallery: a docstring, and cells that begin with ``# %%`` and
some lines of text. Its cells are run here as Jupyter would run them; what they print and draw becomes their
output.
"""

import base64
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Examples that have a notebook.
NAMES = ("decisions",)


class Cell(NamedTuple):
    """Text, as Markdown, or code."""

    kind: str  # "markdown" or "code"
    source: str


def cells_of(script: str) -> list[Cell]:
    """Cells of a script: text and code in turn."""
    docstring, body = re.fullmatch(r'"""\n(.*?)"""\n(.*)', script, flags=re.DOTALL).groups()
    title, _, text = docstring.split("\n", 2)
    cells = [Cell("markdown", as_markdown(f"# {title}\n{text}"))]
    for part in re.split(r"^# %%\n", body, flags=re.MULTILINE):
        lines = part.splitlines()
        n_text = next(n for n, line in enumerate([*lines, ""]) if not line.startswith("#"))
        if n_text and lines[n_text : n_text + 1] == [""]:  # a comment above code belongs to the code
            cells.append(Cell("markdown", as_markdown("\n".join(line[2:] for line in lines[:n_text]))))
            lines = lines[n_text:]
        if code := "\n".join(lines).strip():
            cells.append(Cell("code", code))
    return cells


def as_markdown(text: str) -> str:
    """Text of an example, whose only markup is code."""
    return text.replace("``", "`").strip()


def outputs_of(cells: list[Cell]) -> Iterator[list[dict[str, Any]]]:
    """Run the code of cells in one namespace, and yield the outputs of each."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        printed, outputs = io.StringIO(), []
        if cell.kind == "code":
            with contextlib.redirect_stdout(printed):
                exec(compile(cell.source, "<cell>", "exec"), namespace)
        if printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines_of(printed.getvalue())})
        for number in pyplot.get_fignums():
            picture = io.BytesIO()
            pyplot.figure(number).savefig(picture, format="png", dpi=72, metadata={"Software": None})
            data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": "<Figure>"}
            outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
        pyplot.close("all")
        yield outputs


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as notebooks keep text."""
    return text.splitlines(keepends=True)


def notebook_of(script: str) -> dict[str, Any]:
    """The notebook of a script, in version 4.5 of the format."""
    cells, made, n_run = cells_of(script), [], 0
    for number, (cell, outputs) in enumerate(zip(cells, outputs_of(cells), strict=True)):
        entry: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
        if cell.kind == "code":
            n_run += 1
            entry |= {"execution_count": n_run, "outputs": outputs}
        made.append(entry | {"source": lines_of(cell.source)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Write the notebooks beside their scripts."""
    for name in sys.argv[1:] or NAMES:
        found = notebook_of((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        (EXAMPLES / f"{name}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
