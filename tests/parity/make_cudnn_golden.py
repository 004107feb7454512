#!/usr/bin/env python3
"""Writes golden/cudnn_attention.txt: the graphs that NVIDIA's cudnn-frontend builds for attention.

    pip download --no-deps nvidia-cudnn-frontend==1.32.0 && unzip nvidia_cudnn_frontend-*.whl 'include/*' -d frontend
    python make_cudnn_golden.py frontend/include [CUDA_FOLDER]     # needs g++, the headers of CUDA and cuDNN; no GPU

The frontend runs on the simulated cuDNN (tests/support/fake_libraries/fake_cudnn.cc), which writes down what it is given. A case is one
more line in CASES; cudnn_attention_test.cc reads the cases from the file.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# pass, batch, seq, kv_seq, heads, kv_heads, head_dim, mask, sums of dq, logarithms kept, window (0: none)
CASES = """
forward 2 33 33 4 2 64 causal any lse 0
forward 1 5 70 2 1 128 causal any none 0
forward 2 33 20 4 4 64 all any lse 0
backward 2 33 33 4 2 64 causal any lse 0
backward 2 33 33 3 3 64 causal deterministic lse 0
backward 1 5 70 4 2 128 causal deterministic lse 0
backward 1 5 70 2 2 128 causal any lse 0
backward 2 33 20 4 1 64 all deterministic lse 0
forward 2 33 33 4 2 64 causal any lse 7
forward 1 5 70 2 1 128 causal any none 9
backward 2 33 33 4 2 64 causal any lse 7
backward 1 5 70 4 2 128 causal deterministic lse 9
""".split("\n")[1:-1]
# What the frontend's headers name and attention does not call.
UNUSED = """cudnnCreateFilterDescriptor cudnnDestroyFilterDescriptor cudnnGetStream cudnnReorderFilterAndBias
cudnnSetFilterNdDescriptor nvrtcCompileProgram nvrtcCreateProgram nvrtcDestroyProgram nvrtcGetCUBIN nvrtcGetCUBINSize
nvrtcGetProgramLog nvrtcGetProgramLogSize""".split()


def version(header, names):
    text = header.read_text()
    return ".".join(re.search(rf"#define {name} (\d+)", text).group(1) for name in names)


def main():
    frontend = pathlib.Path(sys.argv[1])
    cuda = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/usr/local/cuda")
    of_frontend = version(frontend / "cudnn_frontend_version.h",
                          [f"CUDNN_FRONTEND_{part}_VERSION" for part in ("MAJOR", "MINOR", "PATCH")])
    of_cudnn = version(cuda / "include" / "cudnn_version.h", ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"])
    lines = [f"# cudnn-frontend {of_frontend}, headers of cuDNN {of_cudnn}, compute capability 9.0", ""]
    with tempfile.TemporaryDirectory() as folder:
        unused = pathlib.Path(folder) / "unused.c"
        unused.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in UNUSED))
        program, flags = f"{folder}/graphs", ["-isystem", str(frontend), "-isystem", str(cuda / "include"), f"-I{ROOT}"]
        subprocess.run(["gcc", "-c", str(unused), "-o", f"{folder}/unused.o"], check=True)
        subprocess.run(["g++", "-std=c++20", "-DCUDNN_FRONTEND_SKIP_JSON_LIB", *flags,
                        str(HERE / "cudnn_frontend_graphs.cc"), str(ROOT / "tests/support/fake_libraries/fake_cudnn.cc"),
                        str(ROOT / "tests/support/fake_libraries/fake_cudnn_graph.cc"), f"{folder}/unused.o", "-o", program,
                        f"-L{cuda}/lib64", "-lcudart_static", "-ldl", "-lrt", "-lpthread"], check=True)
        for case in CASES:
            graph = subprocess.run([program, *case.split()], check=True, capture_output=True, text=True).stdout
            lines += [f"case {case}", *graph.splitlines(), ""]
    (HERE / "golden" / "cudnn_attention.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
