"""The sections of a run's report, and the cells of their tables."""

from pnca_studies.reports.sections import make_sections


def by_name(folder):
    """Sections by the name of their files, with pictures beside the run's files."""
    return {section.name: section for section in make_sections(folder, folder.path)}


def cells_of(table):
    """Cells by row name and heading; a heading that appears twice has its cells in a list."""
    rows = {}
    for name, *cells in table.rows:
        assert len(cells) + 1 == len(table.headings)
        row = rows.setdefault(name, {})
        for heading, cell in zip(table.headings[1:], cells, strict=True):
            row.setdefault(heading, []).append(cell)
    return {name: {h: c[0] if len(c) == 1 else c for h, c in row.items()} for name, row in rows.items()}
