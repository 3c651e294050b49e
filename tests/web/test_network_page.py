#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The view of network devices in headless Chromium: a collector with the example's stores and a translator hear three
exporters and five switches; the page says which device has losses, who talks, and where a path loses packets.

usage: test_network_page.py SIDELIGHT [SCREENSHOT-FOLDER]
"""
import json
import os
import socket
import subprocess
import sys
import time

from support.browser import NoBrowser, launch
from support.devices import Collector, Translator
from support.http import get
from support.packets import flow_of, int_drop, int_path, int_report, ipfix, ipfix_names, sflow_counters, sflow_drop
from support.process import skip, wait_until, workdir
from axe import is_accessible

EXE = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTILE = '<script>window.bad=1'
LOST, CALM = '127.0.0.2', '127.0.0.3'
SELECTED = "document.querySelector('#nw-paths tr[aria-selected=true]')"


def text(selector):
    return f"(document.querySelector({selector!r})?.textContent || '')"


def cells(row):
    return f"[...document.querySelectorAll({row + ' td'!r})].map((c) => c.textContent)"


def shot(page, name):
    if len(sys.argv) > 2:
        page.screenshot(f'{sys.argv[2]}/{name}.png')


def send(translator):
    """Sends the data that the page must show."""
    sockets = {}

    def to(kind, exporter, data):
        if exporter not in sockets:
            sockets[exporter] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets[exporter].bind((exporter, 0))
        sockets[exporter].sendto(data, ('127.0.0.1', translator.port[kind]))
    for exporter, gap in ((CALM, 0), (LOST, 7)):  # seven records of the second one never come
        to('ipfix', exporter, ipfix_names({1: HOSTILE.encode(), 2: b'eth1/2'}))
        to('ipfix', exporter, ipfix([(flow_of(i), 1, 2, 64500, 64501, 1000 * (i + 1)) for i in range(4)], 2))
        to('ipfix', exporter, ipfix([(flow_of(8), 2, 1, 64500, 64501, 90000)], 6 + gap))
    for number, flow, hops in (0, flow_of(1), [7, 8, 9]), (0, flow_of(2), [7, 8, 11]), (1, flow_of(8), [7, 10, 9]):
        to('int', '127.0.0.1', int_report(hops[-1], number, int_path(hops, flow), 0b0010))
    for number in range(3):
        to('int', '127.0.0.1', int_drop(8, number, flow_of(1), 1, 2, 82))
    to('sflow', '127.0.0.4', sflow_counters(4, 1000))
    to('sflow', '127.0.0.4', sflow_drop(flow_of(3), 4, 5, 258))
    for s in sockets.values():
        s.close()


def devices(page):
    page.wait("!document.querySelector('#tab-network').hidden", what='the tab')
    page.click('#tab-network')
    # Devices with problems come first, with the problem.
    page.wait(f"{text('#nw-devices')}.includes('switch 11')", what='the devices')
    rows = page.run("[...document.querySelectorAll('#nw-devices tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
    assert [r[:3] for r in rows[:4]] == [['losses', LOST, '7 lost on the way here'], ['losses', 'switch 8', '3 packets dropped'],
                                         ['losses', '203.0.113.9', '1 packet dropped'], ['fine', 'switch 7', 'no problem is known']], rows
    assert [r[1] for r in rows[3:]] == [*(f'switch {n}' for n in (7, 9, 10, 11)), '127.0.0.1', CALM, '127.0.0.4'], rows
    assert [rows[0][i] for i in (3, 6, 7)] == ['ipfix', '7', '7'], rows[0]
    # No device is fine while its drops are not known.
    page.run("window.realFetch = window.fetch; window.fetch = (address, options) => /dta.drops/.test(address) ?"
             " Promise.resolve(new Response('{\"error\": \"20 others wait\"}', {status: 503})) : realFetch(address, options)")
    page.wait("[...document.querySelectorAll('#nw-devices tbody tr')].every((r) => r.cells[0].textContent !== 'fine' &&"
              " r.cells[2].textContent.includes('drops are not known'))", what='a problem of each device')
    page.run("window.fetch = window.realFetch")
    page.wait(f"!{text('#nw-devices')}.includes('are not known') && {text('#nw-devices')}.includes('3 packets dropped')", what='its end')


def talkers(page):
    page.wait(f"{cells('#nw-top tbody tr:first-child')}[0] === '198.51.100.7'", what='who talks')
    # A flow that both exporters saw counts once.
    assert page.run(f"{cells('#nw-top tbody tr:first-child')}[1]").replace('\u202f', ' ') == '97.7 KiB'
    for by, first in ('as', 'AS 64500'), ('application', 'tcp 443'), ('prefix', '192.0.2.0/24'), ('interface', f'{LOST} eth1/2'):
        page.run(f"(() => {{ const e = document.querySelector('#nw-by'); e.value = '{by}'; e.dispatchEvent(new Event('change')); }})()")
        page.wait(f"{text('#nw-top tbody')}.includes('{first}')", what=f'talkers by {by}')


def over_time(page, collector, translator):
    """Talkers in each epoch: there is another one in the second. A range that is drawn or typed selects epochs."""
    page.run("(() => { const e = document.querySelector('#nw-by'); e.value = 'address'; e.dispatchEvent(new Event('change')); })()")
    page.wait("document.querySelector('#nw-plot').dataset.epochs === '1' && document.querySelector('#nw-plot canvas') !== null", what='a plot of one epoch')
    time.sleep(1.5)
    between = time.time() - 0.5
    run = subprocess.run([EXE, 'query', '--collector', collector.base.removeprefix('http://'), 'rotate', 'device_flows'], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    # A record that arrives before the translator has heard of it belongs to the old epoch.
    wait_until(lambda: not any(s['not_rotated'] for s in collector.status()['stores']), 'the translator has not rotated', collector)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((CALM, 0))
        s.sendto(ipfix([(flow_of(150), 1, 2, 64500, 64501, 5000000)], 4), ('127.0.0.1', translator.port['ipfix']))
    page.wait("document.querySelector('#nw-plot').dataset.epochs === '2'", what='a plot of two epochs')
    new = '192.0.2.151'
    page.wait(f"{text('#nw-top tbody')}.includes('{new}')", what='the new talker')
    local = time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(between))
    page.run("(() => { const e = document.querySelector('#nw-when'); e.value = 'range'; e.dispatchEvent(new Event('change')); })()")
    page.run(f"(() => {{ const e = document.querySelector('#nw-to'); e.value = '{local}'; e.dispatchEvent(new Event('change')); }})()")
    page.wait(f"{text('#nw-top tbody')} && !{text('#nw-top tbody')}.includes('{new}') && document.querySelector('#nw-plot').dataset.epochs === '1'",
              what='the range before the new talker')
    shot(page, 'network-range')
    page.run("(() => { const e = document.querySelector('#nw-when'); e.value = '0'; e.dispatchEvent(new Event('change')); })()")
    page.wait(f"{text('#nw-top tbody')}.includes('{new}') && document.querySelector('#nw-range').hidden", what='everything again')
    shot(page, 'network-time')


def paths(page):
    says = 'path-says'
    page.wait(f"{text('#nw-' + says)} === '192.0.2.2:1025 → 198.51.100.7:443 tcp: 3 packets dropped, reason 82 at switch 8'",
              what='the path with a loss, first')
    page.wait("document.querySelectorAll('#nw-picture .node').length === 5", what='its picture')
    boxes = page.run("[...document.querySelectorAll('#nw-picture .node')].map((n) => [n.querySelector('.node-name').textContent,"
                     " n.classList.contains('culprit'), [...n.querySelectorAll('text')].slice(1).map((t) => t.textContent.replaceAll('\u202f', ' ')).join('; ')])")
    assert boxes[:3] == [['switch 7', False, 'in 1, out 2; 100 ns, queue 5; '], ['switch 8', True, 'in 1, out 2; 100 ns, queue 5; 3 packets dropped, reason 82'],
                         ['switch 9', False, 'in 1, out 2; 100 ns, queue 5; ']], boxes
    assert page.run("document.querySelectorAll('#nw-picture .arrow').length") == 2  # the exporters' order is not known
    # The other paths, by the keyboard.
    page.run(f'{SELECTED}.focus()')
    page.key('ArrowDown')
    page.key('Enter')
    page.wait(f"{text('#nw-path-says')}.endsWith('1 packet dropped, reason 258 at 203.0.113.9; the order of its devices is not known')",
              what='the path of the second row')
    # Paths through a link, and through something that is no device.
    page.type('#nw-through', '7,10')
    page.key('Enter')
    page.wait(f"{cells('#nw-paths tbody tr')}.join() === '192.0.2.9:1032 → 198.51.100.7:443 tcp,7 → 10 → 9,,87.9\u202fKiB'", what='a link')
    page.type('#nw-through', '-')
    page.key('Enter')
    page.wait(f"{text('#nw-paths-note')}.includes('expected through=')", what='why there is no path')


def device(page):
    page.run("document.querySelector('#nw-devices tbody tr').focus()")
    page.key('Enter')
    page.wait(f"{text('#nw-device-name')} === 'Interfaces of {LOST}'", what='the device')
    page.wait(f"{cells('#nw-interfaces tbody tr:first-child')}[0] === '{HOSTILE}'", what='the name of an interface, as text')
    assert page.run(cells('#nw-interfaces tbody tr:nth-child(2)'))[:2] == ['eth1/2', '2']
    assert page.run("document.querySelectorAll('#view-network script').length + (window.bad || 0)") == 0
    page.wait(f"{text('#nw-top-note')}.startsWith('only at {LOST}')", what='its talkers')
    # Its address leads to it; another one has counters of its own, and drops.
    page.go(page.run('location.href').replace(f'device={LOST}', 'device=203.0.113.9'))
    page.wait(f"{cells('#nw-interfaces tbody tr')}.slice(0, 9).join() === '4,4,,1000\u202fB,1001\u202fB,3,6,4,7'", what='counters')
    assert page.run(cells('#nw-drops tbody tr'))[:4] == ['reason 258', '1', '4 → 5', '192.0.2.4:1027 → 198.51.100.7:443 tcp']
    page.click('#nw-close')
    page.wait("document.querySelector('#nw-device').hidden", what='that it closes')


def renumbered(page, translator):
    """The number of an interface is given to another one while the page shows it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((LOST, 0))
        s.sendto(ipfix_names({2: b'eth9'}, 14), ('127.0.0.1', translator.port['ipfix']))
    page.wait(f"{cells('#nw-interfaces tbody tr:nth-child(2)')}[0] === 'eth9'", what='its new name')


def main():
    folder = workdir()
    collector = Collector(EXE, f'{ROOT}/examples/dta/devices.yaml', folder)
    translator = Translator(EXE, collector, ('int', 'ipfix', 'sflow'))
    send(translator)
    wait_until(lambda: sum(e['datagrams'] for e in json.loads(get(f'{collector.base}/api/v1/dta/exporters'))['exporters']) == 14,
               'not all arrived', translator)
    try:
        browser = launch()
    except NoBrowser as why:
        skip(str(why))
    with browser:
        page = browser.page(f'{collector.base}/')
        for step in devices, talkers, paths, device:
            step(page)
        over_time(page, collector, translator)
        page.run("document.querySelector('#nw-devices tbody tr').click()")
        page.wait(f"{text('#nw-device-name')} === 'Interfaces of {LOST}'", what='the device')
        renumbered(page, translator)
        is_accessible(page, ['network'], lambda view: page.click(f'#tab-{view}'), shot)
        # Text that is no device is answered by status 400; nothing is traced here.
        problems = [p for p in page.problems if 'dta/paths' not in p and 'api/v1/traces' not in p]
        assert not problems, problems
    translator.account()
    collector.stop()


main()
print('ok')
