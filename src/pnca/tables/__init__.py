"""Tables of people: CSV, TSV, Excel and Parquet files, read with the types that a user expects.

Needs ``pip install 'pnca[files]'``: pandas, pyarrow for Parquet and openpyxl for Excel.
"""

from pnca.tables.examples import (
    LabelledRows,
    LabelledTable,
    Labels,
    Roles,
    match_labels,
    read_examples,
    read_labels,
    read_rows,
)
from pnca.tables.files import TableFile, open_table, read_table
from pnca.tables.values import HOLES
from pnca.tables.writing import write_table

__all__ = [
    "HOLES",
    "LabelledRows",
    "LabelledTable",
    "Labels",
    "Roles",
    "TableFile",
    "match_labels",
    "open_table",
    "read_examples",
    "read_labels",
    "read_rows",
    "read_table",
    "write_table",
]
