#!/usr/bin/env python3
"""Makes golden/rows.jsonl: 200 random rows of every form of tuning data, and what transformers makes of each.

Usage: make_row_golden.py [SEED]     (needs transformers and xxhash; prints what it made)

The forms are read here a second time, by this script's own reading of docs/reference/tuning-rows.md. The masks are those
of apply_chat_template(return_assistant_tokens_mask=True) with the shipped template, in which the assistant's content and
the token behind it stand between {% generation %} and {% endgeneration %}, and not where the message is not trained on.
That the marked template renders the same text as the shipped one is asserted for every conversation.
A line has the row, and for each conversation that it becomes: the number of tokens, XXH3-64 of the ids (little-endian
int32) and the trained spans [from, to).
"""
import json
import pathlib
import random
import struct
import sys

import transformers
import xxhash
from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
ROWS = 200
WORDS = ("the river", "Wärme", "42", "naïve café", "def f(x):\n    return x", "東京", "a\tb", "  two spaces", "🙂", "so?", "ок",
         "x < y", "\"quoted\"", "line\nbreak", "hola", "e = mc²", "…", "ends. ", "<|end|> spelled", "[INST]")


def template(shipped):
    whole = "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    assert whole in shipped, "the shipped template has changed: mark its generation here again"
    marked = ("{{ '<|' + message['role'] + '|>' }}{% if message['role'] == 'assistant' and message['trained'] %}"
              "{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
              "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}")
    return shipped.replace(whole, marked)


