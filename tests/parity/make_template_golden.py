#!/usr/bin/env python3
"""Writes golden/templates.json: what Jinja2, set up by transformers, makes of the templates beside it.

    python make_template_golden.py                     # needs transformers, jinja2
    python make_template_golden.py --check ENGINE FOLDER [FOLDER ...]

With --check nothing is written: every *.jinja of the folders (unpacked packages of PyPI hold many: trl, axolotl) is rendered
by both, by longhaul-engine's `render-chat`, with 50 conversations, and the counts are printed. Exit 1 if any differs.
Conversations are drawn from a fixed seed; strftime_now() is 27 November 2026.
"""
import copy
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import jinja2
import transformers
import transformers.utils.chat_template_utils as library

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = {"python": sys.version.split()[0], "jinja2": jinja2.__version__, "transformers": transformers.__version__}
TEXTS = ["Hello", " spaces around  ", "2 + 2?\n", "\n\nnew\nlines\n", "船は九時に出る。", "{{ x }} {% raw %} {# y #}",
         "<think>\na plan\n</think>\n\nThe answer.", "quotes \" and ' and \\ \t", "", "emoji \U0001f642 \u00e9", "</think>x",
         "<|im_end|>", "[INST] x [/INST]", "<b>&amp;</b>", "a/b\u2028c\u0085d\xa0", "it's", "x" * 80]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather \"now\"", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "\u00e9 <b>"}, "days": {"type": "integer", "enum": [1, 2, 3]},
            "unit": {"type": ["string", "null"], "default": None}}}}},
    {"type": "function", "function": {"name": "noop", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = [{"city": "Bologna", "days": 2, "x": 1.5, "y": None, "z": [True, {"k": "v"}], "big": 1e21, "small": 1e-7}, {}]
CALLS = [{"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": None}}]
SHARED = {"documents": None, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
# What a family's template takes: a system text, tools.
TAKES = {"mistral1": (0, 0), "gemma": (0, 0), "llama2": (1, 0), "chatml": (1, 0), "llama3": (1, 0), "olmo2": (1, 0)}


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2026, 11, 27, 9)


def conversation(r, system=0.5, tools=0.4, odd=0.06):
    messages = []
    if r.random() < system:
        messages.append({"role": "system", "content": r.choice(TEXTS)})
    for _ in range(r.randrange(1, 4)):
        messages.append({"role": "user", "content": r.choice(TEXTS)})
        if r.random() < 0.6 * tools:
            calls = copy.deepcopy(CALLS)
            calls[0]["function"]["arguments"] = r.choice(ARGUMENTS)
            messages.append({"role": "assistant", "content": r.choice(["", "let me see", None]), "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather",
                             "content": r.choice(["12 \u00b0C", '{"t": 12}'])})
        answer = {"role": "assistant", "content": r.choice(TEXTS)}
        if r.random() < 0.2:
            answer["reasoning_content"] = "because\n"
        messages.append(answer)
    if r.random() < 0.5:
        messages.pop()
    if r.random() < odd:
        messages.insert(r.randrange(len(messages) + 1), {"role": r.choice(["user", "assistant", "system", "developer"]),
                                                         "content": "odd"})
    if r.random() < odd:
        messages[-1]["content"] = [{"type": "text", "text": "part"}, {"type": "text", "text": " two"}]
    variables = SHARED | {"messages": messages, "tools": TOOLS[:r.randrange(1, 3)] if r.random() < tools else None,
                          "add_generation_prompt": r.random() < 0.5}
    if r.random() < 0.3:
        variables["enable_thinking"] = r.random() < 0.5
    return variables


def rendered(template, source, variables):
    """(text, [[begin, end], ...] in bytes), or None where Jinja refuses."""
    try:
        if "endgeneration" not in source:
            return template.render(**copy.deepcopy(variables)), []
        text, places = library._render_with_assistant_indices(compiled_template=template, **copy.deepcopy(variables))
        return text, [[len(text[:a].encode()), len(text[:b].encode())] for a, b in places]
    except Exception:
        return None


def check(engine, folders):
    totals = [0, 0, 0, 0]
    for path in sorted(p for folder in folders for p in pathlib.Path(folder).rglob("*.jinja")):
        source = path.read_text()
        try:
            template = library._compile_jinja_template(source)
        except Exception:
            template = None
        r = random.Random(7)
        asked = [conversation(r) for _ in range(50)]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(v) + "\n" for v in asked))
            file.flush()
            ran = subprocess.run([engine, "render-chat", "--template", path, "--variables", file.name],
                                 capture_output=True, text=True, timeout=120)
        ours = [json.loads(line) for line in ran.stdout.split("\n") if line] or [{"error": ran.stderr.strip()}] * 50
        counts, why = [0, 0, 0, 0], ""
        for variables, mine in zip(asked, ours, strict=True):
            theirs = rendered(template, source, variables) if template else None
            if "error" in mine:
                counts[2 if theirs is None else 3] += 1
                why = why if theirs is None else mine["error"][:160]
            else:
                counts[0 if theirs == (mine["text"], mine["answers"]) else 1] += 1
        totals = [a + b for a, b in zip(totals, counts)]
        print(f"{path.name:36} equal {counts[0]:3}  differ {counts[1]:3}  both refuse {counts[2]:3}  refused {counts[3]:3} {why}")
    print("equal {}, differ {}, both refuse {}, refused here alone {}".format(*totals))
    return 1 if totals[1] else 0


def main():
    library.datetime = FixedDate
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check(sys.argv[2], sys.argv[3:]))
    families = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        source = path.read_text()
        template = library._compile_jinja_template(source)
        r = random.Random(path.name)
        system, tools = TAKES.get(path.stem, (0.5, 0.5))
        rows = []
        for _ in range(50):
            variables = conversation(r, system * 0.5 if system == 1 else system, tools)
            made = rendered(template, source, variables)
            # What all have in common stands once in the file; tools are known by their number.
            own = {k: v for k, v in variables.items() if k not in SHARED} | {"tools": len(variables["tools"] or [])}
            rows.append({"variables": own} | ({"refused": True} if made is None else {"text": made[0]} | (
                {"answers": made[1]} if made[1] else {})))
        refused = sum("refused" in row for row in rows)
        print(f"{path.name:18} {50 - refused} rendered, {refused} refused by the template or by Jinja")
        families.append({"template": path.name, "rows": rows})
    out = HERE / "golden" / "templates.json"
    out.write_text(json.dumps({"versions": VERSIONS, "shared": SHARED, "tools": TOOLS, "families": families}, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(out.name, out.stat().st_size, "bytes")


main()
