#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The view of jobs in headless Chromium, over a real collector and ranks of a real MPI. Only the slow rank is made up in the page:
to find one takes a minute (tests/mpi).

usage: test_jobs_page.py SIDELIGHT MPI MPIRUN LIBRARY STEPS [SCREENSHOT-FOLDER]
"""
import os
import sys

from support.browser import Browser, NoBrowser
from support.mpi import mpirun
from support.process import skip, wait_until, workdir
from support.sidelight import Agent, Collector
from axe import is_accessible

MPI, MPIRUN, LIBRARY, STEPS = sys.argv[2:6]
HOSTILE = '<img src=x onerror=window.bad=1>'
INCIDENT = '00000000000000aa-29394906'
# While window.slow is set, this rank of job 4711 is slow.
SLOW = '''const real = window.fetch;
window.fetch = async (address, options) => {
	const answer = await real(address, options);
	if (!window.slow || !/api\\/v1\\/jobs/.test(String(address)))
		return answer;
	const a = await answer.json();
	for (const job of a.jobs || [a.job])
		if (job.job === "4711")
			job.slow = {rank: "2", step: "0", node: "n7", instance: a.ranks?.[2].instance || "00000000000000aa", incident: "%s",
				begin: a.time - 5, end: null, sentence: "rank-2 on n7 has been slow: <b>it computes</b>."};
	if (a.ranks)
		a.ranks[2].step_seconds = 0.08;
	return new Response(JSON.stringify(a), {status: answer.status});
};''' % INCIDENT


def text(selector):
    return f"(document.querySelector({selector!r})?.textContent || '')"


def cells(selector):
    return f"[...document.querySelectorAll({selector!r} + ' td')].map((c) => c.textContent.replaceAll('\\u202f', ' '))"


def shot(page, name):
    if len(sys.argv) > 6:
        page.screenshot(f'{sys.argv[6]}/{name}.png')


def look(page, begin_job, end_job):
    page.pump(1)
    assert page.run("document.querySelector('#tab-jobs').hidden"), 'a tab without a job'
    begin_job()
    page.wait("!document.querySelector('#tab-jobs').hidden", what='the tab')
    page.click('#tab-jobs')
    row = "#jobs tbody tr[data-id='4711']"
    page.wait(f"{cells(row)}[5] === '4'", what='the job with its ranks')
    assert page.run(f'{cells(row)}.slice(0, 5)') == ['running', '4711', HOSTILE, 'alice', 'n7'], page.run(cells(row))
    assert page.run("document.querySelectorAll('#view-jobs img').length + (window.bad || 0)") == 0, 'a name is text'
    # A job has an address, and its ranks have numbers with units.
    page.run(f'document.querySelector("{row}").focus()')
    page.key('Enter')
    page.wait(f"{text('#job-name')} === 'Job 4711 {HOSTILE}' && !document.querySelector('#job').hidden", what='the job')
    assert page.run("new URLSearchParams(location.hash.slice(1)).get('job')") == '4711'
    page.wait(f"parseInt({cells('#job-ranks tbody tr')}[5]) > 20", what='steps')
    rank = page.run(cells('#job-ranks tbody tr:first-child'))
    assert rank[:3] == ['live', 'rank 0', 'n7'] and all(c.endswith(' ms') or c.endswith(' s') for c in rank[3:5] + rank[6:9]), rank
    assert page.run(f"{text('#job-note')}") == 'user alice, 1 node, 4 ranks', page.run(text('#job-note'))
    assert page.run(cells('#job-nodes tbody tr'))[:2] == ['n7', '4'], page.run(cells('#job-nodes tbody tr'))
    address = page.run('location.href')
    page.go('about:blank')
    page.go(address)
    page.wait(f"{text('#job-name')}.startsWith('Job 4711') && document.querySelectorAll('#job-ranks tbody tr').length === 4", what='the job of the address')
    # Its slow rank, and the way to the cause.
    page.run('window.slow = true')
    page.wait(f"{text('#job-says')} === 'rank-2 on n7 has been slow: <b>it computes</b>.'", what='why')
    page.wait(f"{cells(row)}[0] + {cells(row)}[8] === 'slow rankrank 2 on n7'", what='the rank in the list')
    page.wait(f"{cells('#job-ranks tbody tr:nth-child(3)')}.slice(0, 4).join() === 'slow,rank 2,n7,80.0 ms'", what='the rank')
    is_accessible(page, ['jobs'], lambda view: page.click(f'#tab-{view}'), shot)
    page.click('#job-cause')
    page.wait(f"location.hash.includes('incident={INCIDENT}') && !document.querySelector('#view-cause').hidden", what='the cause')
    page.run('window.slow = false')
    page.run('history.back()')
    page.wait("document.querySelector('#job-slow').hidden && !document.querySelector('#view-jobs').hidden", what='Back leads to the job')
    # A rank leads to its metrics.
    page.click('#job-ranks tbody tr:first-child td:nth-child(2)')
    page.wait("!document.querySelector('#view-metrics').hidden && document.querySelector('#pod-filter').textContent.includes('rank-0')",
              what='metrics of a rank')
    page.click('#tab-jobs')
    end_job()
    page.wait(f"{cells(row)}[0] === 'ended' && {text('#job-note')}.includes('ended ')", what='its end')
    page.wait("[...document.querySelectorAll('#job-ranks tbody tr')].every((r) => r.cells[0].textContent === 'ended')", what='ranks without pods')
    assert page.run("document.querySelectorAll('#job-ranks tbody tr').length") == 4
    page.click('#job-close')
    page.wait("document.querySelector('#job').hidden && !location.hash.includes('job=')", what='that it closes')
    problems = [p for p in page.problems if INCIDENT.split('-')[0] not in p]
    assert not problems, problems


def main():
    agent = Agent('--hostname', 'node-1', '--grace', '3s')
    collector = Collector([agent], '--period', '10ms', '--analyse')
    end, jobs = f'{workdir()}/end', []

    def begin_job():
        jobs.append(mpirun(MPI, MPIRUN, LIBRARY, 4, STEPS, end, f'{end}-slow', 0, SIDELIGHT_SOCKET=agent.socket, SLURM_JOB_ID='4711',
                           SLURM_STEP_ID='0', SLURMD_NODENAME='n7', SLURM_JOB_NAME=HOSTILE, SLURM_JOB_USER='alice'))

    def end_job():
        with open(end, 'w'):
            assert jobs[0].wait() == 0, jobs[0].logged()
    try:
        browser = Browser()
    except NoBrowser as why:
        skip(str(why))
    with browser:
        page = browser.page('about:blank')
        page.call('Page.addScriptToEvaluateOnNewDocument', source=SLOW)
        page.go(collector.url)
        look(page, begin_job, end_job)
    wait_until(lambda: collector.api('jobs')['jobs'][0]['state'] == 'ended', 'the end', collector)
    assert collector.stop() == 0 and agent.stop() == 0
    assert os.path.exists(end)


main()
print('ok')
