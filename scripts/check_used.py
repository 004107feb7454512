"""What the headers of the product declare and no product uses: functions, types, constants and fields that only tests, or nothing at
all, name. Such code is built, read and kept right for nobody, and a test of it says nothing about what the programs do.

Names are compared as words, without knowledge of types: a name that two classes share is used as soon as one of them is. So what is
listed is unused, and some of what is unused is not listed. The sources are formatted by clang-format, which this reader relies on.
"""
import bisect
import collections
import re

import check_classes

# Names that no source of the product uses, by file and name ("*": all of the file), with the reason why they stay.
EXCEPTIONS = {
    # For others than this project's own sources.
    "resiliency/beat/longhaul_beat.h *": "the C interface for programs that are not ours",
    "resiliency/health/nvml_abi.h *": "the layout of NVIDIA's interface, whole",
    "resiliency/beat/heartbeat_page.h reserved1": "a word of the page's layout",
    "resiliency/beat/heartbeat_page.h reserved2": "a word of the page's layout",
    "resiliency/beat/heartbeat_page.h reserved3": "a word of the page's layout",
    # What a test plants or holds short, so that it can be seen how the product bears it.
    "engine/checkpoint/global/checkpoint_store.h set_retry": "a file system that is silent for milliseconds instead of minutes",
    "engine/core/device/device_arena.h each_alone": "every piece by itself, so that use behind its end is seen",
    "engine/model/inference/inference_model.h use_graphs": "decoding without recorded steps, which has to give the same tokens",
    "engine/ops/linear/gemm.h gemm_packed": "the product beside oneDNN's, in tests and gpt2_speed",
    "engine/train/gradients/contribution_guard.h plant": "a bit that changes on its way between ranks",
    "engine/train/step/trainer.h guard_of_sums": "where that bit is planted",
    "resiliency/simulate/trial.h play_faults": "the faults of live tests, to be decided as these saw them decided",
    "resiliency/simulate/trial.h loaded_s": "held beside what live recoveries took",
    # What a test measures or reads whole, and nothing else can say.
    "base/process/fault_point.h fault_point_names": "the kill tests draw from all points",
    "contracts/pipeline/schedule.h schedule_1f1b": "the paper's rule in a dozen lines, beside the table of all schedules",
    "engine/comm/nccl_lanes.h nccl_queues_max": "how many queues all lanes may take together",
    "base/system/clock.h ManualClock": "the clock that tests set, beside the one whose promises it keeps",
    "engine/comm/communicator.h counts_on_device": "who counts collectives, the processor or its GPU",
    "engine/comm/mpi_communicator.h quarantined": "how many abandoned operations are still held",
    "engine/comm/rendezvous.h ThreadsRendezvous": "ranks as threads of one test process, held to the same contract",
    "engine/comm/tree_sum.h TreeAccumulator": "the tree of sums, one term after another, whose bits the fast ones have to have",
    "engine/core/cuda/cuda_device.h driver_allocations": "none may come in a step that is warm",
    "engine/core/tensor/tensor.h rewind": "the other half of mark()",
    "engine/curate/html/html_text.h extract_all_text": "the plain peer that extraction is measured against",
    "engine/model/inference/inference_model.h graph_counts": "how often recorded steps were replayed",
    "engine/model/llama.h activation_bytes": "held beside what the plan says",
    "engine/ops/cpu/gemm/packed_gemm.h packed_gemm_scratch": "held beside what the plan says",
    "orchestrator/scheduler/names/reason_names.h slurm_reason_names": "compared with the names in Slurm's own headers",
    "orchestrator/scheduler/names/refusals.h refusal_phrases": "every phrase is looked for in Slurm's own texts",
    "orchestrator/scheduler/names/state_names.h slurm_state_names": "compared with the names in Slurm's own headers",
    "orchestrator/scheduler/port/helper_port.h helper_pid": "the helper that a test kills",
    "orchestrator/scheduler/scheduler.h submit_one": "one job, as the contract suite of schedulers submits it",
    "orchestrator/state/run_ledger.h stage_transitions": "the table that every other change of state is held against",
}

WORD = re.compile(r"\b[A-Za-z_]\w*\b")
TYPE = re.compile(r"^[ \t]*(?:template\s*<[^;{}]*>\s*)?(?:class|struct|enum class|union)\s+(?:alignas\([^)]*\)\s*)?(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^:;{][^;{]*)?\{",
                  re.MULTILINE)
ALIAS = re.compile(r"^[ \t]*using (\w+) = ", re.MULTILINE)
# What may stand before the name that a statement calls, but never before one that it declares.
NO_TYPE = {"return", "else", "case", "throw", "new", "delete", "not", "and", "or", "co_return", "goto", "do", "sizeof", "typename", "in"}
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "static_assert", "catch", "alignas", "noexcept", "requires",
            "operator", "const", "explicit", "throw", "assert", "defined", "void", "int", "bool", "auto", "double", "float", "char"}


