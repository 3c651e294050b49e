# SPDX-License-Identifier: Apache-2.0
"""Ranks of a real MPI, with the library for it preloaded."""
from support.process import Part, workdir


def mpirun(mpi, program, library, ranks, *argv, before=(), btl=('self,vader',), **env):
    """mpi: openmpi or mpich, program: its mpirun. library: None: without. Ranks are what a shell executes: the library must not harm
    the shell, of which LD_BIND_NOW asks for every symbol. env is for ranks alone, as mpirun would look for Slurm. before: a command
    that executes mpirun. btl: Open MPI's transports, and further words of its command line."""
    env |= {'LD_PRELOAD': library, 'LD_BIND_NOW': '1'} if library else {}
    if mpi == 'openmpi':
        words = ['--allow-run-as-root', '--oversubscribe', '--mca', 'mpi_yield_when_idle', '1', '--mca', 'btl', *btl]
        for key, value in env.items():
            words += ['-x', f'{key}={value}']
    else:
        words = [w for key, value in env.items() for w in ('-genv', key, value)]
    return Part(*before, program, *words, '-np', ranks, 'sh', '-c', 'exec "$@"', 'sh', *argv, env={'TMPDIR': workdir()})
