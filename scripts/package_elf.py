#!/usr/bin/env python3
"""Which versions of glibc's symbols an ELF file asks for, and libraries of a newer Debian made to ask for older ones.

    package_elf.py needs GLIBC_2.31 FILE...       prints what each file needs, newest first; 1 where one needs more
    package_elf.py lower GLIBC_2.31 FILE LIBRARY...  rewrites FILE: each symbol wanted in a newer version than that is wanted
                                                  in the oldest one; LIBRARY... must define all of them so

Between 2.31 and 2.34 functions of libpthread and libdl moved into libc under new versions and did not change; a program that
asks for the old version gets the same function from either. What changed its version for another reason must come from a
library that says so by defining it without a version. For 64-bit little-endian files."""
import os
import struct
import sys

DYNAMIC, NEEDED, STRTAB, SYMTAB, VERNEED, VERNEEDNUM, VERSYM, VERDEF, VERDEFNUM = (
    2, 1, 5, 6, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD)
DYNSYM_SECTION = 11
OLDEST = {62: "GLIBC_2.2.5", 183: "GLIBC_2.17"}  # of x86-64 and of aarch64


def version_key(name):
    return tuple(int(part) for part in name.split("_", 1)[1].split(".") if part.isdigit())


def is_glibc(name):
    return name.startswith("GLIBC_") and name[6:7].isdigit()


def elf_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


class Elf:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = bytearray(file.read())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        self.machine = self.unpack("<H", 18)[0]
        self.segments = self.read_segments()
        self.dynamic = self.read_dynamic()
        self.symbol_count = self.count_symbols()

    def unpack(self, form, offset):
        return struct.unpack_from(form, self.data, offset)

    def read_segments(self):
        (table,), (size, count) = self.unpack("<Q", 32), self.unpack("<HH", 54)
        return [self.unpack("<IIQQQQQQ", table + i * size) for i in range(count)]

    def offset(self, address):
        for kind, _, offset, start, _, size, _, _ in self.segments:
            if kind == 1 and start <= address < start + size:
                return offset + address - start
        raise ValueError(f"{self.path}: address {address:#x} lies in no segment")

    def read_dynamic(self):
        entries = {}
        for kind, _, offset, _, _, size, _, _ in self.segments:
            if kind != DYNAMIC:
                continue
            for place in range(offset, offset + size, 16):
                tag, value = self.unpack("<QQ", place)
                entries.setdefault(tag, []).append(value)
        return entries

    def count_symbols(self):
        (table,), (size, count) = self.unpack("<Q", 40), self.unpack("<HH", 58)
        for i in range(count):
            _, kind, _, _, _, length, _, _, _, entry = self.unpack("<IIQQQQIIQQ", table + i * size)
            if kind == DYNSYM_SECTION:
                return length // entry
        return 0

    def place(self, tag):
        return self.offset(self.dynamic[tag][0]) if tag in self.dynamic else None

    def text(self, index):
        start = self.place(STRTAB) + index
        return self.data[start:self.data.index(0, start)].decode()

    def needed(self):
        return [self.text(value) for value in self.dynamic.get(NEEDED, [])]

    def version_needs(self):
        """(place of the entry, its index, version, library)"""
        place, found = self.place(VERNEED), []
        for _ in range(self.dynamic.get(VERNEEDNUM, [0])[0]):
            _, count, library, first, following = self.unpack("<HHIII", place)
            entry = place + first
            for _ in range(count):
                _, _, index, name, after = self.unpack("<IHHII", entry)
                found.append((entry, index & 0x7FFF, self.text(name), self.text(library)))
                entry += after
            place += following
        return found

    def version_definitions(self):
        place, found = self.place(VERDEF), {}
        for _ in range(self.dynamic.get(VERDEFNUM, [0])[0]):
            _, _, index, _, _, first, following = self.unpack("<HHHHIII", place)
            found[index & 0x7FFF] = self.text(self.unpack("<I", place + first)[0])
            place += following
        return found

    def symbols(self):
        """(name, whether it is defined here, index of its version)"""
        names, versions = self.place(SYMTAB), self.place(VERSYM)
        for i in range(1, self.symbol_count):
            name, _, _, section = self.unpack("<IBBH", names + i * 24)
            index = self.unpack("<H", versions + i * 2)[0] & 0x7FFF if versions is not None else 1
            yield self.text(name), section != 0, index

    def wanted(self):
        """{version: [symbols]} of glibc"""
        names = {index: version for _, index, version, _ in self.version_needs() if is_glibc(version)}
        found = {version: [] for version in names.values()}
        for name, defined, index in self.symbols():
            if not defined and index in names:
                found[names[index]].append(name)
        return found

    def provided(self, version):
        """Names defined here in `version`, or in none."""
        definitions = self.version_definitions()
        return {name for name, defined, index in self.symbols()
                if defined and (index == 1 or definitions.get(index) == version)}


def needs(limit, paths):
    wrong = 0
    print(f"{'needs of glibc':<44} newest      symbols in versions")
    for path in paths:
        wanted = Elf(path).wanted()
        if not wanted:
            print(f"{os.path.basename(path):<44} none")
            continue
        order = sorted(wanted, key=version_key, reverse=True)
        counts = ", ".join(f"{version[6:]}: {len(wanted[version])}" for version in order)
        print(f"{os.path.basename(path):<44} {order[0]:<11} {counts}")
        for version in order:
            if version_key(version) > version_key(limit):
                wrong += 1
                print(f"  above {limit}: {version}: {', '.join(sorted(wanted[version])) or '(no symbol)'}")
    if wrong:
        print(f"package_elf.py: {wrong} needs are above {limit}", file=sys.stderr)
    return 1 if wrong else 0


def lower(limit, path, libraries):
    elf = Elf(path)
    oldest = OLDEST[elf.machine]
    provided = set()
    for library in libraries:
        provided |= Elf(library).provided(oldest)
    wanted = elf.wanted()
    newer = {version for version in wanted if version_key(version) > version_key(limit)}
    names = sorted(name for version in newer for name in wanted[version])
    missing = [name for name in names if name not in provided]
    if missing:
        print(f"package_elf.py: {path} needs what no library has as {oldest}: {', '.join(missing)}", file=sys.stderr)
        return 1
    strings = elf.place(STRTAB)
    at = elf.data.find(b"\0" + oldest.encode() + b"\0", strings)
    if at < 0 and newer:
        print(f"package_elf.py: {path} does not name {oldest}, so nothing can be turned into it", file=sys.stderr)
        return 1
    for entry, _, version, _ in elf.version_needs():
        if version in newer:
            struct.pack_into("<I", elf.data, entry, elf_hash(oldest))
            struct.pack_into("<I", elf.data, entry + 8, at + 1 - strings)
    with open(path + ".new", "wb") as file:
        file.write(elf.data)
    os.chmod(path + ".new", os.stat(path).st_mode)
    os.replace(path + ".new", path)
    print(f"{os.path.basename(path)}: {len(names)} symbols wanted as {oldest} now: {', '.join(names)}")
    return 0


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == "needs":
        return needs(arguments[1], arguments[2:])
    if len(arguments) >= 3 and arguments[0] == "lower":
        return lower(arguments[1], arguments[2], arguments[3:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
