#!/usr/bin/env python3
"""openai-python, litellm and curl against a server of ours. Usage: check_clients.py LONGHAUL_ENGINE MODEL_FOLDER

MODEL_FOLDER: a model with Longhaul's form of conversations, say of the quickstart, with a context of 1,024 tokens or more; it is
asked as it is, and with a chat template in the form of Qwen 2.5, which writes tools. Needs openai, litellm and curl; loopback
alone. Prints a line for each check, and ends with 1 where one fails. Answers are whatever the model says: what is checked
is that each client sends and understands what it should, in every form of tests/cases/requests.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ENGINE, MODEL = sys.argv[1:3]
CASES = pathlib.Path(__file__).parents[1] / "cases/requests"
failures = checks = 0


def expect(what, holds, seen=""):
    global failures, checks
    checks += 1
    failures += not holds
    print("ok  " if holds else "FAIL", what, "" if holds else f"\n     seen: {str(seen)[:500]}")


def lines(name):
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


def curl(url, token, body):
    done = subprocess.run(["curl", "-sS", "-m", "60", "-w", "\n%{http_code}", url, "-H", "Content-Type: application/json", "-H",
                           f"Authorization: Bearer {token}", "-d", "@-"], input=json.dumps(body), capture_output=True, text=True)
    text, code = done.stdout.rsplit("\n", 1)
    return int(code), json.loads(text)


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


def by_curl(base, token, takes_tools):
    for name, path in (("chat.jsonl", "chat/completions"), ("completions.jsonl", "completions")):
        for one in lines(name):
            code, answer = curl(f"{base}/{path}", token, one["body"])
            expect(f"curl: {one['why']}", code == 200, answer)
    for one in lines("own.jsonl"):
        path = "chat/completions" if one["path"] == "chat" else "completions"
        body = {"model": "model", "max_tokens": 2, **one["body"]}
        if body.get("stream"):
            body["stream"] = "error" not in one and body["stream"]
        code, answer = curl(f"{base}/{path}", token, body)
        if one.get("tools") and not takes_tools:
            one |= {"param": "tools", "error": "'tools' is not used"}
        refused = code == 400 and answer["error"]["param"] == one.get("param") and one.get("error", "") in answer["error"]["message"]
        expect(f"curl: {one['why']}", refused if "error" in one else code == 200, (code, answer))
    code, answer = curl(f"{base}/completions", token, {"model": "model", "prompt": "a b " * 20_000, "max_tokens": 1})
    expect("curl: a prompt longer than the context is the documented 400",
           code == 400 and answer["error"]["code"] == "context_length_exceeded", (code, answer))


def by_openai(base, token, takes_tools):
    import openai
    client = openai.OpenAI(base_url=base, api_key=token, max_retries=0, timeout=60)
    expect("openai: models", [m.id for m in client.models.list()] == ["model"])
    asked = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    answer = client.chat.completions.create(model="model", messages=asked, max_completion_tokens=4, n=2, temperature=1, seed=3)
    expect("openai: a chat with two answers", len(answer.choices) == 2 and answer.usage.completion_tokens <= 8, answer)
    # The message of an answer is given back as the client has it, with all its empty fields.
    back = asked + [answer.choices[0].message, {"role": "user", "content": "and?"}]
    again = client.chat.completions.create(model="model", messages=back, max_completion_tokens=4)
    expect("openai: an answer given back", again.usage.prompt_tokens > answer.usage.prompt_tokens, again)
    pieces = list(client.chat.completions.create(model="model", messages=asked, max_tokens=4, stream=True, temperature=0,
                                                 stream_options={"include_usage": True}))
    expect("openai: a stream ends with its usage", pieces[-1].usage and not pieces[-1].choices, pieces[-1])
    whole = client.chat.completions.create(model="model", messages=asked, max_tokens=4, temperature=0)
    text = "".join(c.delta.content or "" for p in pieces for c in p.choices)
    expect("openai: the stream says what the whole says", text == (whole.choices[0].message.content or ""), (text, whole))
    scored = client.chat.completions.create(model="model", messages=asked, max_tokens=2, logprobs=True, top_logprobs=2)
    expect("openai: logprobs of a chat", all(len(t.top_logprobs) == 2 for t in scored.choices[0].logprobs.content), scored)
    done = client.completions.create(model="model", prompt=["a", "b"], max_tokens=2, logprobs=2, echo=True)
    expect("openai: two prompts, with echo", len(done.choices) == 2 and done.choices[0].text.startswith("a"), done)
    refused = [] if takes_tools else [("tools", dict(tools=TOOLS))]
    if takes_tools:
        called = client.chat.completions.create(model="model", messages=asked, tools=TOOLS, max_tokens=2)
        expect("openai: tools are written", called.usage.prompt_tokens > whole.usage.prompt_tokens + 20, called)
    for what, call in (*refused, ("response_format", dict(response_format={"type": "json_object"})), ("reasoning_effort", dict(reasoning_effort="high"))):
        try:
            client.chat.completions.create(model="model", messages=asked, **call)
            expect(f"openai: {what} are refused", False)
        except openai.BadRequestError as error:
            expect(f"openai: {what} are refused", error.param == what, error)
    try:
        client.completions.create(model="model", prompt="a b " * 20_000, max_tokens=1)
        expect("openai: too long a prompt", False)
    except openai.BadRequestError as error:
        expect("openai: too long a prompt", error.code == "context_length_exceeded", error)
    try:
        openai.OpenAI(base_url=base, api_key="wrong", max_retries=0).models.list()
        expect("openai: another token", False)
    except openai.AuthenticationError as error:
        expect("openai: another token", error.status_code == 401, error)


def by_litellm(base, token, takes_tools):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
    import litellm
    litellm.telemetry = False
    given = dict(api_base=base, api_key=token, num_retries=0, timeout=60)
    asked = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    answer = litellm.completion(model="openai/model", messages=asked, max_tokens=4, temperature=0, **given)
    expect("litellm: a chat", answer.usage.completion_tokens <= 4, answer)
    back = asked + [answer.choices[0].message.model_dump(), {"role": "user", "content": "and?"}]
    again = litellm.completion(model="openai/model", messages=back, max_tokens=4, **given)
    expect("litellm: an answer given back", again.usage.prompt_tokens > answer.usage.prompt_tokens, again)
    pieces = list(litellm.completion(model="openai/model", messages=asked, max_tokens=4, temperature=0, stream=True, **given))
    text = "".join(p.choices[0].delta.content or "" for p in pieces)
    expect("litellm: the stream says what the whole says", text == (answer.choices[0].message.content or ""), (text, answer))
    done = litellm.text_completion(model="text-completion-openai/model", prompt="a", max_tokens=2, **given)
    expect("litellm: a completion", done.usage.completion_tokens <= 2, done)
    if takes_tools:
        called = litellm.completion(model="openai/model", messages=asked, tools=TOOLS, max_tokens=2, **given)
        expect("litellm: tools are written", called.usage.prompt_tokens > answer.usage.prompt_tokens + 20, called)
        return
    try:
        litellm.completion(model="openai/model", messages=asked, tools=TOOLS, **given)
        expect("litellm: tools are refused", False)
    except litellm.BadRequestError as error:
        expect("litellm: tools are refused", "'tools' is not used" in str(error), error)


def check_model(model, takes_tools):
    with tempfile.TemporaryDirectory() as folder:
        address, token = pathlib.Path(folder) / "address.json", pathlib.Path(folder) / "token"
        server = subprocess.Popen([ENGINE, "serve", "--model", model, "--model-name", "model", "--token-file", str(token),
                                   "--address-file", str(address)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while not address.exists():
                assert server.poll() is None and time.monotonic() < end, "the server did not start"
                time.sleep(0.05)
            base = f"http://127.0.0.1:{json.loads(address.read_text())['port']}/v1"
            secret = token.read_text().strip()
            while curl(f"{base}/completions", secret, {"model": "model", "prompt": "a", "max_tokens": 1})[0] == 503:
                assert time.monotonic() < end, "the model was not loaded in time"
                time.sleep(0.05)
            only = sys.argv[3:] or ["curl", "openai", "litellm"]
            for name, check in (("curl", by_curl), ("openai", by_openai), ("litellm", by_litellm)):
                if name in only:
                    check(base, secret, takes_tools)
        finally:
            server.terminate()
            server.wait(20)


def main():
    print("With Longhaul's form of conversations:")
    check_model(MODEL, False)
    print("With a template that writes tools:")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        shutil.copytree(MODEL, model)
        (model / "chat_template.jinja").write_text((pathlib.Path(__file__).parent / "templates/qwen25.jinja").read_text())
        check_model(str(model), True)
    print(f"{checks} checks, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
