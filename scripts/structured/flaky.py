"""A proxy that fails every tenth ask: `flaky.py PORT TARGET`."""

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

target = urlparse(sys.argv[2])
asks = 0


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self):
        global asks
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/next"):
            asks += 1
            if asks % 10 == 0:
                return self.reply(503, b'{"error": {"message": "flaky", "type": "x"}}', {})
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        self.reply(answer.status, answer.read(), dict(answer.getheaders()))

    def reply(self, status, body, headers):
        self.send_response(status)
        self.send_header("Content-Type", headers.get("content-type", "application/json"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = relay

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()
