"""Every wait has a deadline and says what it waits for (docs/architecture.md, section 2): calls that come back only when what
they wait for has happened are found here. Those that stay are counted per file and have a reason.
"""
import re

FOREVER = re.compile(r"[.>]wait\(\s*(?:\w+_)?(?:lock|guard)\b"  # std::condition_variable::wait
                     r"|::waitpid\([^;]*,\s*0\)|::wait\(\s*(?:&|nullptr)|::waitid\("
                     r"|\bpoll\([^;]*,\s*-1\)|\bppoll\([^;]*,\s*nullptr\s*,|\bepoll_wait\([^;]*,\s*-1\)|::select\([^;]*,\s*nullptr\)"
                     r"|\bflock\([^;|]*LOCK_(?:EX|SH)\)|\bF_SETLKW\b|\bsem_wait\(|\bsigwait(?:info)?\(|::pause\(\)|::sigsuspend\("
                     r"|\bcuda(?:Stream|Device|Event)Synchronize\(|\bMPI_(?:Wait|Waitall|Barrier|Recv|Send|Probe)\(")

# file -> (how many, why nothing waits there for what may never come)
WAITS_ALLOWED = {
    "base/process/confined_program.cc": (3, "the parent of a confined program, which its caller ends at the deadline; a look (WNOHANG); a child that was killed just before"),
    "base/process/fault_point.cc": (1, "the process has killed itself in the line before"),
    "base/process/process.cc": (2, "a child that has forked and ends by itself; one that was killed with its group"),
    "engine/infer/serve/model_server.cc": (1, "a thread without work: its owner wakes it to end"),
    "orchestrator/scheduler/port/helper_process.cc": (1, "a child that was killed just before"),
    "resiliency/health/file_system_probe.cc": (1, "a child that has answered and ends by itself"),
    "worker/agent/leads/lead_files.cc": (1, "a thread without work: its owner wakes it to end"),
}


def findings_of(name, lines, allowed=None):
    """(line, text) of each wait that has no deadline, and of a row that is no longer true."""
    allowed = WAITS_ALLOWED if allowed is None else allowed
    found = [number for number, line in enumerate(lines, 1) if FOREVER.search(line.split("//")[0])]
    count, _ = allowed.get(name, (0, ""))
    if len(found) == count:
        return []
    if len(found) < count:
        return [(1, f"has {len(found)} waits without a deadline, not {count}; mend its row of WAITS_ALLOWED in scripts/check_waits.py")]
    return [(number, "waits for as long as it takes; wait until a deadline (base/system/clock.h) and say for what, or say in "
                     "WAITS_ALLOWED of scripts/check_waits.py why it cannot be long") for number in found]
