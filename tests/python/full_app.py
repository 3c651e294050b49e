# SPDX-License-Identifier: Apache-2.0
"""full_app.py: client_app.py where there is room for few metrics."""
import os
import runpy

import sidelight

sidelight.configure(cells=400, max_regions=1)
runpy.run_path(os.path.join(os.path.dirname(__file__), 'client_app.py'))
