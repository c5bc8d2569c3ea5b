"""What is written to disk, and how: all of it or nothing."""

from pnca.persistence.files import prepare_folder, write_atomically, write_json

__all__ = ["prepare_folder", "write_atomically", "write_json"]
