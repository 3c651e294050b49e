# SPDX-License-Identifier: Apache-2.0
"""An agent, a collector and pods of their own, in a folder that goes away with them."""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class Pod:
    def __init__(self, program, socket, service, pod):
        self.process = subprocess.Popen([program, socket, service, pod], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        answer = self.process.stdout.readline().strip() if ready else "nothing"
        if answer != "ok":
            raise RuntimeError(f"the publisher said {answer!r} to {words}")

    def kill(self):
        self.process.kill()
        self.process.wait()


class System:
    def __init__(self, sidelight, publisher, period="10ms"):
        self.sidelight, self.publisher, self.period = sidelight, publisher, period
        self.folder = tempfile.mkdtemp(prefix="sl-web-")
        self.socket = os.path.join(self.folder, "agent.sock")
        self.listen = "127.0.0.1:0"
        self.agent = self.collector = None
        self.pods = []

    def _start(self, name, *arguments):
        log = open(os.path.join(self.folder, name + ".log"), "ab")
        process = subprocess.Popen([self.sidelight, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            ready, _, _ = select.select([process.stdout], [], [], 0.2)
            if ready:
                line = process.stdout.readline()
                if line.startswith("ready"):
                    return process, line
        process.kill()
        process.wait()
        raise RuntimeError(f"{name} did not become ready: {self.log(name)}")

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), errors="replace") as f:
            return f.read()[-2000:]

    def start_agent(self):
        self.agent, _ = self._start("agent", "agent", "--socket", self.socket, "--rest",
                                    "127.0.0.1:0", "--grace", "60s")

    def start_collector(self, *more):
        self.collector, line = self._start("collect", "collect", "--agent", self.socket, "--listen",
                                           self.listen, "--period", self.period, "--mode",
                                           "prometheus", *more)
        self.listen = re.search(r"127\.0\.0\.1:\d+", line).group(0)
        self.url = f"http://{self.listen}/"

    def stop(self, process):
        if not process or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError("did not stop within 60 s of SIGTERM") from None

    def pod(self, service, pod):
        p = Pod(self.publisher, self.socket, service, pod)
        self.pods.append(p)
        return p

    def get(self, path):
        """Status and JSON of an answer of the API."""
        try:
            with urllib.request.urlopen(self.url + "api/v1/" + path, timeout=60) as r:
                return r.status, json.load(r)
        except urllib.error.HTTPError as e:
            with e:
                return e.code, json.load(e)

    def close(self):
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.kill()
            pod.process.stdin.close()
            pod.process.stdout.close()
        for process in (self.collector, self.agent):
            if process:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
