#!/usr/bin/env python3
"""Makes golden/tool_rows.jsonl: random rows of tuning data with tools, and what transformers makes of each.

Usage: make_tool_golden.py [SEED]     (needs transformers and xxhash; prints what it made)

The templates are those beside it that write tools, in the forms of Qwen 2.5 and Llama 3.1. Texts and masks are those of
apply_chat_template(tools=..., return_assistant_tokens_mask=True) with {% generation %} around what each writes of an answer; that
the marked template renders the same text as the plain one is asserted for every row. A line has the template, the row, the
text, the number of tokens, XXH3-64 of the ids (little-endian int32) and the trained spans [from, to).
"""
import json
import pathlib
import random
import struct
import sys

import transformers
import xxhash
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
ROWS = 60
TEXTS = ["the river", "Wärme", "def f(x):\n    return x", "東京", "  two spaces", "so?", "{{ x }} {% raw %}", "\"quoted\" \\", "<b>&amp;</b>", "it's"]
BEGIN, END = "{% generation %}", "{% endgeneration %}"
# What is put in place of what, so that an answer stands in a block of its own.
MARKED = {
    "qwen25": [
        ("(message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == \"assistant\" and not message.tool_calls)",
         "(message.role == \"user\") or (message.role == \"system\" and not loop.first)"),
        ("{{- '<|im_start|>' + message.role }}\n        {%- if message.content %}\n            {{- '\\n' + message.content }}",
         "{{- '<|im_start|>' + message.role + '\\n' }}" + BEGIN + "\n        {%- if message.content %}\n            {{- message.content }}"),
        ("{{- '\\n<tool_call>\\n", "{{- ('\\n' if message.content or not loop.first else '') + '<tool_call>\\n"),
        ("{%- endfor %}\n        {{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\"",
         "{%- endfor %}\n        {{- '<|im_end|>' }}" + END + "{{ '\\n' }}\n    {%- elif message.role == \"tool\""),
    ],
    "llama31": [
        ("'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}",
         "'<|end_header_id|>\\n\\n' }}{% if message.role == 'assistant' %}" + BEGIN + "{{- message['content'] | trim + '<|eot_id|>' }}"
         + END + "{% else %}{{- message['content'] | trim + '<|eot_id|>' }}{% endif %}"),
        ("<|end_header_id|>\\n\\n{\"name\": \"'", "<|end_header_id|>\\n\\n' }}" + BEGIN + "{{- '{\"name\": \"'"),
        ("{{- \"}<|eot_id|>\" }}", "{{- \"}<|eot_id|>\" }}" + END),
    ],
}


def plain(name):
    # A fixed day: the test puts the same in its place.
    return (HERE / "templates" / f"{name}.jinja").read_text().replace('strftime_now("%d %b %Y")', '"26 Jul 2024"')


def marked(name):
    source = plain(name)
    for old, new in MARKED[name]:
        assert source.count(old) == 1, (name, old)
        source = source.replace(old, new)
    return source


