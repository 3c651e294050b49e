# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses of this machine, ignoring any proxy in the environment."""
import base64
import encodings.idna  # noqa: F401, which a process of another user may not be able to import
import http.client
import json
import os
import socket
import traceback
import urllib.error
import urllib.request

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url, method=None, data=None, headers=None, seconds=60):
    """Returns (status, headers, body) of the answer, whatever its status."""
    try:
        with _opener.open(urllib.request.Request(url, data=data, method=method, headers=headers or {}),
                          timeout=seconds) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class _Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def request_at(at, method, path, data=None, headers=None, seconds=60):
    """Returns (status, JSON) of the answer of HOST:PORT or unix:/PATH, whatever its status."""
    if at.startswith('unix:'):
        c = _Unix('localhost', timeout=seconds)
        c.path = at.removeprefix('unix:')
    else:
        c = http.client.HTTPConnection(at, timeout=seconds)
    try:
        try:
            c.request(method, path, data, headers or {})
        except BrokenPipeError:
            pass  # answered before the end of the body
        answer = c.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        c.close()


def as_user(uid, function, *args):
    """function(*args) in a process of another user, with its answer as JSON. For root."""
    out, to = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(to, json.dumps(function(*args)).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(to)
    with os.fdopen(out) as f:
        said = f.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f'user {uid}: {said!r}, status {status}')
    return json.loads(said)


def get(url, accept=None, seconds=60):
    """The body as text; another status than 200 raises urllib.error.HTTPError."""
    headers = {'Accept': accept} if accept else {}
    with _opener.open(urllib.request.Request(url, headers=headers), timeout=seconds) as answer:
        return answer.read().decode()


def get_json(url):
    """Returns (status, JSON) of the answer, whatever its status."""
    status, _, body = request(url)
    return status, json.loads(body)


def get_tls(url, authority, user, password, seconds=60):
    """Like get(), over TLS with a certificate of that authority, and with a password."""
    word = base64.b64encode(f'{user}:{password}'.encode()).decode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=authority.context()))
    with opener.open(urllib.request.Request(url, headers={'Authorization': f'Basic {word}'}), timeout=seconds) as answer:
        return answer.read().decode()
