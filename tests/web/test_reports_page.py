#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The view of reports in headless Chromium, over a real collector, translator and reports.

usage: test_reports_page.py SIDELIGHT [SCREENSHOT-FOLDER]
"""
import os
import re
import socket
import struct
import subprocess
import sys

from support.browser import NoBrowser, launch
from support.process import Part, skip, workdir
from axe import is_accessible

EXE = os.path.abspath(sys.argv[1])
STORES = '''listen: {0}/dta.sock
tenants:
  - {{number: 0, name: campus, rate: 50000, burst: 4000}}
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 10000, value: 16, copies: 2, keylog: keys}}
  - {{name: bytes, number: 3, kind: increment, seed: 1, rows: 4, columns: 1024}}
  - {{name: keys, number: 6, kind: append, lists: 1, items: 1000, value: 40, batch: 1, lanes: 1}}
'''
FLOW = '0a000001' '0a000002' '1f90' '01bb' '06'


def text(selector):
    return f"(document.querySelector({selector!r})?.textContent || '')"


def shot(page, name):
    if len(sys.argv) > 2:
        page.screenshot(f'{sys.argv[2]}/{name}.png')


def look(page, report, device):
    page.wait("!document.querySelector('#tab-reports').hidden", what="the tab")
    page.click("#tab-reports")
    page.wait(f"{text('#dta-bar')}.startsWith('stored 3')", what="the account")
    sent, bar, closes = page.run(f"[{text('#dta-sent')}, {text('#dta-bar')}, {text('#dta-closes')}]")
    # An acknowledgement that was late makes the reporter send again.
    again = re.fullmatch(r'stored 3(?:duplicates (\d+))?', bar)
    assert again and sent == f'{3 + int(again[1] or 0)} reports sent', (sent, bar)
    assert closes == 'the account closes', closes
    assert page.run("[...document.querySelectorAll('#dta-stores tbody tr')].map((r) => r.cells[0].textContent).join()") == \
        'flows,bytes,keys'
    # Sizes, limits and expected values have units and explanations.
    cells = page.run(text("#dta-stores tr[data-store='flows']"))
    assert '10 000 slots' in cells.replace('\u202f', ' ').replace('\u00a0', ' ') and '1× 100.0 % · 2× 100.0 %' in cells, cells
    assert '1 list of' in page.run(text("#dta-stores tr[data-store='keys']"))
    tenant = page.run(text('#dta-tenants tbody')).replace('\u202f', ' ').replace('\u00a0', ' ')
    assert tenant == 'campus050 0004 000no MAC', tenant
    page.wait(f"{text('#dta-keys-note')}.endsWith('2 of 2 found, 100.0 %')", what="how many of them are found")
    page.wait(f"{text('#dta-stores tbody')}.includes('100.0 % found of 2 sampled, 100.0 % predicted')", what="what was measured")
    # Recent keys, in readable form.
    page.wait(f"{text('#dta-keys tbody tr')}.includes('10.0.0.1:8080 → 10.0.0.2:443 tcp')", what="the flow")
    assert '7 packets, 1.46' in page.run(text('#dta-keys')), page.run(text('#dta-keys'))
    assert page.run(text('#dta-translators td:nth-child(2)')) == 't1'
    page.wait("!!document.querySelector('#dta-reporters td')", what='the reporters')
    assert page.run(text('#dta-reporters td:nth-child(3)')) == 't1'
    assert page.run(text('#dta-reporters td:nth-child(2)')).startswith('127.0.0.1:')
    # A connection that is lost during a query does not stop the view.
    page.run('''window.realFetch = window.fetch; window.hung = 0; window.fetch = (address, options) => options?.method !== "POST" ?
        realFetch(address, options) : new Promise((done, fail) => {
            window.hung++;
            options.signal?.addEventListener("abort", () => fail(options.signal.reason));
        })''')
    page.wait("window.hung > 1", what="another query")
    page.run("window.fetch = window.realFetch")
    # Asked.
    page.type('#dta-key', FLOW)
    page.click('#dta-ask button')
    page.wait(f"{text('#dta-answer')}.startsWith('7 packets')", what="the answer")
    page.run("document.querySelector('#dta-key').value = 'text:none'")
    page.click('#dta-ask button')
    page.wait(f"{text('#dta-answer')}.startsWith('not found')", what="no answer")
    assert page.run(text('#dta-answer')).endswith('keys would be found with 99.0 %'), page.run(text('#dta-answer'))
    page.run("document.querySelector('#dta-key').value = 'nonsense'")
    page.click('#dta-ask button')
    page.wait(f"{text('#dta-answer')}.includes('nonsense')", what="what is wrong with it")
    # Pick another store; then something is added to it.
    page.click("#dta-stores tr[data-store='bytes']")
    page.wait(f"{text('#dta-store')} === 'bytes'", what="the store that was picked")
    report('increment', 'store=3', 'copies=4', 'text:abcd', '58')
    page.run("document.querySelector('#dta-key').value = 'text:abcd'")
    page.wait(f"(document.querySelector('#dta-ask button').click(), {text('#dta-answer')}.startsWith('100,'))",
              what="the sum")
    # Dropped reports, and why.
    report('keywrite', 'store=4711', 'text:abcd', 'u64:58')
    page.wait(f"{text('#dta-dropped')} === 'dropped: 1 for an unknown store'", what="why it was dropped")
    # Input of a device: two datagrams, between which one sample is missing, and an unknown sample.
    for number, kind in (1, 1), (3, 1), (4, 77):
        sample = struct.pack('>8I', number, 3, 100, 1000, 0, 3, 4, 0)
        device(struct.pack('>8I', 5, 1, 0x0a000009, 0, number, 0, 1, kind) + struct.pack('>I', len(sample)) + sample)
    page.wait(f"{text('#dta-inputs tbody')}.startsWith('sflow132')", what="the device's account")
    row = page.run("[...document.querySelectorAll('#dta-inputs td')].map((c) => c.textContent).join()")
    assert row == 'sflow,1,3,2,0,1,0,1', row
    # No store counts flows by device: the view of devices says so instead of asking for them.
    page.wait("!document.querySelector('#tab-network').hidden", what="the tab of devices")
    page.click('#tab-network')
    for note in 'top', 'paths':
        page.wait(f"{text(f'#nw-{note}-note')}.startsWith('no store has the required fields')", what=f"the note on {note}")
    page.wait(f"{text('#nw-devices tbody')}.includes('sflow')", what="the device")
    assert not page.run(f"{text('#nw-devices')}.includes('drops are not known')"), 'drops that no store counts are a problem'
    is_accessible(page, ['reports'], lambda view: page.click(f'#tab-{view}'), shot)
    # A question that can't be answered is a 400; nothing is traced here.
    problems = [p for p in page.problems if 'dta/query' not in p and 'api/v1/traces' not in p]
    assert not problems, problems


def main():
    folder = workdir()
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(STORES.format(folder))
    collector = Part(EXE, 'collect', '--dta', f'{folder}/stores.yaml', '--listen', '127.0.0.1:0')
    address = collector.ready()['listen']
    translator = Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--listen', '127.0.0.1:0',
                      '--input', 'sflow=127.0.0.1:0', '--name', 't1')
    ready = translator.ready()
    target = ready['listen']

    def report(*words):
        subprocess.run([EXE, 'report', '--target', target, '--essential', '--reporter', '5', *words], check=True,
                       stdout=subprocess.PIPE, timeout=300)

    def device(datagram):
        host, port = ready['input'].removeprefix('sflow:').rsplit(':', 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(datagram, (host, int(port)))
    report('keywrite', 'store=1', 'copies=2', FLOW, f'{7:016x}{1500:016x}')
    report('keywrite', 'store=1', 'copies=2', 'text:word', f'{1:032x}')
    report('increment', 'store=3', 'copies=4', 'text:abcd', '42')
    try:
        browser = launch()
    except NoBrowser as why:
        skip(str(why))
    with browser:
        page = browser.page(f'http://{address}/')
        look(page, report, device)
    for part in (translator, collector):
        part.stop()


main()
print('ok')
