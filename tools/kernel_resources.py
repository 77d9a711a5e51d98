#!/usr/bin/env python3
"""Registers, shared memory, stack and code of our row-wise kernels as built: what data/kernels/own_sm90.built.csv holds.

    tools/kernel_resources.py LIBRARY             rewrites the file, the compiler in data/kernels/own_sm90.json, and the sources'
                                                  digest in data/kernels/own_sm90.sources.sha256
    tools/kernel_resources.py --check LIBRARY     compares: 0 equal, 1 different, 4 another compiler or none
    tools/kernel_resources.py --check-sources     compares the digest alone, where kernels are compiled otherwise than they run

LIBRARY is the library of the kernels' floor (build/libplumbline_kernels.a). Its objects hold a cubin, an ELF file, for
sm_90a beside those for older cards; cmake/cuda.cmake keeps these uncompressed, so that nothing but this program is
needed to read them. Of each kernel the cubin says the registers and the stack frame, where registers are spilled to
(section .nv.info, attributes REGCOUNT and FRAME_SIZE), and the static shared memory (section .nv.shared.NAME, which
begins with 1 KiB that the system reserves). The code is of 16-byte instructions: `instructions` and `sfu` count them as
they stand, padding left out, not as they are executed.

The digest is of all sources of kernels/rows and kernels/chain and of what they include, without comments and layout.
"""
import csv
import hashlib
import io
import json
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "kernels"
TABLE, COUNTS, SOURCES = DATA / "own_sm90.built.csv", DATA / "own_sm90.json", DATA / "own_sm90.sources.sha256"
ROOMS = ("kernels/rows", "kernels/chain")
COLUMNS = ["kernel", "registers", "shared_B", "stack_B", "instructions", "sfu"]
# Functions whose counts the planner of row-wise operators takes (model/stacks/own/row_kernels.cpp).
ROW_KERNELS = ("chain_flat", "chain_held", "chain_walked", "cumsum", "flat", "flat_odd", "flat_single",
               "gather_elements", "gather_rows", "rope", "row_held", "row_walked", "sum_all", "top_of_row", "transpose")
CUDA_MACHINE = 190
ARCHITECTURE = 90  # of sm_90a, in the ELF flags' second byte
RESERVED_SHARED_B = 1024
# The opcode is the lower 12 bits of an instruction; its upper three say where operands come from.
NOP, MUFU, OPCODE = 0x118, 0x108, 0x1FF
# Attributes of .nv.info in the format (0x04) of a symbol's number and a value.
REGCOUNT, FRAME_SIZE = 0x2F04, 0x1104
OTHER_COMPILER = 4


def cubins(data):
    """Offsets of the CUDA ELF files within an archive or object."""
    at = data.find(b"\x7fELF")
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield at
        at = data.find(b"\x7fELF", at + 4)


def sections(data, at):
    """Name -> (offset in `data`, size) of the sections of the ELF file at `at`."""
    table, = struct.unpack_from("<Q", data, at + 40)
    count, names = struct.unpack_from("<HH", data, at + 60)
    heads = [struct.unpack_from("<IIQQQQ", data, at + table + 64 * i) for i in range(count)]
    text = at + heads[names][4]
    return {data[text + h[0]:data.index(b"\0", text + h[0])].decode(): (at + h[4], h[5]) for h in heads}


def attributes(data, found):
    """(Attribute, symbol's name) -> value."""
    at, size = found[".nv.info"]
    symbols, strings = found[".symtab"][0], found[".strtab"][0]
    values, end = {}, at + size
    while at < end:
        attribute, length = struct.unpack_from("<HH", data, at)
        if attribute in (REGCOUNT, FRAME_SIZE):
            symbol, value = struct.unpack_from("<II", data, at + 4)
            name = strings + struct.unpack_from("<I", data, symbols + 24 * symbol)[0]
            values[attribute, data[name:data.index(b"\0", name)].decode()] = value
        at += 4 + (length if attribute & 0xFF == 4 else 0)
    return values


def code(data, at, size):
    """Instructions and, of these, those of the special-function unit."""
    opcodes = [struct.unpack_from("<H", data, i)[0] & OPCODE for i in range(at, at + size, 16)]
    return sum(o != NOP for o in opcodes), opcodes.count(MUFU)


def kernels_of(data, at):
    found = sections(data, at)
    values = attributes(data, found)
    for name, (offset, size) in found.items():
        if not name.startswith(".text."):
            continue
        kernel = name[len(".text."):]
        shared = found.get(".nv.shared." + kernel, (0, RESERVED_SHARED_B))[1] - RESERVED_SHARED_B
        yield kernel, [values[REGCOUNT, kernel], shared, values[FRAME_SIZE, kernel], *code(data, offset, size)]