class Made:
    """Random rows; every draw is of one generator."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def text(self):
        # What spells a control token is text for Longhaul, and a control token for transformers: kept apart by a space.
        words = self.draw.choices(WORDS, k=self.draw.randint(1, 5))
        return " ".join(words).replace("<|end|>", "< |end| >")

    def maybe(self, share=0.5):
        return self.draw.random() < share

    def turns(self, last="assistant"):
        """[(role, text)]: begins with the user or a system text, ends with `last`; roles may come twice."""
        out = [("system", self.text())] if self.maybe(0.3) else []
        for _ in range(self.draw.randint(1, 3)):
            out += [("user", self.text())] * (2 if self.maybe(0.15) else 1) + [("assistant", self.text())]
        return out if last == "assistant" else out[:-1]

    def message(self, role, text, spelled, conversation):
        names = {"system": ["system", "developer"], "user": ["user", "human"],
                 "assistant": ["assistant", "gpt", "chatgpt", "bot", "model", "bing", "bard"]}
        keys = ("from", "value") if spelled else ("role", "content")
        name = self.draw.choice(names[role]) if spelled else self.draw.choice(names[role][:2] if role == "system" else names[role][:1])
        content = [{"type": "text", "text": text[:2]}, {"type": "text", "text": text[2:]}] if self.maybe(0.1) else text
        message, trained = {keys[0]: name, keys[1]: content}, True
        if role == "assistant" and self.maybe(0.4):
            trained = self.maybe()
            if self.maybe():
                message["weight"] = int(trained)
            else:
                message["train"] = trained
        conversation.append({"role": role, "content": text, "trained": trained})
        return message

    def messages(self, turns, spelled=False):
        conversation = []
        made = [self.message(role, text, spelled, conversation) for role, text in turns]
        last = conversation[-1]
        if last["role"] == "assistant" and not any(m["trained"] for m in conversation if m["role"] == "assistant"):
            last["trained"] = True
            made[-1].pop("weight", None), made[-1].pop("train", None)
        return made, conversation

    def before(self, row, conversation, history=True):
        """What stands before a question: turns of a history, then a system text before all."""
        if history and self.maybe(0.4):
            row["history"] = [[self.text(), self.text()] for _ in range(self.draw.randint(0, 2))]
            for question, answer in reversed(row["history"]):
                conversation[:0] = [{"role": "user", "content": question, "trained": True},
                                    {"role": "assistant", "content": answer, "trained": True}]
        if self.maybe(0.4):
            row["system"] = "" if self.maybe(0.2) else self.text()
            own = conversation and conversation[0]["role"] == "system"
            if own:
                row["system"] = conversation[0]["content"] if row["system"] else ""
            elif row["system"]:
                conversation.insert(0, {"role": "system", "content": row["system"], "trained": True})

    def listed(self, key, spelled):
        made, conversation = self.messages(self.turns(), spelled)
        row = {key: made}
        self.before(row, conversation, history=False)
        return row, [conversation]

    def asked(self, question, answer):
        """A question and its answer; of prompts and completions also as messages."""
        row, ask, reply = {}, self.text(), self.text()
        conversation = [{"role": "user", "content": ask, "trained": True}]
        row[question] = ask
        if question == "prompt" and self.maybe():
            made, given = self.messages(self.turns("user"))
            for message in made:
                message.pop("weight", None), message.pop("train", None)
            row[question], conversation = made, [{**m, "trained": m["role"] != "assistant"} for m in given]
        if question == "prompt" and answer == "completion" and self.maybe():
            row[answer] = [{"role": "assistant", "content": reply}]
        else:
            row[answer] = reply
        if question == "instruction" and self.maybe():
            row["input"] = "" if self.maybe(0.3) else self.text()
            if row["input"]:
                conversation[0]["content"] += "\n\n" + row["input"]
        conversation.append({"role": "assistant", "content": reply, "trained": True})
        self.before(row, conversation)
        return row, [conversation]

    def prompt(self):
        if self.maybe():
            text = self.text()
            return text, [{"role": "user", "content": text, "trained": False}]
        turns = self.turns("user")
        return ([{"role": r, "content": t} for r, t in turns], [{"role": r, "content": t, "trained": False} for r, t in turns])

    def answered(self, prompt, answer):
        return [*prompt, {"role": "assistant", "content": answer, "trained": True}]

    def two(self):
        chosen = self.text()
        rejected = self.text()
        return (chosen, rejected) if chosen != rejected else (chosen, rejected + "!")

    def plain(self, conversation):
        return [{"role": m["role"], "content": m["content"]} for m in conversation]

    def pair(self, with_prompt):
        written, prompt = self.prompt()
        chosen, rejected = self.two()
        row = {"prompt": written, "chosen": chosen, "rejected": rejected}
        how = self.draw.randint(0, 2) if with_prompt else 2
        for key, answer in (("chosen", chosen), ("rejected", rejected)):
            if how == 1:  # goes on from the prompt
                row[key] = [{"role": "assistant", "content": answer}]
            if how == 2:  # repeats it
                row[key] = self.plain(self.answered(prompt, answer))
        if not with_prompt:
            del row["prompt"]
        self.before(row, prompt, history=False)
        return row, [self.answered(prompt, chosen), self.answered(prompt, rejected)]

    def listed_answers(self, by):
        written, prompt = self.prompt()
        answers = list(dict.fromkeys(self.text() + str(i) for i in range(self.draw.randint(2, 4))))
        values = [self.draw.randint(1, 3) for _ in answers]
        values[0], values[1] = (1, 2)
        row = {"prompt": written, "responses": answers, by: values}
        self.before(row, prompt, history=False)
        worth = [-v if by == "ranks" else v for v in values]
        conversations = []
        for i, better in enumerate(answers):
            for j, worse in enumerate(answers):
                if worth[i] > worth[j]:
                    conversations += [self.answered(prompt, better), self.answered(prompt, worse)]
        return row, conversations


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    made = Made(seed)
    reference = json.loads((HERE / "golden/reference_tokenizer.json").read_text())
    shipped = SHIPPED
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(reference["tokenizer"])))
    marked = template(shipped)
    forms = [
        ("messages", lambda: made.listed("messages", False)), ("ShareGPT", lambda: made.listed("conversations", True)),
        ("Alpaca", lambda: made.asked("instruction", "output")), ("Alpaca", lambda: made.asked("instruction", "response")),
        ("input/output", lambda: made.asked("input", "output")), ("prompt/completion", lambda: made.asked("prompt", "completion")),
        ("prompt/response", lambda: made.asked("prompt", "response")), ("question/answer", lambda: made.asked("question", "answer")),
        ("text", None), ("pair", lambda: made.pair(True)), ("pair of conversations", lambda: made.pair(False)),
        ("ranked answers", lambda: made.listed_answers("ranks")), ("scored answers", lambda: made.listed_answers("scores")),
    ]

    def of(ids, mask):
        spans, at = [], 0
        while at < len(mask):
            end = at
            while end < len(mask) and mask[end] == mask[at]:
                end += 1
            if mask[at]:
                spans.append([at, end])
            at = end
        return {"tokens": len(ids), "ids": xxhash.xxh3_64_hexdigest(struct.pack(f"<{len(ids)}i", *ids)), "trained": spans}

    def encoded(conversation):
        assert tokenizer.apply_chat_template(conversation, chat_template=marked, tokenize=False) == \
            tokenizer.apply_chat_template(conversation, chat_template=shipped, tokenize=False)
        got = tokenizer.apply_chat_template(conversation, chat_template=marked, tokenize=True, return_dict=True,
                                            return_assistant_tokens_mask=True)
        return of(got["input_ids"], got["assistant_masks"])

    lines = [json.dumps({"made_by": "make_row_golden.py", "seed": seed, "transformers": transformers.__version__,
                         "chat_template": shipped})]
    for form, make in forms:
        for _ in range(ROWS):
            if make is None:
                text = made.text()
                ids = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.convert_tokens_to_ids("<|endoftext|>")]
                row, becomes = {"text": text}, [of(ids, [1] * len(ids))]
            else:
                row, conversations = make()
                becomes = [encoded(c) for c in conversations]
            use = "preference" if form.split()[0] in ("pair", "ranked", "scored") else "instruction"
            lines.append(json.dumps({"form": form, "use": use, "row": row, "becomes": becomes}, ensure_ascii=False,
                                    separators=(",", ":")))
    (HERE / "golden/rows.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} rows of {len(forms)} spellings of forms, seed {seed}, transformers {transformers.__version__}")


# engine/data/template/chat.cc; that it is this one is checked by tests/unit/engine/data/row_masks_test.cc.
SHIPPED = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")

if __name__ == "__main__":
    main()
