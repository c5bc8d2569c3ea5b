"""Damage to the bytes of a file, as (name, damaged bytes), and forgery of files with a digest."""

import hashlib
import json

import numpy as np

from pnca_studies.experiments.cells import fingerprint


def flips(content, rng, n):
    """One flipped bit each: half of them in the first 200 bytes, where headers are."""
    for number in range(n):
        place = rng.randint(min(len(content), 200) if number % 2 else len(content))
        bit = rng.randint(8)
        yield (
            f"bit {bit} of byte {place}",
            content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :],
        )


def _lengths(content):
    return sorted({0, 1, len(content) // 10, len(content) // 2, len(content) - 5, len(content) - 1})


def truncations(content):
    for length in _lengths(content):
        yield f"first {length} bytes", content[:length]


def zeroed_tails(content):
    for length in _lengths(content):
        yield f"zeros after {length} bytes", content[:length] + bytes(len(content) - length)


def any_damage(content, rng):
    """One damage of any of these kinds."""
    kinds = [list(flips(content, rng, 2)), list(truncations(content)), list(zeroed_tails(content))]
    found = kinds[rng.randint(len(kinds))]
    return found[rng.randint(len(found))]


def forge_cell(path, change, *, with_digests=True):
    """Change the record and the arrays of a cell's file; digests then fit the change, or there are none."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    record = json.loads(str(arrays.pop("record")))
    arrays.pop("digest", None)
    change(record, arrays)
    if with_digests:
        record["arrays"] = {key: fingerprint(values) for key, values in arrays.items()}
    else:
        record.pop("arrays"), record.pop("cell")
    text = json.dumps(record)
    digest = {"digest": np.array(fingerprint(text))} if with_digests else {}
    with path.open("wb") as file:
        np.savez_compressed(file, record=np.array(text), **digest, **arrays)


def forge_run(path, change, *, with_digest=True):
    """Change a ``run.json``; its digest then fits the change, or there is none."""
    run = json.loads(path.read_text(encoding="utf-8"))
    del run["digest"]
    change(run)
    digest = {"digest": hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:12]}
    path.write_text(json.dumps({**run, **(digest if with_digest else {})}), encoding="utf-8")
