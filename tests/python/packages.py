# SPDX-License-Identifier: Apache-2.0
"""An environment in which Debian's Python finds the package as if it were installed: sidelight.pth is read as well."""
import os

from support.process import check, run, workdir


def installed(python, packages, backend):
    """backend: 'native' or 'pure'."""
    env = {'PYTHONUSERBASE': workdir(), 'PYTHONDONTWRITEBYTECODE': '1', 'PYTHONHASHSEED': '0',
           'SIDELIGHT_PURE': '1' if backend == 'pure' else '0', 'PATH': os.path.dirname(python) + ':' + os.environ['PATH']}
    folder = run(python, '-m', 'site', '--user-site', env={**os.environ, **env}, code=None).stdout.strip()
    os.makedirs(os.path.dirname(folder))
    os.symlink(packages, folder)
    said = run(python, '-c', 'import sidelight._backend as b; print(b.NATIVE)', env={**os.environ, **env}).stdout
    check(said.strip() == str(backend == 'native'), f'the extension is there: {said}')
    return env
