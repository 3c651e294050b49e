#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot_day.py SIDELIGHT DAY OUT.svg - the scores of all pods over a recorded day, and the faults."""
import sys
import tempfile

from days import SETTLE, Day

WIDTH, ROW, LEFT, TOP = 900, 16, 170, 24
COLOURS = ('#f2f2f2', '#fde0c5', '#f8a07e', '#eb4a40', '#8f003b')
LIMITS = (0.5, 1, 2, 4)


def main():
    exe, name, out = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        day = Day(exe, folder, name)
        faults, last = day.faults, day.last_fault
        day.train, day.score = f'{last + SETTLE}:', f':{last + SETTLE}'
        rows = [(t, pod, score) for t, pod, score, _ in day.verdicts('combined')]
    pods = sorted({p for _, p, _ in rows})
    begin, end = rows[0][0], rows[-1][0] + 60
    scale = (WIDTH - LEFT - 10) / (end - begin)
    height = TOP + ROW * len(pods) + 30
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for i, pod in enumerate(pods):
        y = TOP + ROW * i
        svg.append(f'<text x="{LEFT - 6}" y="{y + 12}" text-anchor="end">{pod.split("-")[0]}</text>')
        for t, p, score in rows:
            if p == pod:
                colour = COLOURS[sum(score > limit for limit in LIMITS)]
                if colour != COLOURS[0]:
                    svg.append(f'<rect x="{LEFT + (t - begin) * scale:.1f}" y="{y + 2}" '
                               f'width="{60 * scale:.1f}" height="{ROW - 4}" fill="{colour}"/>')
    for at, pod, kind in faults:
        if pod in pods:
            x, y = LEFT + (at - begin) * scale, TOP + ROW * pods.index(pod)
            svg.append(f'<path d="M{x:.1f} {y + ROW}l-4 5h8z" fill="#1f4e9e"><title>{kind}</title></path>')
    for minute in range(0, (end - begin) // 60, 30):
        x = LEFT + minute * 60 * scale
        svg.append(f'<path d="M{x:.1f} {TOP}v{ROW * len(pods)}" stroke="#ccc" stroke-width="0.5"/>')
        svg.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{minute}</text>')
    svg.append(f'<text x="{WIDTH - 10}" y="{height - 1}" text-anchor="end">minutes; triangles: injections'
               f'</text>')
    for i, limit in enumerate(LIMITS):
        x = LEFT + 150 * i
        svg.append(f'<rect x="{x}" y="6" width="12" height="12" fill="{COLOURS[i + 1]}"/>'
                   f'<text x="{x + 16}" y="16">above {limit} x threshold</text>')
    svg.append('</svg>')
    with open(out, 'w') as f:
        f.write('\n'.join(svg) + '\n')


main()
