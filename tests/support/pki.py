# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the test, by openssl; and hashes of passwords, by libcrypt."""
import ctypes
import json
import os
import ssl
import time

from support.process import run, workdir

CONFIG = '''
[ca]
default_ca = own
[own]
dir = {0}
new_certs_dir = {0}
database = {0}/index
serial = {0}/serial
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
'''


def bcrypt(password, cost=4):
    lib = ctypes.CDLL('libcrypt.so.1')
    lib.crypt.restype = ctypes.c_char_p
    return lib.crypt(password.encode(), f'$2y${cost:02}$abcdefghijklmnopqrstuu'.encode()).decode()


def _date(days):
    return time.strftime('%Y%m%d%H%M%SZ', time.gmtime(time.time() + days * 86400))


class Authority:
    """.ca: its certificate. Keys are of P-256."""

    def __init__(self, name='test authority'):
        self.folder = workdir()
        self.ca, self._key = f'{self.folder}/ca.pem', f'{self.folder}/ca.key'
        for file, text in (('index', ''), ('serial', '1000\n'), ('ca.cnf', CONFIG.format(self.folder))):
            with open(f'{self.folder}/{file}', 'w') as f:
                f.write(text)
        run('openssl', 'req', '-x509', *self._new(self._key), '-out', self.ca, '-subj', f'/CN={name}', '-days', '30')

    @staticmethod
    def _new(key):
        return '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key

    def issue(self, name, sans=(), begin=-1, end=30, folder=None, use='serverAuth,clientAuth'):
        """(certificate, key): paths, in place of those of the same name. sans: 'DNS:x', 'IP:y'."""
        at = f'{folder or self.folder}/{name}'
        ext = [f'extendedKeyUsage={use}', *([f'subjectAltName={",".join(sans)}'] if sans else [])]
        run('openssl', 'req', '-new', *self._new(f'{at}.key.new'), '-out', f'{at}.csr', '-subj', f'/CN={name}',
            *(w for e in ext for w in ('-addext', e)))
        run('openssl', 'ca', '-batch', '-config', f'{self.folder}/ca.cnf', '-cert', self.ca, '-keyfile', self._key,
            '-in', f'{at}.csr', '-out', f'{at}.pem.new', '-notext', '-startdate', _date(begin), '-enddate', _date(end))
        for file in (f'{at}.key', f'{at}.pem'):
            os.replace(f'{file}.new', file)
        return f'{at}.pem', f'{at}.key'

    def guard(self, server):
        """Has an HTTP server speak TLS, with clients of this authority alone."""
        c = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        c.verify_mode = ssl.CERT_REQUIRED
        c.load_cert_chain(*self.issue('receiver', ['IP:127.0.0.1']))
        server.socket = c.wrap_socket(server.socket, server_side=True)

    def client(self, path, **more):
        """Writes the settings of a client of such a server, and further ones. The path."""
        cert, key = self.issue('client')
        with open(path, 'w') as f:  # JSON is YAML
            json.dump({'tls_config': {'ca_file': self.ca, 'cert_file': cert, 'key_file': key}, **more}, f)
        return path

    def context(self, pair=None):
        """Returns a client's context that trusts this authority."""
        c = ssl.create_default_context(cafile=self.ca)
        if pair:
            c.load_cert_chain(*pair)
        return c
