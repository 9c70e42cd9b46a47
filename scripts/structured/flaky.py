"""A proxy before `tandem cloud` that fails every tenth ask: `flaky.py URL ids|text`.

With `text` it also tells the cloud that the edge has another vocabulary, so text is exchanged where both
models have the same. Listens on a free port of loopback, which it says on stderr.
"""

import http.client
import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

target, exchange = urlparse(sys.argv[1]), sys.argv[2]
# `next` on it is one step of the interpreter, so threads that ask at once count on.
asks = itertools.count(1)


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small packets are answers that somebody waits for.
    disable_nagle_algorithm = True

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/next") and next(asks) % 10 == 0:
            return self.reply(503, b'{"error": {"message": "flaky", "type": "server_error"}}', {})
        if exchange == "text" and (self.command, self.path) == ("POST", "/v1/sessions"):
            body = json.dumps({**json.loads(body), "vocabulary": "0" * 32}).encode()
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=600)
        left_out = ("host", "connection", "content-length")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in left_out}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        self.reply(answer.status, answer.read(), answer.headers)
        connection.close()

    def reply(self, status, body, headers):
        self.send_response(status)
        self.send_header("Content-Type", headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = relay

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(f"listening on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
