"""How large the classes of the sources are: lines over all files, public functions, data members. The limits are those of
docs/architecture.md, section 2; scripts/check.py holds the sources to them.

The sources are formatted by clang-format, which this reader relies on: a definition outside its class begins and ends in the first
column. Constructors, destructors, assignments and what is deleted or defaulted are no functions here, and constants no data members.
The members of a `struct` are not limited: it is a record, whose fields belong to what it describes.
"""
import bisect
import collections
import os
import re

LINES_MAX = 300  # of the definition and of the functions defined outside it
FUNCTIONS_MAX = 25  # public ones
MEMBERS_MAX = 15  # data members of a class

# Classes over a limit, by file and name: (lines, public functions, data members) that they may have at most. The list only shrinks: a class in it may not
# grow, and one that has come within the limits is taken out.
EXCEPTIONS = {
    # These stay: their many functions are one line each and have one reason to change, what they stand for.
    "base/value/value.h Value": (189, 33, 2),  # a value of JSON or TOML: what asks for, makes and changes each of its types
    "engine/data/jinja/values/jinja_value.h JinjaValue": (175, 33, 6),  # the same of a chat template's language
    "engine/ops/cpu/simd/kernels.h TypedKernels": (50, 27, 0),  # a table: each is a pointer to the function of one instruction set
    "resiliency/beat/heartbeat_page.h HeartbeatPage": (219, 38, 1),  # a page of shared memory: reads or writes each of its words
    # These are still to be taken apart.
    "worker/lead/job_lead.h JobLead": (1452, 6, 56),
}

Size = collections.namedtuple("Size", "lines functions members")
LIMITS = Size(LINES_MAX, FUNCTIONS_MAX, MEMBERS_MAX)
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w\'])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^[ \t]*(?:template\s*<[^;{}]*>\s*)?(class|struct)\s+(?:alignas\([^)]*\)\s*)?(?:\[\[\w+\]\]\s*)?((?:\w+::)*\w+)(?:\s+final)?\s*(?::[^:;{][^;{]*)?\{",
                   re.MULTILINE)
OUTSIDE = re.compile(r"^(?![ \t}#])[^;{}\n=]*?\b(\w+)::(?:~?\w+|operator[^\w\s(]+|operator\(\)|operator \w+)\(", re.MULTILINE)
NO_MEMBER = re.compile(r"(?:using|friend|typedef|static_assert|enum|static|inline static|constexpr|extern)\b")


class Class:
    """One class: where it is defined, its size so far, the files that hold a part of it."""

    def __init__(self, name, file, line):
        self.name, self.place, self.files = name, f"{file}:{line}", {file}
        self.lines = self.functions = self.members = 0

    def key(self):
        """Its name in EXCEPTIONS."""
        return self.place.rpartition(":")[0] + " " + self.name

    def size(self):
        return Size(self.lines, self.functions, self.members)


