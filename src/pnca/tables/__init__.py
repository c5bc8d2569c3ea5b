"""Tables of people: CSV, TSV, Excel and Parquet files, read with the types that a user expects.

Needs ``pip install 'pnca[files]'``: pandas, pyarrow for Parquet and openpyxl for Excel.
"""

from pnca.tables.examples import LabelledTable, Labels, Roles, read_examples, read_labels
from pnca.tables.files import TableFile, open_table, read_table
from pnca.tables.parts import PartsTable, open_parts
from pnca.tables.values import HOLES
from pnca.tables.writing import write_table

__all__ = [
    "HOLES",
    "LabelledTable",
    "Labels",
    "PartsTable",
    "Roles",
    "TableFile",
    "open_parts",
    "open_table",
    "read_examples",
    "read_labels",
    "read_table",
    "write_table",
]