class Made:
    def __init__(self, seed):
        self.draw = random.Random(seed)

    def text(self):
        return " ".join(self.draw.choices(TEXTS, k=self.draw.randint(1, 3)))

    def maybe(self, share=0.5):
        return self.draw.random() < share

    def tools(self):
        parameters = {"type": "object", "properties": {"city": {"type": "string", "description": self.text()}}, "required": ["city"]}
        return [{"type": "function", "function": {"name": name, "description": self.text(), "parameters": parameters}}
                for name in ("get_weather", "look_up")[:self.draw.randint(1, 2)]]

    def arguments(self):
        values = [self.text(), 3, 2.5, True, None, [1, "x"], {"k": self.text()}]
        return {key: self.draw.choice(values) for key in ("city", "days", "été")[:self.draw.randint(1, 3)]}

    def calls(self, name):
        many = self.draw.randint(1, 2) if name == "qwen25" else 1
        return [{"id": f"call{i}{self.draw.randint(1000, 9999)}", "type": "function",
                 "function": {"name": "get_weather", "arguments": self.arguments()}} for i in range(many)]

    def conversation(self, name):
        out = [{"role": "system", "content": self.text()}] if self.maybe(0.4) else []
        for _ in range(self.draw.randint(1, 2)):
            out.append({"role": "user", "content": self.text()})
            if self.maybe(0.7):
                calls = self.calls(name)
                beside = self.text() if name == "qwen25" and self.maybe(0.4) else None
                out.append({"role": "assistant", "content": beside, "tool_calls": calls})
                out += [{"role": "tool", "content": self.text(), "tool_call_id": call["id"], "name": "get_weather"} for call in calls]
                if self.maybe(0.15):
                    break
            out.append({"role": "assistant", "content": self.text()})
        while out[-1]["role"] == "tool":
            out.pop()
        return out

    def row(self, conversation, tools):
        """As somebody may have written it: (row, which answers are trained on)."""
        trained, written = [], []
        spelled = self.maybe(0.3) and not any(m.get("tool_calls") and m["content"] for m in conversation)
        for message in conversation:
            one = json.loads(json.dumps(message))
            for call in one.get("tool_calls", []):
                if self.maybe():
                    call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=self.maybe())
            if spelled:
                names = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
                one = {"from": names[message["role"]], "value": message["content"]}
                if message.get("tool_calls"):
                    functions = [call["function"] for call in message["tool_calls"]]
                    one = {"from": "function_call", "value": json.dumps(functions if len(functions) > 1 else functions[0])}
                for key in ("id", "tool_call_id", "name"):
                    message.pop(key, None)
                for call in message.get("tool_calls", []):
                    call.pop("id")
            elif one["content"] is None and self.maybe(0.3):
                del one["content"]
            if message["role"] == "assistant":
                last = message is conversation[-1]
                trained.append(last or not self.maybe(0.3))
                if not trained[-1]:
                    one["weight"] = 0
            written.append(one)
        row = {"conversations" if spelled else "messages": written}
        if tools:
            row["tools"] = json.dumps(tools) if self.maybe(0.3) else tools
        return row, trained


def spans_of(mask):
    spans, at = [], 0
    while at < len(mask):
        end = at
        while end < len(mask) and mask[end] == mask[at]:
            end += 1
        if mask[at]:
            spans.append([at, end])
        at = end
    return spans


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    made = Made(seed)
    reference = json.loads((HERE / "golden/reference_tokenizer.json").read_text())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(reference["tokenizer"])), bos_token="<|endoftext|>")
    lines = [json.dumps({"made_by": "make_tool_golden.py", "seed": seed, "transformers": transformers.__version__})]
    for name in MARKED:
        for _ in range(ROWS):
            conversation, tools = made.conversation(name), made.tools() if made.maybe(0.8) else None
            row, trained = made.row(conversation, tools)
            text = tokenizer.apply_chat_template(conversation, tools=tools, chat_template=plain(name), tokenize=False)
            again = tokenizer.apply_chat_template(conversation, tools=tools, chat_template=marked(name), tokenize=False)
            assert text == again, (name, text, again)
            got = tokenizer.apply_chat_template(conversation, tools=tools, chat_template=marked(name), tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
            spans = spans_of(got["assistant_masks"])
            assert len(spans) == len(trained), (name, conversation)
            ids = got["input_ids"]
            lines.append(json.dumps({"template": f"{name}.jinja", "row": row, "text": text, "tokens": len(ids),
                                     "ids": xxhash.xxh3_64_hexdigest(struct.pack(f"<{len(ids)}i", *ids)),
                                     "trained": [span for span, learnt in zip(spans, trained, strict=True) if learnt]},
                                    ensure_ascii=False, separators=(",", ":")))
    (HERE / "golden/tool_rows.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} rows, seed {seed}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
