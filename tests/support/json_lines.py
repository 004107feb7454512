"""Files of JSON lines that another program appends to meanwhile."""
import json


def whole_lines(path):
    """The lines that end in the file; none where there is no file yet. Who reads while a line is written may see a part of it,
    which may end with a brace, too; and a disk without room leaves parts that end without one."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = data[:data.rfind(b"\n") + 1].decode(errors="replace").splitlines()
    return [line for line in lines if line.endswith("}")]


def json_lines(path):
    """Their objects."""
    return [json.loads(line) for line in whole_lines(path)]
