"""Terms that this project used for itself and the field does not know, and what is said instead: docs/glossary.md, "Names that
changed". Rule `words` of scripts/check.py refuses them, but for the uses below that are not ours to change: keys of files
that are there, a text of older programs that is still read, the name of a command."""
import re

# Written in pieces so that this file passes its own rule. (what is found, what is said instead)
TOLD, SPLIT = "to" + "ld", "de" + "alt"
WORD_NAMES = "|".join(name + "s?" for name in ("Rank" + "Word", "Named" + "Word", "Limit" + "Word", "Cluster" + "Word",
                                                "Word" + "Store", "Word" + "Message", "Word" + "Carrier"))
RETIRED = [
    (re.compile(rf"(?<![A-Za-z])(?:\w*_)?(?:un|fore)?(?:{TOLD}|{TOLD.title()})(?![a-z])\w*"),
     "say reported, sent, given, ordered, known or asked"),
    (re.compile(r"\b(?:te" + r"lls|te" + r"lling_\w+|te" + r"ll_(?!run\b|json_document\b|commands\b)\w+)"),
     "say reports, sends, says or shows"),
    (re.compile(rf"\b{SPLIT}\b", re.I), "say assigned, distributed or split"),
    (re.compile(r"\bsigns? of " + r"life\b|\bLife" + r"Sign|\blife_" + r"sign", re.I), "say heartbeat, or LeaderLease"),
    (re.compile(r"\b\w*(?:out" + r"look|look" + r"out)\w*\b", re.I), "say estimate, scanner or outline"),
    (re.compile(rf"\b(?:{WORD_NAMES})\b"), "say StoreEntry, RendezvousStore, arguments or kind"),
]
# Rooms that hold no text of people: what is passed around there is an entry, an argument, a message or a field.
NO_WORDS_IN = ("worker/", "contracts/records/", "contracts/control/", "orchestrator/decide/", "orchestrator/scheduler/")
WORDS = (re.compile(r"\bwords?\b", re.I), "say entry, argument, message, name or field")

# Lines of a file that may have one because they have this; "": all lines of it.
ALLOWED = {
    "CHANGELOG.md": [f'"{TOLD} to stop"'],
    "docs/glossary.md": [""],  # the table of what changed
    "resiliency/taxonomy/log_line.cc": [f'"{TOLD} to stop"'],
    "tests/unit/resiliency/taxonomy/log_line_test.cc": [f": {TOLD} to stop"],
    "worker/lead/failover/lead_state.cc": [f'"{TOLD}_ms"'],
    "worker/protocol/node/reported_times.cc": [f'"{TOLD}_ms"'],
    "worker/protocol/node/reported_times.h": [f"`{TOLD}_ms`"],
    "worker/protocol/node/node_report.cc": ['"words"'],
    "worker/protocol/wire/store_message.cc": ['"words"'],
    "tests/unit/engine/curate/page_kinds_test.cc": ["<p>Page number"],
    "orchestrator/index/": ["telling" + "_stage"],
}
# Texts of others.
NOT_READ = ("tests/data/", "tests/golden/", "tests/cases/", "tests/parity/")


def problems(name, line):
    """What of a line of the file `name` is a retired term, and what to say instead."""
    if name.startswith(NOT_READ):
        return
    for file, allowed in ALLOWED.items():
        if name.startswith(file) and any(text in line for text in allowed):
            return
    rows = RETIRED + [WORDS] if name.startswith(NO_WORDS_IN) else RETIRED
    for found, instead in rows:
        if match := found.search(line):
            yield f"'{match.group(0)}' is no term of the field; {instead} (docs/glossary.md)"
