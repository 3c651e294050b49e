# SPDX-License-Identifier: Apache-2.0
"""An agent, a collector that keeps its port when it starts again, and pods of their own."""
from support.http import get_json
from support.process import check, workdir
from support.sidelight import Agent, Collector, Pod


class System:
    def __init__(self, publisher):
        self.publisher, self.folder = publisher, workdir()
        self.socket = f"{self.folder}/agent.sock"
        self.listen = "127.0.0.1:0"
        self.agent = self.collector = None

    def start_agent(self, grace="60s"):
        self.agent = Agent("--grace", grace, folder=self.folder, rest=True)

    def start_collector(self, *options):
        self.collector = Collector([self.socket], "--period", "10ms", "--mode", "prometheus", *options, listen=self.listen)
        self.listen = self.collector.address
        self.url = self.collector.url + "/"

    def pod(self, service, name, *version):
        return CheckedPod(self.publisher, self.socket, service, name, *version)

    def get(self, path):
        """Status and JSON of an answer of the API."""
        return get_json(f"{self.url}api/v1/{path}")


class CheckedPod(Pod):
    def tell(self, *words):
        answer = super().tell(*words)
        check(answer == "ok", f"the publisher said {answer!r} to {words}", self)
