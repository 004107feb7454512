#!/usr/bin/env python3
"""Looks into the machine code of the kernels for AVX2: their main loops have to stay in registers.

A vector type that the machine has no registers for compiles without a word and is many times slower: operands go
through the stack, selects become scalar compares. usage: kernel_assembly_test.py LIBRARY [MEMBER]; 77: skipped.
"""
import re
import shutil
import subprocess
import sys
import tempfile

HOT = ["gemv<longhaul::bf16>", "gemv<float>", "gemv_int8", "gemv_fp8", "gemv_int4", "unpack_int4<longhaul::bf16>",
       "unpack_int8<longhaul::bf16>", "exp_array", "gelu_forward<longhaul::bf16>", "swiglu_forward<longhaul::bf16>",
       "adamw<float, float>", "rmsnorm_forward<longhaul::bf16>", "cross_entropy<float, float>",
       "sum_of_squares", "tile_columns<2>"]
STACK_WRITES_MAX = 0.05  # of lanes, of a loop's instructions; what is only read are constants without a register
SHARE_OF_VECTORS = 0.6  # a loop that works on lanes; others are the rests of rows

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(.*)$")
VECTOR = re.compile(r"v\w+\s.*%ymm")
STACK_WRITE = re.compile(r"^v(mov|extract)\w*\s.*%[xy]mm\d+,\s*-?(0x)?[0-9a-f]*\(%r[sb]p[^()]*\)$")
SCALAR_COMPARE = re.compile(r"v?(u?comiss|cmp\w*ss)\s")


def functions_of(text):
    """name -> [(address, instruction)]"""
    found, body = {}, []
    for line in text.splitlines():
        if head := FUNCTION.match(line):
            body = found.setdefault(head.group(1), [])
        elif instruction := INSTRUCTION.match(line):
            body.append((int(instruction.group(1), 16), instruction.group(2).strip()))
    return found


def innermost_loops(body):
    at = {address: i for i, (address, _) in enumerate(body)}
    loops = set()
    for i, (_, instruction) in enumerate(body):
        jump = re.match(r"j\w+\s+([0-9a-f]+)", instruction)
        if jump and at.get(int(jump.group(1), 16), i + 1) <= i:
            loops.add((at[int(jump.group(1), 16)], i))
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return [[instruction for _, instruction in body[first:last + 1]] for first, last in sorted(inner)]


def faults_of(name, body):
    """What is wrong with its loops over lanes; none at all is wrong as well."""
    seen, faults = 0, []
    for loop in innermost_loops(body):
        vectors = sum(bool(VECTOR.match(i)) for i in loop)
        compares = sum(bool(SCALAR_COMPARE.match(i)) for i in loop)
        if compares > 1:  # a single one ends a loop or belongs to one number
            faults.append(f"{name}: {compares} scalar compares in a loop of {len(loop)} instructions")
        if vectors < 4 or vectors < SHARE_OF_VECTORS * len(loop):
            continue
        seen += 1
        writes = sum(bool(STACK_WRITE.match(i)) for i in loop)
        if writes > STACK_WRITES_MAX * len(loop):
            faults.append(f"{name}: {writes} of {len(loop)} instructions of a loop write lanes to the stack")
    return faults if seen else faults + [f"{name}: no loop over vectors of 32 bytes"]


def check_itself():
    """A loop as GCC makes it of a type without registers is found, one in registers is not."""
    good = ["vmovups (%rdi,%rax,1),%ymm1", "vfmadd231ps (%rsi,%rax,1),%ymm1,%ymm0",
            "vmovups 0x20(%rdi,%rax,1),%ymm3", "vfmadd231ps 0x20(%rsi,%rax,1),%ymm3,%ymm2", "add $0x40,%rax",
            "jne 0"]
    bad = good[:4] + ["vmovaps %ymm0,0x20(%rsp)"] + good[4:]
    for body, wrong in ((good, False), (bad, True), (["vcmpltss %xmm1,%xmm0,%xmm2"] * 2 + good, True)):
        assert bool(faults_of("itself", list(enumerate(body)))) == wrong, body


def main():
    check_itself()
    if not shutil.which("objdump"):
        print("skipped: objdump (package binutils) is not here")
        return 77
    library, member = sys.argv[1], (sys.argv[2:] or ["kernels_avx2.cc.o"])[0]
    with tempfile.NamedTemporaryFile(suffix=".o") as object_file:
        subprocess.run(["ar", "p", library, member], stdout=object_file, check=True)
        object_file.flush()
        shown = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", object_file.name], capture_output=True,
                               text=True, check=True).stdout
    if "ymm" not in shown:
        print(f"skipped: {member} holds no code for AVX2; this is another family of processors")
        return 77
    functions = functions_of(shown)
    faults, failed = [], 0
    for hot in HOT:
        before = len(faults)
        bodies = [(name, body) for name, body in functions.items()
                  if re.search(r"::" + re.escape(hot) + r"(_rows<\d>)?\(", name)]
        if not bodies:
            faults.append(f"{hot}: not among the functions of {member}")
        for name, body in bodies:
            faults += faults_of(name.split("level_avx2::")[-1].split("(")[0], body)
        failed += len(faults) > before
    print(*faults, sep="\n")
    print(f"test cases: {len(HOT)} | {len(HOT) - failed} passed | {failed} failed | 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
