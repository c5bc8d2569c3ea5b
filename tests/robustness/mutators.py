"""Damage to the bytes of a file: each function yields (name, damaged bytes)."""


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
