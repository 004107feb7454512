"""The server program as its clients see it. Usage: server_test.py PATH_TO_server_fake_model [unittest options].

The model behind it is a fake (server_fake_model.cc), so every answer is known; everything else is the program itself.
"""
import atexit
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from scenario import PATIENCE

PROGRAM = sys.argv.pop(1)
SEED = int(os.environ.get("LONGHAUL_TEST_SEED", random.randrange(1 << 31)))


class Server:
    def __init__(self, *options, model="echo"):
        self.folder = tempfile.TemporaryDirectory()
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        address = os.path.join(self.folder.name, "address.json")
        self.token_file = os.path.join(self.folder.name, "token")
        arguments = [PROGRAM, "--model", model, "--model-name", "tiny", "--address-file", address, *options]
        if "--no-token" in options:
            arguments += ["--host", "127.0.0.1"]
        else:
            arguments += ["--token-file", self.token_file]
        self.process = subprocess.Popen(arguments, stderr=self.log, stdout=self.log)
        atexit.register(self.process.terminate)  # also after a test that failed half-way
        self.wait(lambda: os.path.exists(address))
        with open(address) as file:
            self.port = json.load(file)["port"]
        self.token = "" if "--no-token" in options else open(self.token_file).read().strip()
        self.wait(lambda: self.get("/health")[0] == 200)

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + self.text())
            time.sleep(0.01)
        raise AssertionError("not in time; log: " + self.text())

    def text(self):
        with open(self.log.name) as file:
            return file.read()

    def headers(self, token=None):
        token = self.token if token is None else token
        return {"Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {})}

    def request(self, method, path, body=None, token=None, timeout=20 * PATIENCE):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            client.request(method, path, body=body, headers=self.headers(token))
            answer = client.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            client.close()

    def get(self, path, token=None):
        return self.request("GET", path, token=token)

    def post(self, path, value, token=None, timeout=20 * PATIENCE):
        body = value if isinstance(value, (bytes, str)) else json.dumps(value)
        status, text, headers = self.request("POST", path, body, token, timeout)
        return status, json.loads(text), headers

    def complete(self, prompt, **more):
        return self.post("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 64, **more})

    def events(self, path, value):
        """The events of a stream, each with the time of its arrival."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20 * PATIENCE)
        client.request("POST", path, body=json.dumps(value), headers=self.headers())
        answer = client.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader("Content-Type").startswith("text/event-stream")
        out = []
        for line in iter(answer.readline, b""):
            if line.strip():
                assert line.startswith(b"data: "), line
                out.append((time.monotonic(), line[6:].strip()))
        client.close()
        return out

    def raw(self, data=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20 * PATIENCE)
        connection.sendall(data)
        return connection

    def metric(self, name):
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith("longhaul_" + name + " "):
                return float(line.split()[1])
        raise AssertionError(name + " is no metric")

    def wait_for_metric(self, name, expected, seconds=20):
        """What the metric is once it is what was expected, or after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.metric(name) != expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.metric(name)

    def stop(self, code=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(timeout=20 * PATIENCE)
        self.log.close()
        self.folder.cleanup()
        assert got == code, got


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-tokens", "2000")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_models(self):
        status, body, _ = self.server.get("/v1/models")
        listed = json.loads(body)
        self.assertEqual((status, listed["object"], listed["data"][0]["id"]), (200, "list", "tiny"))
        self.assertEqual(json.loads(self.server.get("/v1/models/tiny")[1])["object"], "model")
        self.assertEqual(self.server.get("/v1/models/other")[0], 404)

    def test_completion(self):
        status, body, _ = self.server.complete("hello")
        self.assertEqual(status, 200)
        self.assertEqual(body["object"], "text_completion")
        self.assertEqual(body["choices"][0]["text"], "hello")
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        self.assertEqual(body["usage"], {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11})

    def test_prompts_as_list_and_as_tokens(self):
        _, body, _ = self.server.complete(["one", "two"])
        self.assertEqual([(c["index"], c["text"]) for c in body["choices"]], [(0, "one"), (1, "two")])
        _, body, _ = self.server.complete([104, 105])
        self.assertEqual(body["choices"][0]["text"], "hi")
        _, body, _ = self.server.complete([[104, 105], [111]])
        self.assertEqual([c["text"] for c in body["choices"]], ["hi", "o"])

    def test_length_and_stop(self):
        _, body, _ = self.server.complete("abcdefgh", max_tokens=3)
        self.assertEqual((body["choices"][0]["text"], body["choices"][0]["finish_reason"]), ("abc", "length"))
        _, body, _ = self.server.complete("abcdefgh", stop=["xyz", "de"])
        self.assertEqual((body["choices"][0]["text"], body["choices"][0]["finish_reason"]), ("abc", "stop"))

    def test_echo_with_logprobs_of_the_prompt(self):
        """As evaluation harnesses ask for log-likelihoods: no answer wanted but one token."""
        _, body, _ = self.server.complete([97, 98, 99], max_tokens=1, echo=True, logprobs=1)
        choice = body["choices"][0]
        self.assertEqual(choice["text"], "abca")
        logprobs = choice["logprobs"]
        self.assertEqual(logprobs["tokens"], ["a", "b", "c", "a"])
        self.assertEqual(logprobs["text_offset"], [0, 1, 2, 3])
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertIsNone(logprobs["top_logprobs"][0])
        self.assertLess(logprobs["token_logprobs"][1], -20)  # after 'a' the fake expects 'a'
        self.assertEqual(list(logprobs["top_logprobs"][1]), ["a"])
        self.assertAlmostEqual(logprobs["token_logprobs"][3], 0, places=5)

    def test_offsets_count_from_the_prompt(self):
        _, body, _ = self.server.complete("abcdefghij", max_tokens=2, logprobs=1)
        self.assertEqual(body["choices"][0]["logprobs"]["text_offset"], [10, 11])

    def test_more_tokens_than_there_is_room_for(self):
        status, body, _ = self.server.post("/v1/chat/completions", {
            "max_tokens": 100000, "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})
        self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "b"))

    def test_chat(self):
        status, body, _ = self.server.post("/v1/chat/completions", {
            "model": "tiny", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "2+2?"}]})
        self.assertEqual((status, body["object"]), (200, "chat.completion"))
        self.assertEqual(body["choices"][0]["message"], {"role": "assistant", "content": "2+2?"})

    def test_streams(self):
        call = {"prompt": "héllo €", "stream": True, "max_tokens": 64, "stream_options": {"include_usage": True}}
        events = [data for _, data in self.server.events("/v1/completions", call)]
        self.assertEqual(events[-1], b"[DONE]")
        pieces = [json.loads(data) for data in events[:-1]]
        self.assertEqual(len({piece["id"] for piece in pieces}), 1)
        self.assertEqual("".join(p["choices"][0]["text"] for p in pieces[:-1]), "héllo €")
        self.assertEqual(pieces[-2]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(pieces[-1]["choices"], [])
        self.assertEqual(pieces[-1]["usage"]["completion_tokens"], 11)

        call = {"messages": [{"role": "user", "content": "hey"}], "stream": True}
        pieces = [json.loads(data) for _, data in self.server.events("/v1/chat/completions", call)[:-1]]
        self.assertEqual(pieces[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(pieces[0]["object"], "chat.completion.chunk")
        self.assertEqual("".join(p["choices"][0]["delta"].get("content", "") for p in pieces), "hey")
        self.assertEqual(pieces[-1]["choices"][0]["finish_reason"], "stop")

    def test_it_listens_to_its_own_machine_alone(self):
        listening = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if os.path.exists(table):
                with open(table) as file:
                    rows = [line.split() for line in file.readlines()[1:]]
                listening += [row[1] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == self.server.port]
        self.assertEqual(listening, [f"0100007F:{self.server.port:04X}"])

    def test_token_is_asked_for(self):
        for token in ("", "wrong", self.server.token[:-1], self.server.token + "x"):
            status, body, _ = self.server.request("GET", "/v1/models", token=token)
            self.assertEqual(status, 401, token)
            self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")
        for path in ("/v1/models", "/v1/models/x", "/v1/completions", "/v1/chat/completions", "/metrics", "/health", "/", "/none"):
            for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
                status = self.server.request(method, path, token="")[0]
                self.assertEqual(status, 200 if (path, method) == ("/health", "GET") else 401, f"{method} {path}")
        self.assertEqual(os.stat(self.server.token_file).st_mode & 0o777, 0o600)
        self.assertGreaterEqual(len(self.server.token), 43)
        self.assertNotIn(self.server.token, self.server.text())

    def test_refusals_name_the_parameter(self):
        for change, param in (({"temperature": 3}, "temperature"), ({"temperature": "hot"}, "temperature"),
                              ({"max_tokens": -1}, "max_tokens"), ({"logit_bias": {"foo": 0}}, "logit_bias"), ({"stop": list("abcde")}, "stop"),
                              ({"top_p": 2}, "top_p"), ({"prompt": {"a": 1}}, "prompt"), ({"prompt": []}, "prompt"),
                              ({"prompt": [1, "a"]}, "prompt"), ({"n": 0}, "n"), ({"logprobs": 99}, "logprobs")):
            status, body, _ = self.server.post("/v1/completions", {"prompt": "x", **change})
            self.assertEqual((status, body["error"]["param"]), (400, param), body)
            self.assertEqual(body["error"]["type"], "invalid_request_error")
        status, body, _ = self.server.post("/v1/completions", {"prompt": "x", "model": "other"})
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
        status, body, _ = self.server.post("/v1/chat/completions", {"messages": [{"role": "function", "content": "x"}]})
        self.assertEqual((status, body["error"]["param"]), (400, "messages[0].role"))
        self.assertEqual(self.server.complete([300])[0], 400)  # outside of the vocabulary
        self.assertEqual(self.server.complete("x" * 4100)[0], 400)  # longer than the context
        self.assertEqual(self.server.complete("x", logit_bias={}, user="me", best_of=1)[0], 200)
        status, body, _ = self.server.complete("x" * 4100)
        self.assertEqual((status, body["error"]["code"]), (400, "context_length_exceeded"))

    def test_paths_and_methods(self):
        self.assertEqual(self.server.get("/v1/nothing")[0], 404)
        status, _, headers = self.server.get("/v1/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("DELETE", "/v1/models")[0], 405)

    def test_bad_bodies(self):
        nested = b"[" * 100_000 + b"]" * 100_000
        for body in (b"", b"{", b"nonsense", b"[1, 2]", b"\"text\"", b"{\"prompt\": \"\xff\xfe\"}", nested,
                     b"{\"prompt\": " + nested + b"}", b"{\"prompt\": \"\\ud800\"}", b"\x00" * 100,
                     b"{\"prompt\": \"x\"} {\"prompt\": \"y\"}"):
            status, answer, _ = self.server.post("/v1/completions", body)
            self.assertEqual(status, 400, body[:40])
            self.assertTrue(answer["error"]["message"])
        self.assertEqual(self.server.complete("still here")[0], 200)

    def test_large_bodies(self):
        status, body, _ = self.server.post("/v1/completions", {"prompt": "x" * (2 << 20)})
        self.assertEqual(status, 413)
        # The same in chunks: no length is announced.
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20 * PATIENCE)
        pieces = (b"x" * 65536 for _ in range(32))
        client.request("POST", "/v1/completions", body=pieces, headers=self.server.headers(), encode_chunked=True)
        self.assertEqual(client.getresponse().status, 413)
        client.close()

    def test_chunked_body_and_expect(self):
        body = json.dumps({"prompt": "chunks", "max_tokens": 64}).encode()
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20 * PATIENCE)
        client.request("POST", "/v1/completions", body=(body[i:i + 1] for i in range(len(body))),
                       headers=self.server.headers(), encode_chunked=True)
        self.assertEqual(json.loads(client.getresponse().read())["choices"][0]["text"], "chunks")
        client.close()
        head = ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n"
                "Expect: 100-continue\r\nConnection: close\r\n\r\n" % (self.server.token, len(body))).encode()
        connection = self.server.raw(head)
        self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
        connection.sendall(body)
        self.assertIn(b"HTTP/1.1 200 OK", read_all(connection))

    def test_one_connection_many_requests(self):
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20 * PATIENCE)
        for i in range(20):
            client.request("POST", "/v1/completions", json.dumps({"prompt": str(i)}), self.server.headers())
            self.assertEqual(json.loads(client.getresponse().read())["choices"][0]["text"], str(i))
        client.close()
        # Pipelined: both sent before the first answer.
        one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        self.assertEqual(read_all(self.server.raw(one + one + last)).count(b"HTTP/1.1 200 OK"), 3)

    def test_what_is_no_http(self):
        random.seed(SEED)
        for i in range(60):
            data = random.randbytes(random.randrange(1, 3000)) + b"\r\n\r\n"
            if i % 3 == 0:
                data = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n" + data
            if i % 3 == 1:
                data = b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            answer = read_all(self.server.raw(data))
            self.assertTrue(answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5"), (SEED, i, answer[:80]))
        self.assertEqual(self.server.complete("still here")[0], 200)

    def test_seed_repeats_an_answer(self):
        answers = [self.server.complete("x", seed=7, temperature=2)[1]["choices"][0]["text"] for _ in range(2)]
        self.assertEqual(answers[0], answers[1])

    def test_metrics(self):
        self.server.complete("x")
        self.assertGreaterEqual(self.server.metric("generation_tokens_total"), 2)
        # An answer is sent before the slot that made it is counted as free.
        for gauge in ("requests_running", "cache_pages_used", "cache_pages_promised"):
            self.assertEqual(self.server.wait_for_metric(gauge, 0), 0, gauge)
        self.assertGreater(self.server.metric("cache_pages_free"), 0)
        self.assertEqual(self.server.metric("requests_held_up_total"), 0)


class Load(unittest.TestCase):
    def test_queue_is_bounded(self):
        server = Server("--slots", "2", "--queue-max", "2", "--no-token", model="slow")
        results = []
        call = {"prompt": "forever", "max_tokens": 200}
        def ask():
            results.append(server.post("/v1/completions", call))
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [r for r in results if r[0] == 503]
        self.assertEqual(len([r for r in results if r[0] == 200]), 4)
        self.assertEqual(len(refused), 4)
        self.assertEqual(refused[0][2]["Retry-After"], "1")
        self.assertEqual(refused[0][1]["error"]["code"], "overloaded")
        server.stop()

    def test_deadline_of_a_request(self):
        server = Server("--no-token", "--request-deadline", "500ms", "--max-tokens", "1000", model="slow")
        start = time.monotonic()
        status, body, _ = server.post("/v1/completions", {"prompt": "forever", "max_tokens": 1000})
        self.assertEqual((status, body["error"]["code"]), (504, "deadline"))
        self.assertLess(time.monotonic() - start, 3)
        events = server.events("/v1/completions", {"prompt": "forever", "max_tokens": 1000, "stream": True})
        self.assertIn(b"\"error\"", events[-1][1])
        server.stop()

    def test_clients_that_drip_starve_nobody(self):
        """Eight clients send a byte per second; the ninth is answered at once, and they are cut off at the deadline."""
        server = Server("--no-token", "--header-deadline", "3s")
        for data in (b"", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"):
            stop = threading.Event()
            ends = []
            def drip():
                connection = server.raw(data + b"G")
                start = time.monotonic()
                connection.settimeout(1)
                while not stop.is_set():
                    try:
                        connection.sendall(b"E")
                        if connection.recv(1000):
                            break
                    except socket.timeout:
                        continue
                    except OSError:
                        break
                ends.append(time.monotonic() - start)
                connection.close()
            threads = [threading.Thread(target=drip) for _ in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            latencies = []
            for _ in range(20):
                start = time.monotonic()
                self.assertEqual(server.complete("quick")[0], 200)
                latencies.append(time.monotonic() - start)
            for thread in threads:
                thread.join(timeout=10 * PATIENCE)
            stop.set()
            print("ninth client among eight that drip (%s): median %.1f ms, worst %.1f ms" %
                  ("body" if data else "head", 1000 * sorted(latencies)[10], 1000 * max(latencies)), file=sys.stderr)
            self.assertLess(max(latencies), 1)
            self.assertEqual(len(ends), 8)
            self.assertLess(max(ends), 6)
            self.assertGreater(min(ends), 2)
        server.stop()

    def test_connections_are_bounded(self):
        """More idle and dripping connections than allowed: the oldest make room, a new client is served."""
        server = Server("--no-token", "--connections-max", "16")
        held = [server.raw(b"GET") for _ in range(40)]
        start = time.monotonic()
        self.assertEqual(server.complete("quick")[0], 200)
        self.assertLess(time.monotonic() - start, 1)
        self.assertLessEqual(server.metric("http_connections"), 16)
        for connection in held:
            connection.close()
        server.stop()

    def test_client_that_does_not_read(self):
        """It asks for a long stream and never reads; others are answered meanwhile and it is dropped in the end."""
        server = Server("--no-token", "--max-tokens", "4000")
        body = json.dumps({"prompt": "forever", "max_tokens": 4000, "stream": True}).encode()
        deaf = [server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                for _ in range(4)]
        start = time.monotonic()
        self.assertEqual(server.complete("quick")[0], 200)
        self.assertLess(time.monotonic() - start, 5)
        for connection in deaf:
            connection.close()
        server.stop()

    def test_client_that_leaves_frees_its_slot(self):
        server = Server("--no-token", "--slots", "1", "--max-tokens", "4000", model="slow")
        for stream in (True, False):
            body = json.dumps({"prompt": "forever", "max_tokens": 4000, "stream": stream}).encode()
            connection = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait(lambda: server.metric("requests_running") == 1)
            if stream:
                self.assertIn(b"200 OK", connection.recv(1000))
            connection.close()
            server.wait(lambda: server.metric("requests_running") == 0, seconds=3)
        self.assertEqual(server.complete("next")[1]["choices"][0]["text"], "next")
        server.stop()

    def test_answers_interleave(self):
        """Four streams at once take about as long as one, not four times as long."""
        server = Server("--no-token", "--slots", "4", model="slow")
        call = {"prompt": "forever", "max_tokens": 40, "stream": True}
        start = time.monotonic()
        server.events("/v1/completions", call)
        alone = time.monotonic() - start
        threads = [threading.Thread(target=server.events, args=("/v1/completions", call)) for _ in range(4)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLess(time.monotonic() - start, 2.5 * alone)
        server.stop()


class Life(unittest.TestCase):
    def test_sigterm_finishes_what_runs(self):
        server = Server("--no-token", model="slow")
        results = []
        thread = threading.Thread(target=lambda: results.append(server.events(
            "/v1/completions", {"prompt": "forever", "max_tokens": 60, "stream": True})))
        idle = server.raw()
        half = server.raw(b"POST /v1/completions HTTP/1.1\r\n")
        thread.start()
        server.wait(lambda: server.metric("requests_running") == 1)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=2)
        thread.join()
        self.assertEqual(results[0][-1][1], b"[DONE]")
        self.assertIn(b"503", read_all(half))
        idle.close()
        server.stop(code=0)

    def test_drain_has_a_deadline(self):
        server = Server("--no-token", "--drain-deadline", "500ms", "--max-tokens", "4000", model="slow")
        results = []
        thread = threading.Thread(target=lambda: results.append(
            server.post("/v1/completions", {"prompt": "forever", "max_tokens": 4000})))
        thread.start()
        server.wait(lambda: server.metric("requests_running") == 1)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=10 * PATIENCE)
        self.assertLess(time.monotonic() - start, 4)
        thread.join()
        self.assertEqual((results[0][0], results[0][1]["error"]["code"]), (503, "shutting_down"))
        server.stop(code=0)

    def supervised(self, **more):
        with tempfile.NamedTemporaryFile() as file:
            status = file.name
        server = Server("--no-token", "--supervised", "--status-file", status, **more)
        server.wait(lambda: os.path.exists(status))
        return server, lambda: json.load(open(status))

    def test_supervisor_starts_a_killed_server_again(self):
        server, status = self.supervised()
        before = status()
        os.kill(before["server_pid"], signal.SIGKILL)
        start = time.monotonic()
        codes = [server.complete("again")[0]]  # waits in the socket's queue, is not refused
        while codes[-1] == 503 and time.monotonic() - start < 10:  # the new one loads its model
            codes.append(server.complete("again")[0])
        self.assertEqual(codes[-1], 200)
        print("answer after the server was killed: %.0f ms" % (1000 * (time.monotonic() - start)), file=sys.stderr)
        server.wait(lambda: status()["restarts"] == 1)
        after = status()
        self.assertNotEqual(before["server_pid"], after["server_pid"])
        server.stop(code=0)
        with self.assertRaises(ProcessLookupError):
            os.kill(after["server_pid"], 0)

    def test_supervisor_gives_up(self):
        server, status = self.supervised()
        for i in range(6):
            server.wait(lambda: status()["restarts"] == i)
            pid = status()["server_pid"]
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(server.process.wait(timeout=20 * PATIENCE), 1)
        self.assertIn("give_up", server.text())
        server.stop(code=1)

    def test_server_dies_with_its_supervisor(self):
        server, status = self.supervised()
        pid = status()["server_pid"]
        server.process.kill()
        server.process.wait()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                with open("/proc/%d/stat" % pid) as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        break
            except FileNotFoundError:
                break
            time.sleep(0.05)
        else:
            self.fail("the server outlived its supervisor")
        server.stop(code=-signal.SIGKILL)

    def test_trust_without_token_only_own_programs_are_answered(self):
        server = Server("--no-token", "--max-tokens", "8")
        body = json.dumps({"prompt": "ab", "max_tokens": 2}).encode()
        port = server.port

        def ask(*headers, method="POST", path="/v1/completions"):
            head = "%s %s HTTP/1.1\r\n%s\r\nConnection: close\r\n" % (method, path, "\r\n".join(headers))
            data = body if method == "POST" else b""
            answer = read_all(server.raw(("%sContent-Length: %d\r\n\r\n" % (head, len(data))).encode() + data))
            self.assertIn(b"X-Content-Type-Options: nosniff\r\n", answer)
            return int(answer.split()[1])

        is_json = "Content-Type: application/json; charset=utf-8"
        for host in ("127.0.0.1", "127.0.0.1:%d" % port, "localhost", "LocalHost:9000", "[::1]", "[::1]:%d" % port):
            self.assertEqual(ask("Host: " + host, is_json), 200, host)
        for host in ("evil.example", "evil.example:%d" % port, "127.evil.example", "127.0.0.1.evil.example", "localhost.",
                     "localhost:80@evil", "[::2]", "[::1", "::1", "169.254.169.254", ""):
            for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/health")):
                self.assertEqual(ask("Host: " + host, is_json, method=method, path=path), 403, (host, path))
        for origin in ("https://evil.example", "null", "http://localhost:%d" % port):
            self.assertEqual(ask("Host: localhost", is_json, "Origin: " + origin), 403, origin)
            self.assertEqual(ask("Host: localhost", "Origin: " + origin, method="GET", path="/v1/models"), 403, origin)
        for kind in ("Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "X-Nothing: 1"):
            self.assertEqual(ask("Host: localhost", kind), 415, kind)
        self.assertIn("every user of this machine", server.text())
        server.stop()

    def test_trust_health_gives_strangers_no_name(self):
        server = Server()
        self.assertEqual(json.loads(server.get("/health", token="")[1]), {"status": "ok"})
        self.assertEqual(json.loads(server.get("/health", token="wrong")[1]), {"status": "ok"})
        self.assertEqual(json.loads(server.get("/health")[1]), {"status": "ok", "model": "tiny"})
        server.stop()

    def test_trust_a_socket_serves_only_its_owner(self):
        for more in ([], ["--supervised"]):
            with tempfile.TemporaryDirectory() as folder:
                path, address = folder + "/own/socket", folder + "/address.json"
                arguments = [PROGRAM, "--model", "echo", "--socket", path, "--address-file", address, *more]
                old = os.umask(0)
                process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
                os.umask(old)
                client = http.client.HTTPConnection("localhost")
                end = time.monotonic() + 20
                while not os.path.exists(address):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.01)
                self.assertEqual(os.stat(folder + "/own").st_mode & 0o777, 0o700)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                status = 503
                while status == 503 and time.monotonic() < end:  # the model loads
                    client.sock = socket.socket(socket.AF_UNIX)
                    client.sock.connect(path)
                    client.request("POST", "/v1/completions", json.dumps({"prompt": "ab", "max_tokens": 2}),
                                   {"Content-Type": "application/json"})
                    answer = client.getresponse()
                    status = answer.status
                    answer.read()
                    client.close()
                self.assertEqual(status, 200)
                with open(address) as file:
                    self.assertEqual(json.load(file)["socket"], path)
                second = subprocess.run(arguments[:5], capture_output=True, timeout=20 * PATIENCE)
                self.assertEqual(second.returncode, 1)
                self.assertIn(b"already", second.stderr)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=20 * PATIENCE), 0)
                self.assertFalse(os.path.exists(path))
                os.chmod(folder + "/own", 0o755)
                open_to_all = subprocess.run(arguments[:5], capture_output=True, timeout=20 * PATIENCE)
                self.assertEqual(open_to_all.returncode, 1)
                self.assertIn(b"mode 0755", open_to_all.stderr)

    def test_model_that_cannot_be_loaded(self):
        for more in ([], ["--supervised"]):
            run = subprocess.run([PROGRAM, "--model", "missing", "--no-token", "--host", "127.0.0.1", *more], capture_output=True, timeout=20 * PATIENCE)
            self.assertEqual(run.returncode, 2)
            self.assertIn(b"no such model", run.stderr)

    def test_wrong_arguments(self):
        for arguments, what in ((["--no-token", "--host", "0.0.0.0"], b"needs a token"), (["--portt", "1"], b"--portt"),
                                (["--no-token", "--port", "99999"], b"--port"), ([], b"--token-file"),
                                (["--no-token"], b"--socket"), (["--socket", "s", "--port", "1"], b"--port"),
                                (["--no-token", "--body-max", "many"], b"--body-max")):
            run = subprocess.run([PROGRAM, "--model", "echo", *arguments], capture_output=True, timeout=20 * PATIENCE)
            self.assertEqual(run.returncode, 2, arguments)
            self.assertIn(what, run.stderr)

    def test_token_file_that_others_can_read(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789abcdef0123456789abcdef")
            file.flush()
            os.chmod(file.name, 0o644)
            run = subprocess.run([PROGRAM, "--model", "echo", "--token-file", file.name], capture_output=True, timeout=20 * PATIENCE)
            self.assertEqual(run.returncode, 2)
            self.assertIn(b"chmod 600", run.stderr)


if __name__ == "__main__":
    print("seed", SEED, file=sys.stderr)
    unittest.main(warnings="ignore")
