#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_many.py SIDELIGHT MANY - a publisher that has filled its region continues in further ones: 100,000 series with default
options, all of which are shown."""
import sys

from support.process import check, wait_until
from support.sidelight import Agent, Collector, Pod

N = 100_000
with Agent() as agent, Collector([agent], '--period', '100ms') as collector:
    publisher = Pod(sys.argv[2], agent.socket, N)
    wait_until(lambda: publisher.out == ['made'], 'the series', publisher)
    wait_until(lambda: collector.total('many_total') == N * (N - 1) // 2, lambda: len(collector.find('many_total')),
               collector, agent, publisher)
    check(len(collector.find('many_total')) == N)
    check(publisher.close() == 0, publisher)
