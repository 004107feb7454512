#!/usr/bin/env python3
"""Makes golden/tool_pairs.jsonl: random pairs of answers with calls of tools, and what transformers makes of each.

Usage: make_pair_golden.py [SEED]     (needs transformers and xxhash; prints what it made)

Templates, texts and masks are those of make_tool_golden.py: of each side apply_chat_template with assistant masks, of which the
answers behind the prompt are kept that are trained on. TRL's DPOTrainer (1.16, tokenize_fn) trains on what follows the tokens of
the prompt with the turn opened: that the first answer begins there is asserted for every side, and of sides that are one answer
that what is trained on is all the rest, but for blanks behind the token that ends the turn. A line has the template, the row, and
for each side the number of tokens, XXH3-64 of the ids (little-endian int32) and the trained spans [from, to).
"""
import json
import struct
import sys

import transformers
import xxhash
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from make_tool_golden import HERE, MARKED, Made, marked, plain, spans_of

PAIRS = 60


class Pairs(Made):
    def way(self, name):
        """A way to an answer: a text, a call, or calls, what the tools answered, and a text."""
        if self.maybe(0.3):
            return [{"role": "assistant", "content": self.text()}]
        calls = self.calls(name)
        beside = self.text() if name == "qwen25" and self.maybe(0.4) else None
        way = [{"role": "assistant", "content": beside, "tool_calls": calls}]
        if self.maybe():
            way += [{"role": "tool", "content": self.text(), "tool_call_id": call["id"], "name": "get_weather"} for call in calls]
            way.append({"role": "assistant", "content": self.text()})
        return way

    def written(self, messages, answers_from):
        """As somebody may have written them: (messages, which are trained on)."""
        out, trained = [], []
        for at, message in enumerate(messages):
            one = json.loads(json.dumps(message))
            for call in one.get("tool_calls", []):
                if self.maybe():
                    call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=self.maybe())
            if one["content"] is None and self.maybe(0.3):
                del one["content"]
            learnt = message["role"] == "assistant" and at >= answers_from
            if learnt and at + 1 < len(messages) and self.maybe(0.3):
                one["weight"], learnt = 0, False
            out.append(one)
            trained.append(learnt)
        return out, trained

    def pair(self, name):
        """(row, prompt, both sides behind it, which of their messages are trained on)"""
        prompt = self.conversation(name)
        while prompt[-1]["role"] != "user":
            prompt.pop()
        both = []
        if self.maybe(0.3):  # they part behind a call that both make
            calls = self.calls(name)
            both = [{"role": "assistant", "content": None, "tool_calls": calls}]
            both += [{"role": "tool", "content": self.text(), "tool_call_id": call["id"], "name": "get_weather"} for call in calls]
        ways = [self.way(name), self.way(name)]
        while ways[0][0] == ways[1][0]:
            ways[1] = self.way(name)
        how = self.draw.choice(("text", "goes on", "repeats", "without"))
        row, trained = {}, []
        if how != "without":
            row["prompt"] = prompt[0]["content"] if len(prompt) == 1 and self.maybe() else self.written(prompt, len(prompt))[0]
        for key, way in zip(("chosen", "rejected"), ways):
            head = ([] if how in ("text", "goes on") else prompt) + both
            made, learnt = self.written(head + way, len(head))
            trained.append(learnt[len(head):])
            text = how == "text" and not both and len(way) == 1 and "tool_calls" not in way[0]
            row[key] = way[0]["content"] if text else made
        return row, prompt + both, ways, trained


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    made = Pairs(seed)
    reference = json.loads((HERE / "golden/reference_tokenizer.json").read_text())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(reference["tokenizer"])), bos_token="<|endoftext|>")

    def tokens(name, messages, tools, template=plain, **more):
        return tokenizer.apply_chat_template(messages, tools=tools, chat_template=template(name), tokenize=True, return_dict=True, **more)

    def side(name, prompt, way, trained, tools):
        text = tokenizer.apply_chat_template(prompt + way, tools=tools, chat_template=plain(name), tokenize=False)
        assert text == tokenizer.apply_chat_template(prompt + way, tools=tools, chat_template=marked(name), tokenize=False), text
        got = tokens(name, prompt + way, tools, marked, return_assistant_tokens_mask=True)
        ids, spans = got["input_ids"], spans_of(got["assistant_masks"])
        answers = [message["role"] == "assistant" for message in prompt + way]
        assert len(spans) == sum(answers), (name, text)
        spans = spans[sum(answers[:len(prompt)]):]
        opened = tokens(name, prompt, tools, add_generation_prompt=True)["input_ids"]
        same = next((i for i, (a, b) in enumerate(zip(opened, ids)) if a != b), min(len(opened), len(ids)))
        assert spans[0][0] == same == len(opened), (name, text)
        if len(way) == 1:
            assert not tokenizer.decode(ids[spans[0][1]:]).strip(), (name, text)
        learnt = [t for t, message in zip(trained, way, strict=True) if message["role"] == "assistant"]
        return {"tokens": len(ids), "ids": xxhash.xxh3_64_hexdigest(struct.pack(f"<{len(ids)}i", *ids)),
                "trained": [span for span, one in zip(spans, learnt, strict=True) if one]}

    lines = [json.dumps({"made_by": "make_pair_golden.py", "seed": seed, "transformers": transformers.__version__})]
    for name in MARKED:
        for _ in range(PAIRS):
            tools = made.tools() if made.maybe(0.8) else None
            row, prompt, ways, trained = made.pair(name)
            if tools:
                row["tools"] = json.dumps(tools) if made.maybe(0.3) else tools
            sides = [side(name, prompt, way, learnt, tools) for way, learnt in zip(ways, trained, strict=True)]
            lines.append(json.dumps({"template": f"{name}.jinja", "row": row, "chosen": sides[0], "rejected": sides[1]},
                                    ensure_ascii=False, separators=(",", ":")))
    (HERE / "golden/tool_pairs.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} pairs, seed {seed}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
