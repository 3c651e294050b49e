# SPDX-License-Identifier: Apache-2.0
"""Checks that a translator's account at its end closes, whatever it received."""
import json

from support.process import check


def refused_packets(a):
    return sum(a['refused'].values()) + a['refused_tenant'] + a['refused_reporter'] + a['refused_source'] + a['unread']


def account_of(translator):
    """Ends it; the account."""
    code = translator.stop()
    check(code == 0, f'it ended with {code}', translator)
    a = json.loads(translator.out[-1])
    loss, engine, output = a['loss'], a['engine'], a['output']
    for what, whole, parts in (
            ('packets', a['packets'], a['packets_taken'] + refused_packets(a)),
            ('reports', a['reports'], a['fresh'] + loss['duplicates'] + loss['late']),
            ('sequences', loss['expected'], loss['arrived'] + loss['missing'] + loss['lost']),
            ('fresh', a['fresh'], engine['in']),
            ('engine', engine['in'], engine['stored'] + engine['waiting'] + sum(engine['dropped'].values())),
            ('output', output['writes'] + output['adds'], output['completed'] + output['failed'] + output['unconfirmed'])):
        check(whole == parts, f'{what}: {whole} is not {parts}: {a}', translator)
    return a
