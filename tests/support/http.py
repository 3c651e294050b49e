# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses of this machine, whatever proxy the environment names."""
import json
import urllib.error
import urllib.request

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url, method=None, data=None, headers=None, seconds=60):
    """(status, headers, body) of the answer, whatever its status."""
    try:
        with _opener.open(urllib.request.Request(url, data=data, method=method, headers=headers or {}),
                          timeout=seconds) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def get(url, accept=None, seconds=60):
    """The body as text; another status than 200 raises urllib.error.HTTPError."""
    headers = {'Accept': accept} if accept else {}
    with _opener.open(urllib.request.Request(url, headers=headers), timeout=seconds) as answer:
        return answer.read().decode()


def get_json(url):
    """(status, JSON) of the answer, whatever its status."""
    status, _, body = request(url)
    return status, json.loads(body)
