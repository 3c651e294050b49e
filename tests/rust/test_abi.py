#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_abi.py RUSTC FFI INCLUDE: the hand-written declarations in ffi.rs agree with the headers: functions and their types,
structures and the offsets of their members, constants."""
import os
import re
import subprocess
import sys
import tempfile

from support.process import check

RUSTC, FFI, INCLUDE = sys.argv[1:4]
CC = os.environ.get('CC', 'cc').split()
TYPES = {'u8': 'uint8_t', 'u32': 'uint32_t', 'u64': 'uint64_t', 'i64': 'int64_t', 'usize': 'size_t', 'f64': 'double',
         'c_int': 'int', 'c_uint': 'unsigned int', 'c_char': 'char', 'c_void': 'void', 'bool': 'bool'}
WORD = r'[a-zA-Z_]\w*'

with open(FFI) as f:
    RUST = re.sub(r'//.*', '', f.read())
HEADERS = ''
for name in ('sidelight.h', 'span.h'):
    with open(f'{INCLUDE}/sidelight/{name}') as f:
        HEADERS += re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)


def c_type(rust):
    """A type of ffi.rs as C has it."""
    m = re.fullmatch(r'\*(mut|const) (.*)', rust)
    if m:
        return f'{c_type(m[2])}{" const" if m[1] == "const" else ""} *'
    return TYPES.get(rust) or rust


def plain(c):
    """A type of C in the form of c_type(): const behind, without struct, an enum as its number."""
    c = re.sub(r'\b(struct|SL_API)\s+', '', c.strip())
    c = re.sub(rf'\benum\s+{WORD}', 'unsigned int', c)
    m = re.fullmatch(r'const\s+(.*?)\s*\*', c)
    c = f'{m[1]} const *' if m else re.sub(r'\s*\*', ' *', c)
    return re.sub(r'\s+', ' ', c)


def rust_functions():
    block = RUST[RUST.index('extern "C" {'):]
    for name, args, result in re.findall(rf'pub fn ({WORD})\(([^)]*)\)(?: -> ([^;]+))?;', block):
        yield name, [c_type(a.split(':')[1].strip()) for a in args.split(',') if a.strip()], c_type(result.strip() or 'c_void')


def c_functions():
    out = {}
    for result, name, args in re.findall(rf'SL_API ([^;(]*?)({WORD})\(([^)]*)\);', HEADERS):
        types = []
        for a in args.split(','):
            if a.strip() != 'void':
                array = '[' in a
                types.append(plain(re.sub(rf'\s*{WORD}(\[.*\])?$', '', a.strip())) + (' *' if array else ''))
        out[name] = types, plain(result)
    return out


def structures():
    """Returns {name: its members} of structures that both Rust and C define."""
    out = {name: re.findall(rf'pub (?:r#)?({WORD}):', body) for name, body in re.findall(rf'pub struct ({WORD}) \{{(.*?)\}}', RUST, re.S)}
    for name in re.search(r'handles!\((.*?)\);', RUST, re.S)[1].split(','):
        out[name.strip()] = ['bits']
    return out


def run(folder, name, text, *command):
    path = f'{folder}/{name}'
    with open(path, 'w') as f:
        f.write(text)
    subprocess.run([*command, path, '-o', f'{folder}/program'], check=True)
    return subprocess.run([f'{folder}/program'], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def main():
    have = c_functions()
    n = 0
    for name, args, result in rust_functions():
        check(name in have, f'{name} is in no header')
        check((args, result) == have[name], f'{name}: {args} -> {result}, and in C {have[name]}')
        n += 1
    check(n > 80, f'{n} functions')
    structs, constants = structures(), re.findall(rf'pub const ({WORD}):', RUST)
    check(len(structs) > 25 and len(constants) > 25, len(structs), len(constants))
    c = '#include <stdio.h>\n#include <sidelight/span.h>\nint main(void)\n{\n'
    rust = f'#[path = "{os.path.abspath(FFI)}"] mod ffi;\nuse std::{{mem::{{size_of, MaybeUninit}}, ptr::addr_of}};\nfn main() {{\n'
    for s, members in structs.items():
        c += f'printf("{s} %zu\\n", sizeof(struct {s}));\n'
        rust += f'println!("{s} {{}}", size_of::<ffi::{s}>());\nlet u = MaybeUninit::<ffi::{s}>::uninit();\nlet p = u.as_ptr();\n'
        for m in members:
            c += f'printf("{s}.{m} %zu %zu\\n", offsetof(struct {s}, {m}), sizeof(((struct {s} *)0)->{m}));\n'
            rust += (f'let a = unsafe {{ addr_of!((*p).{m}) }};\n'
                     f'println!("{s}.{m} {{}} {{}}", a as usize - p as usize, size_of_val(a));\n')
    for k in constants:
        c += f'printf("{k} %llu\\n", (unsigned long long)({k}));\n'
        rust += f'println!("{k} {{}}", ffi::{k});\n'
    rust += '}\nfn size_of_val<T>(_: *const T) -> usize { size_of::<T>() }\n'
    with tempfile.TemporaryDirectory() as folder:
        by_c = run(folder, 'abi.c', c + 'return 0;\n}\n', *CC, '-I', INCLUDE)
        library = re.sub(r'#\[link\(.*?\)\]', '', RUST)
        with open(f'{folder}/ffi.rs', 'w') as f:
            f.write(library)
        by_rust = run(folder, 'abi.rs', rust.replace(os.path.abspath(FFI), f'{folder}/ffi.rs'), RUSTC, '--edition', '2021', '-A', 'warnings')
    different = [(a, b) for a, b in zip(by_c, by_rust) if a != b]
    check(by_c and len(by_c) == len(by_rust) and not different, different)
    print(f'{n} functions, {len(structs)} structures, {len(constants)} constants are those of the headers')


main()
