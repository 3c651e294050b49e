# SPDX-License-Identifier: Apache-2.0
"""Ranks of a real MPI, with the library for it preloaded."""
from support.process import Part, workdir


def mpirun(mpi, program, library, ranks, *argv, **env):
    """mpi: openmpi or mpich, program: its mpirun. library: None: without. Ranks are what a shell executes: the library must not harm
    the shell, of which LD_BIND_NOW asks for every symbol. env is for ranks alone, as mpirun would look for Slurm."""
    env |= {'LD_PRELOAD': library, 'LD_BIND_NOW': '1'} if library else {}
    if mpi == 'openmpi':
        words = ['--allow-run-as-root', '--oversubscribe', '--mca', 'btl', 'self,vader', '--mca', 'mpi_yield_when_idle', '1']
        for key, value in env.items():
            words += ['-x', f'{key}={value}']
    else:
        words = [w for key, value in env.items() for w in ('-genv', key, value)]
    return Part(program, *words, '-np', ranks, 'sh', '-c', 'exec "$@"', 'sh', *argv, env={'TMPDIR': workdir()})
