# SPDX-License-Identifier: Apache-2.0
"""A receiver of alerts and events, such as an Alertmanager or a webhook."""
import http.server
import json
import threading
import time


class Receiver:
    """Keeps POSTed bodies by path, with the time at which they arrived; lists are split into their items."""

    def __init__(self, authority=None):
        self.got, self.times = {}, {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers['Content-Length'])))
                items = body if isinstance(body, list) else [body]
                right = self.accepts(handler.path, handler.headers)
                if right:
                    self.times.setdefault(handler.path, []).extend([time.time()] * len(items))
                    self.got.setdefault(handler.path, []).extend(items)
                handler.send_response(200 if right else 503)
                handler.send_header('Content-Length', '0')
                handler.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        if authority:
            authority.guard(self.server)
        self.url = f'http{"s" if authority else ""}://127.0.0.1:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def accepts(self, path, headers):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