def stem(name):
    """What a header and its sources share: `a/b/c.h` and `a/b/c.cc` are one."""
    return name.rsplit(".", 1)[0]


def declares(code, start, end):
    """Whether the word `code[start:end]` is declared or defined where it stands, and not used."""
    before = code[max(0, start - 100):start]
    if re.search(r"(?:\.|->)\s*$", before):
        return False
    line_start = code.rfind("\n", 0, start) + 1
    if before.endswith("::"):  # a function of a class, defined outside it
        return code[line_start:line_start + 1] not in (" ", "\t", "}", "#", "")
    if before.endswith("~"):
        return True
    match = re.search(r"(\w+|\S)(\s+)$", before)
    if not match:
        return False
    last = match.group(1)
    if re.match(r"\w", last):
        return last not in NO_TYPE and not last.isdigit()
    at = before.rstrip()
    if last in "*&>":  # of a type there is no blank before it: `View* name(`, but `a * name(`
        sign = "&&" if at.endswith("&&") else last
        return not at.endswith("->") and not at[:-len(sign)][-1:].isspace()
    return at.endswith("]]")


class Source:
    """One file: its words with their places."""

    def __init__(self, text):
        self.code = check_classes.IGNORED.sub(self.blank, text)
        self.places = collections.defaultdict(list)
        for match in WORD.finditer(self.code):
            self.places[match.group(0)].append(match.start())

    @staticmethod
    def blank(match):
        """Blanks for a comment or a text; what a macro stands for is read."""
        return match.group(0) if match.group(0).lstrip().startswith("#") else re.sub(r"[^\n]", " ", match.group(0))

    def uses(self, word):
        """How often `word` stands here without being declared or defined."""
        return sum(not declares(self.code, at, at + len(word)) for at in self.places.get(word, []))

    def uses_of_type(self, word):
        """The same of a type: its definition, its constructors, and its functions outside it are no uses of it."""
        defined = {match.start(1) for pattern in (TYPE, ALIAS) for match in pattern.finditer(self.code) if match.group(1) == word}
        own = re.compile(r"\s*\(") if defined else re.compile(r"(?!)")
        outside = re.compile(rf"^(?![ \t}}#\n])[^\n;{{}}]*?\b{word}::(?=~?\w+\(|operator)", re.MULTILINE)
        defined |= {match.end() - len(word) - 2 for match in outside.finditer(self.code)}
        return sum(at not in defined and not own.match(self.code, at + len(word)) for at in self.places.get(word, []))


def declared(code):
    """(name, index) of what a header declares; names that begin with an underscore are the compiler's."""
    for match in TYPE.finditer(code):
        yield match.group(1), match.start(1)
    for match in ALIAS.finditer(code):
        yield match.group(1), match.start(1)
    for match in re.finditer(r"\b(\w+)\(", code):
        name = match.group(1)
        if name not in KEYWORDS and name[0] != "_" and not name.isdigit() and declares(code, match.start(1), match.end(1)):
            yield name, match.start(1)
    for match in re.finditer(r"\b([a-z]\w*?)(?: = [^;\n]*|\{[^;\n]*\}|\[[^;\n]*\])?;", code):
        if match.group(1) not in KEYWORDS and declares(code, match.start(1), match.end(1)):
            yield match.group(1), match.start(1)


def unused(texts):
    """(file, line, name) of what the headers of `texts` (file -> text) declare and no source of them uses."""
    sources = {name: Source(text) for name, text in texts.items()}
    holders = collections.defaultdict(set)
    for name, source in sources.items():
        for word in source.places:
            holders[word].add(name)
    counted = {}
    for file, source in sources.items():
        if not file.endswith(".h"):
            continue
        breaks = [match.start() for match in re.finditer("\n", source.code)]
        types = {match.group(1) for pattern in (TYPE, ALIAS) for match in pattern.finditer(source.code)}
        first = {}
        for name, at in declared(source.code):
            first[name] = min(at, first.get(name, at))
        for name, at in sorted(first.items(), key=lambda item: item[1]):
            key = name, name in types
            if key not in counted:
                counted[key] = sum((sources[holder].uses_of_type if name in types else sources[holder].uses)(name) for holder in holders[name])
            if counted[key] == 0:
                yield file, bisect.bisect(breaks, at) + 1, name


def findings_of(texts, exceptions):
    """(file, line, what is wrong and what to do about it)."""
    unseen = dict(exceptions)
    for file, line, name in unused(texts):
        if any(unseen.pop(key, None) or key in exceptions for key in (f"{file} {name}", f"{file} *")):
            continue
        yield file, line, (f"no source of the product uses {name}; remove it, move it to tests/support if tests need it, or say in "
                           "EXCEPTIONS of scripts/check_used.py why it stays")
    for key in sorted(unseen):
        yield "scripts/check_used.py", 1, f"{key} is used or gone; take it out of EXCEPTIONS"
