"""A webhook for tests, on a socket in the file system, or on an address of this machine with a certificate of its own."""
import http.server
import json
import pathlib
import shutil
import socketserver
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse


def make_certificate(folder, name, alternative):
    """folder/cert, for who is to trust it, and folder/both, which also holds the key. alternative: "DNS:..." or "IP:..."."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName={alternative}", "-keyout", folder / "key", "-out", folder / "cert"], check=True,
                   capture_output=True)
    (folder / "both").write_text((folder / "key").read_text() + (folder / "cert").read_text())


class Hook:
    """Answers as the list says, then 200; remembers what was posted. `certificate`: a file of make_certificate(), for https."""

    def __init__(self, answers=(), delay_s=0.0, certificate=None, address="127.0.0.1"):
        self.posts, self.accepted, answers = [], [], list(answers)
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.posts.append((self.path, dict(self.headers), body))
                time.sleep(delay_s)
                code = answers.pop(0) if answers else 200
                if code == 200:
                    hook.accepted.append(json.loads(body))
                try:
                    self.send_response(code)
                    self.end_headers()
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.folder = None
        if certificate:
            self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.port = self.server.server_address[1]
        else:
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-hook-"))
            self.server = socketserver.ThreadingUnixStreamServer(str(self.folder / "socket"), Handler)
            self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        if self.folder:
            shutil.rmtree(self.folder)

    def address(self, path, host="127.0.0.1"):
        if self.folder:
            return f"http+unix://{urllib.parse.quote(str(self.folder / 'socket'), safe='')}/{path}"
        return f"https://{host}:{self.port}/{path}"
