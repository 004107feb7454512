#!/usr/bin/env python3
"""openai-python against servers of models with chat templates of their own. Usage: check_templates_live.py LONGHAUL_ENGINE [FAKE_SERVER]

The model is golden/model-untied with a longer context; the templates are those of templates/ in the forms of ChatML, Qwen 2.5,
Llama 3 and 3.1, and Mistral 7B v0.3. A chat has to have as many tokens of prompt as transformers' apply_chat_template makes, and
the same greedy answer with the same log-probabilities as a completion of exactly those ids: so the prompts are the same. With
FAKE_SERVER (build/release/bin/server_fake_model: its model answers with the last message) also calls of tools in answers, whole and in
a stream. Needs openai and transformers; loopback alone. Prints a line for each check, and ends with 1 where one fails.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import openai
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SPECIAL = {"bos_token": "<|endoftext|>", "eos_token": "<|end|>"}
TEXTS = ["Hello", " spaces around  ", "2 + 2?\n", "船は九時に出る。", "{{ x }} {% raw %}", "quotes \" and \\", "<b>&amp;</b>", "it's"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather \"now\"", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": ["city"]}}}]
failures = checks = 0


def expect(what, holds, seen=""):
    global failures, checks
    checks += 1
    failures += not holds
    print("ok  " if holds else "FAIL", what, "" if holds else f"\n     seen: {str(seen)[:600]}")


class Server:
    def __init__(self, program, model, folder):
        token, address = folder / "token", folder / "address.json"
        self.process = subprocess.Popen([*program, "--model", str(model), "--model-name", "model", "--token-file", str(token),
                                         "--address-file", str(address), "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not address.exists():
            assert self.process.poll() is None and time.monotonic() < end, "the server did not start"
            time.sleep(0.05)
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{json.loads(address.read_text())['port']}/v1",
                                    api_key=token.read_text().strip(), max_retries=20, timeout=60)

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)


def conversation(draw, tools):
    messages = [{"role": "system", "content": draw.choice(TEXTS)}] if draw.random() < 0.4 and not tools else []
    for _ in range(draw.randint(0, 2)):
        messages += [{"role": "user", "content": draw.choice(TEXTS)}, {"role": "assistant", "content": draw.choice(TEXTS)}]
    messages.append({"role": "user", "content": draw.choice(TEXTS)})
    if tools and draw.random() < 0.6:
        call = {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": draw.choice(TEXTS)}}}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "abcdefghi", "content": draw.choice(TEXTS)}]
    return messages


def as_sent(messages):
    """As OpenAI's clients send it: arguments are a text."""
    sent = json.loads(json.dumps(messages))
    for message in sent:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return sent


def check_template(name, takes_tools, client, tokenizer, source):
    draw = random.Random(name)
    equal = asked = 0
    for _ in range(20):
        tools = TOOLS if takes_tools and draw.random() < 0.6 else None
        messages = conversation(draw, tools)
        ids = tokenizer.apply_chat_template(messages, tools=tools, chat_template=source, add_generation_prompt=True, tokenize=True, return_dict=False)
        chat = client.chat.completions.create(model="model", messages=as_sent(messages), tools=tools or openai.NOT_GIVEN, max_tokens=6,
                                              temperature=0, logprobs=True)
        plain = client.completions.create(model="model", prompt=ids, max_tokens=6, temperature=0, logprobs=0)
        asked += 1
        mine = [t.logprob for t in chat.choices[0].logprobs.content]
        theirs = plain.choices[0].logprobs.token_logprobs
        same = (chat.usage.prompt_tokens == len(ids) and chat.choices[0].message.content == plain.choices[0].text
                and len(mine) == len(theirs) and all(abs(a - b) < 1e-4 for a, b in zip(mine, theirs, strict=True)))
        equal += same
        if not same:
            print("     differs:", chat.usage.prompt_tokens, len(ids), messages)
    expect(f"{name}: {equal} of {asked} prompts are those of transformers", equal == asked)
    if takes_tools:
        return
    try:
        client.chat.completions.create(model="model", messages=[{"role": "user", "content": "a"}], tools=TOOLS, max_tokens=1)
        expect(f"{name}: tools are refused", False)
    except openai.BadRequestError as error:
        expect(f"{name}: tools are refused by name", error.param == "tools" and "leaves out the tool 'get_weather'" in str(error), error)


def check_calls(client):
    text = 'So: <tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    asked = {"model": "model", "messages": [{"role": "user", "content": text}], "max_tokens": 200, "temperature": 0}
    answer = client.chat.completions.create(**asked, tools=TOOLS).choices[0]
    call = answer.message.tool_calls[0]
    expect("openai: a call is given back as one", answer.finish_reason == "tool_calls" and answer.message.content == "So:"
           and call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Rome"}, answer)
    pieces = [c for p in client.chat.completions.create(**asked, tools=TOOLS, stream=True) for c in p.choices]
    calls = [c for p in pieces for c in p.delta.tool_calls or []]
    expect("openai: and in a stream", len(calls) == 1 and calls[0].function.name == "get_weather" and pieces[-1].finish_reason == "tool_calls"
           and "".join(p.delta.content or "" for p in pieces) == "So:", pieces)
    with client.chat.completions.stream(**asked, tools=TOOLS) as stream:
        final = stream.get_final_completion().choices[0]
    expect("openai: its own gathering of a stream", final.message.tool_calls[0].function.arguments == call.function.arguments, final)
    back = [asked["messages"][0], answer.message, {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}]
    again = client.chat.completions.create(**(asked | {"messages": back}), tools=TOOLS).choices[0]
    expect("openai: the call and the tool's answer given back", again.message.content == "12 degrees" and again.finish_reason == "stop", again)
    none = client.chat.completions.create(**asked, tools=TOOLS, tool_choice="none").choices[0]
    expect("openai: tool_choice = none", none.message.content == text and not none.message.tool_calls, none)
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        try:
            client.chat.completions.create(**asked, tools=TOOLS, tool_choice=choice)
            expect(f"openai: tool_choice = {choice} is refused", False)
        except openai.BadRequestError as error:
            expect(f"openai: tool_choice = {choice} is refused", error.param == "tool_choice", error)


def main():
    engine = [sys.argv[1], "serve", "--precision", "f32"]
    for name, takes_tools in (("chatml", False), ("llama3", False), ("qwen25", True), ("llama31", True), ("mistral3", True)):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            model = folder / "model"
            shutil.copytree(HERE / "golden/model-untied", model)
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
            (model / "tokenizer_config.json").write_text(json.dumps(SPECIAL))
            source = (HERE / "templates" / f"{name}.jinja").read_text()
            (model / "chat_template.jinja").write_text(source)
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), **SPECIAL)
            with Server(engine, model, folder) as client:
                check_template(name, takes_tools, client, tokenizer, source)
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as scratch, Server([sys.argv[2], "serve"], "tools", pathlib.Path(scratch)) as client:
            check_calls(client)
    print(f"{checks} checks, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