def compiler_of(data, at):
    offset, size = sections(data, at).get(".note.nv.tkinfo", (at, 0))
    version = re.search(rb"release [\d.]+, V([\d.]+)", data[offset:offset + size])
    return "nvcc " + version[1].decode() if version else ""


def readable(names):
    """As the profiler writes them: no namespaces, arguments or types of enumerators, booleans as 0 and 1. A type of
    elements that comes last is left out where it is bf16."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    out = []
    for name in text.splitlines():
        name = re.sub(r"\((?:[\w:]+::)?\w+\)(\d+)", r"\1", name.removeprefix("void "))
        name = re.sub(r"(?:plumbline|device)::", "", name)
        name = name.replace("true", "1").replace("false", "0")
        name = name.replace("> >", ">>").replace(", __nv_bfloat16>", ">").replace("TurnInPlace<__nv_bfloat16>", "TurnInPlace")
        out.append(re.sub(r"\(.*", "", name))
    return out


def built(library):
    """The compiler, and a row of COLUMNS for each of our row-wise kernels, by name."""
    data, rows, compiler = pathlib.Path(library).read_bytes(), {}, ""
    for at in cubins(data):
        if data[at + 49] != ARCHITECTURE:
            continue
        found = dict(kernels_of(data, at))
        for kernel, name in zip(found, readable(found)):
            # An unfinished name has a type of one file only in it: another floor's use of the same template.
            # Kernels of fp16 are priced by those of bf16 (data/kernels/README.md).
            if name.split("<")[0] in ROW_KERNELS and name.count("<") == name.count(">") and "__half" not in name:
                rows[name] = found[kernel]
                compiler = compiler_of(data, at)
    return compiler, [[name, *rows[name]] for name in sorted(rows)]


def written(rows):
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(rows)
    return out.getvalue()


def differences(on_file, now):
    old = {row[0]: row[1:] for row in csv.reader(io.StringIO(on_file))}
    new = {row[0]: row[1:] for row in csv.reader(io.StringIO(now))}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'not on file')} on file, {new.get(name, 'not built')} as built"


def digest_of_sources():
    """SHA-256 of the rooms' sources and of all of ours that they include, by name; comments and layout do not count."""
    left = [str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).glob("*.cu")]
    found = {}
    while left:
        name = left.pop()
        if name in found:
            continue
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", (ROOT / name).read_text(), flags=re.DOTALL)
        found[name] = " ".join(text.split())
        left += re.findall(r'#include "([^"]+)"', text)
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name}\n{found[name]}\n".encode())
    return digest.hexdigest()


def check_sources():
    if SOURCES.read_text().strip() == digest_of_sources():
        return 0
    print(f"sources of {', '.join(ROOMS)}, or what they include, are not those that {TABLE.name} was read from:\n"
          "build them as they run and call tools/kernel_resources.py with the library (data/kernels/README.md)")
    return 1


def check(library, compiler, rows):
    counted = json.loads(COUNTS.read_text())["compiler"]
    if not rows:
        print(f"skipped: {library} has no kernels for sm_90a (built without nvcc?)")
        return OTHER_COMPILER
    if compiler != counted:
        print(f"skipped: {library} was built by {compiler}, {TABLE.name} is of {counted}")
        return OTHER_COMPILER
    found = list(differences(TABLE.read_text(), written(rows)))
    for line in found:
        print(line)
    if found:
        print(f"{', '.join(COLUMNS[1:])} of {len(found)} kernels are not those of {TABLE}.\n"
              f"`tools/kernel_resources.py {library}` rewrites it; then profile the kernels again\n"
              "(data/kernels/README.md): what they execute will have changed too")
    return 1 if found else check_sources()


def main(arguments):
    if not arguments or arguments[:-1] not in ([], ["--check"]):
        sys.exit(__doc__)
    if arguments == ["--check-sources"]:
        return check_sources()
    library = arguments[-1]
    compiler, rows = built(library)
    if arguments[0] == "--check":
        return check(library, compiler, rows)
    if not rows:
        sys.exit(f"{library}: no kernels for sm_90a; build with PLUMBLINE_CUDA=ON")
    TABLE.write_text(written(rows))
    text = COUNTS.read_text()
    COUNTS.write_text(re.sub(r'("compiler": )"[^"]*"', lambda m: f'{m[1]}"{compiler}"', text, count=1))
    SOURCES.write_text(digest_of_sources() + "\n")
    print(f"{TABLE}: {len(rows)} kernels of {compiler}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
