#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the files of the page into one C file: embed.py ROOT OUT FILE...

The address of a file is its path below ROOT; index.html is "/". Beside the files: the hash of the
script that index.html holds, for the policy that lets no other one run (CSP level 3, 2.3.1).
"""
import base64
import hashlib
import os
import re
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def main(root, out, *files):
    arrays, table = [], []
    for i, name in enumerate(sorted(files)):
        with open(name, "rb") as f:
            body = f.read()
        path = os.path.relpath(name, root)
        address = "/" if path == "index.html" else "/" + path
        if address == "/":
            inline, = re.findall(rb"<script>(.*?)</script>", body, re.S)
        etag = hashlib.sha256(body).hexdigest()[:16]
        rows = [",".join(map(str, body[at:at + 32])) for at in range(0, len(body), 32)]
        arrays.append("static const unsigned char asset_%d[] = {\n%s\n};\n" % (i, ",\n".join(rows)))
        table.append('\t{"%s", "%s", "%s", asset_%d, sizeof(asset_%d)},\n' % (
            address, TYPES[os.path.splitext(name)[1]], etag, i, i))
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by web/embed.py. */\n#include "api/page_assets.h"\n\n')
        f.write("\n".join(arrays))
        f.write("\nconst struct api_asset api_assets[] = {\n%s};\n" % "".join(table))
        f.write("const size_t api_asset_count = sizeof(api_assets) / sizeof(*api_assets);\n")
        f.write('const char api_asset_script[] = "sha256-%s";\n' %
                base64.b64encode(hashlib.sha256(inline).digest()).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