def code_of(text):
    """`text` with blanks for comments, texts and lines of the preprocessor; lines keep their numbers."""
    return IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def closing(code, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return index
    return len(code)


def without_templates(statement):
    statement = re.sub(r"operator\s*(?:\(\)|[^\w\s(]+)", "operator_of", statement)
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", statement)
        if shorter == statement:
            return statement
        statement = shorter


def is_function(head):
    match = re.search(r"[\w\]]\s*\(|[={]", without_templates(head))
    return bool(match) and match.group(0).endswith("(")


def statements(body):
    """The declarations of a class's body, each with the access that holds where it stands; bodies of functions are left out."""
    access, start, parens, index = None, 0, 0, 0
    while index < len(body):
        character = body[index]
        parens += (character == "(") - (character == ")")
        if parens == 0 and character == ":" and (match := re.search(r"(public|private|protected)\s*$", body[start:index])):
            access, start = match.group(1), index + 1
        elif parens == 0 and character == ";":
            yield access, body[start:index].strip()
            start = index + 1
        elif parens == 0 and character == "{":
            head, end = body[start:index].strip(), closing(body, index)
            initializer = re.search(r"\)[^(]*:[^:]", head) and re.search(r"[\w>]$", body[start:index])
            if is_function(head) and not initializer:
                yield access, head
                start = end + 1
            index = end
        index += 1


def measure_body(one, kind, body):
    for access, statement in statements(body):
        if not statement or NO_MEMBER.match(re.sub(r"^(?:\[\[\w+\]\]\s*)+", "", statement)) and "(" not in statement:
            continue
        if re.match(r"(?:template\s*<[^{]*>\s*)?(?:class|struct|union|enum|using|friend|static_assert|typedef)\b", statement):
            continue
        statement = without_templates(statement)
        if is_function(statement):
            public = (access or ("public" if kind == "struct" else "private")) == "public"
            name = re.search(r"(~?\w+)\s*\(", statement)
            special = name.group(1).lstrip("~") == one.name or re.search(r"=\s*(?:default|delete)\s*$", statement)
            one.functions += public and not special
        elif kind == "class" and not NO_MEMBER.match(statement):
            flat = re.sub(r"\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]", "", re.sub(r"\{[^{}]*\}|\([^()]*\)", "", statement))
            one.members += 1 + flat.count(",")


def definition_end(code, at):
    """Where the function that begins at `at` ends, or None where it is no definition."""
    head = re.compile(r"[;{]").search(code, at)
    if not head or head.group(0) == ";":
        return None
    line_end = code.find("\n", head.start())
    if closing(code, head.start()) < line_end and code[at:line_end].rstrip().endswith("}"):
        return line_end
    match = re.compile(r"^\}", re.MULTILINE).search(code, at)
    return match.end() if match else None


def measure(texts):
    """The classes of `texts` (file -> text), those of one name in different files apart."""
    classes, of_file, of_headers = [], collections.defaultdict(dict), {}
    codes = {file: code_of(text) for file, text in texts.items()}
    for file, code in codes.items():
        breaks = [match.start() for match in re.finditer("\n", code)]
        for match in CLASS.finditer(code):
            end = closing(code, match.end() - 1)
            one = Class(match.group(2).split("::")[-1], file, bisect.bisect(breaks, match.start(2)) + 1)
            one.lines = code.count("\n", match.start(), end) + 1
            measure_body(one, match.group(1), code[match.end():end])
            classes.append(one)
            of_file[file].setdefault(one.name, one)
            if file.endswith(".h"):
                of_headers.setdefault((os.path.dirname(file), one.name), one)
                of_headers.setdefault(one.name, one)
    for file, code in codes.items():
        for match in OUTSIDE.finditer(code):
            name = match.group(1)
            one = of_file[file].get(name) or of_headers.get((os.path.dirname(file), name)) or of_headers.get(name)
            if one and (end := definition_end(code, match.start())):
                one.lines += code.count("\n", match.start(), end) + 1
                one.files.add(file)
    return classes


def over(size, limits):
    """What is above `limits`, in words."""
    units = ("lines", "public functions", "data members")
    return ", ".join(f"{value} {unit} (at most {limit})" for value, limit, unit in zip(size, limits, units) if value > limit)


def findings_of(texts, exceptions):
    """(class, what is wrong and what to do about it) for each class that breaks the rule."""
    found, known = [], set()
    for one in measure(texts):
        allowed = exceptions.get(one.key())
        known.add(one.key())
        if allowed is None:
            if text := over(one.size(), LIMITS):
                found.append((one, f"class {one.name} has {text}; divide it into parts that have one reason to change each"))
        elif text := over(one.size(), Size(*(max(pair) for pair in zip(allowed, LIMITS)))):
            found.append((one, f"class {one.name} has grown to {text}; a class among the EXCEPTIONS of scripts/check_classes.py only shrinks"))
        elif not over(one.size(), LIMITS):
            found.append((one, f"class {one.name} is within the limits; take it out of EXCEPTIONS in scripts/check_classes.py"))
    for key in sorted(set(exceptions) - known):
        found.append((Class(key, "scripts/check_classes.py", 1), f"there is no class {key}; take it out of EXCEPTIONS"))
    return found
