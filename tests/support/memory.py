# SPDX-License-Identifier: Apache-2.0
"""Searches the memory of processes, for tests that may read it."""


def held(pid, wanted):
    """Returns those of the wanted byte strings that are in the process's memory, environment or arguments."""
    found = set()

    def look(data):
        found.update(w for w in wanted if w in data)
    for file in 'environ', 'cmdline':
        with open(f'/proc/{pid}/{file}', 'rb') as f:
            look(f.read())
    with open(f'/proc/{pid}/maps') as f:
        maps = f.read().splitlines()
    with open(f'/proc/{pid}/mem', 'rb', 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights[0] != 'r' or '[v' in line:
                continue
            begin, end = (int(x, 16) for x in span.split('-'))
            try:
                memory.seek(begin)
                look(memory.read(end - begin))
            except OSError:  # memory of a device
                pass
    return found
