# SPDX-License-Identifier: Apache-2.0
"""span_app.py: two services that call each other; on each line of stdin there is a request, and the answer is its trace."""
import asyncio
import json
import os
import subprocess
import sys
import threading

import sidelight

ITSELF = os.path.abspath(__file__)


@sidelight.span('load')
def load():
    sidelight.current_span().set('rows', 3)


@sidelight.span('wait', kind='client')
async def wait(header):
    with sidelight.span('inner'):
        await asyncio.sleep(0.001)
    return [header, sidelight.current_span().traceparent]


async def two():
    return await asyncio.gather(wait('a'), wait('b'))


def other(parent):
    with sidelight.span('in a thread', parent=parent):
        pass


def request(header):
    with sidelight.span('GET /cart', kind='server', parent=header) as s:
        s.set('items', 3)
        s.set('share', 0.5)
        s.set('first', True)
        s.set('user', 'ä' * 10)
        s.set('big', 2**80)
        load()
        asyncio.run(two())
        t = threading.Thread(target=other, args=(s,))
        t.start()
        t.join()
        try:
            with sidelight.span('fails'):
                raise KeyError('gone')
        except KeyError:
            pass
        with sidelight.span('call', kind='client') as call:
            if header is None:
                subprocess.run([sys.executable, ITSELF, call.traceparent], check=True, stdout=subprocess.DEVNULL,
                               env={**os.environ, 'SIDELIGHT_SERVICE': 'db'})
        return s.traceparent


def fork():
    """A span that is open across a fork ends in the parent alone, and the child has spans of its own."""
    with sidelight.span('forks') as s:
        s.status('error', 'so that the trace is kept')
        pid = os.fork()
        if not pid:
            with sidelight.span('child'):
                pass
            threading.Event().wait(2)
            os._exit(0)
    os.waitpid(pid, 0)
    return s.traceparent


if len(sys.argv) > 1:
    print(request(sys.argv[1]))
    threading.Event().wait(2)  # spans are in its memory, and gone with it
else:
    for line in sys.stdin:
        print(json.dumps({'request': lambda: request(None), 'fork': fork,
                          'given': lambda: request('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')}[line.strip()]()),
              flush=True)
