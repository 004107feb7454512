"""What a script writes to run a training of its own: tables as TOML, documents as tokens."""
import json
import struct


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return json.dumps(value)


def write_toml(path, table):
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in table.items()))


def write_dataset(prefix, documents):
    """Megatron-LM's indexed dataset, u16, one sequence a document."""
    lengths = [len(d) for d in documents]
    offsets, at = [], 0
    for n in lengths:
        offsets.append(at)
        at += 2 * n
    with open(f"{prefix}.bin", "wb") as out:
        for document in documents:
            out.write(struct.pack(f"<{len(document)}H", *document))
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        out.write(struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(offsets)}q", *offsets))
        out.write(struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))
