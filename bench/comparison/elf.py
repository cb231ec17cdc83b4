"""Reads from a shared library, without loading it, whether it defines a function.

Only what that needs of the ELF format: 32 and 64 bits, either byte order. A library that is not for
this machine is as good as none.
"""
import struct
import sys

SHT_DYNSYM = 11
SHN_UNDEF = 0
STB_LOCAL = 0
ET_DYN = 3


class NotALibrary(Exception):
    pass


class _Reader:
    def __init__(self, data):
        if data[:4] != b"\x7fELF" or data[4:6] not in (b"\1\1", b"\1\2", b"\2\1", b"\2\2"):
            raise NotALibrary("is not a shared library")
        self.data = data
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"

    def unpack(self, layout, offset):
        return struct.unpack_from(self.order + layout, self.data, offset)

    def header(self):
        """Type, machine, and place, size and number of the section headers."""
        kind, machine = self.unpack("HH", 16)
        sections = self.unpack("Q", 40)[0] if self.wide else self.unpack("I", 32)[0]
        size, number = self.unpack("HH", 58 if self.wide else 46)
        return kind, machine, sections, size, number

    def section(self, offset):
        """Type, place, size, linked section and size of an entry."""
        if self.wide:
            _, kind, _, _, place, size, link, _, _, entry = self.unpack("IIQQQQIIQQ", offset)
        else:
            _, kind, _, _, place, size, link, _, _, entry = self.unpack("IIIIIIIIII", offset)
        return kind, place, size, link, entry

    def symbol(self, offset):
        """Place of the name, binding, and section it is defined in."""
        if self.wide:
            name, info, _, section, _, _ = self.unpack("IBBHQQ", offset)
        else:
            name, _, _, info, _, section = self.unpack("IIIBBH", offset)
        return name, info >> 4, section


def _machine_of(path):
    with open(path, "rb") as file:
        header = _Reader(file.read(64)).header()
    return header[1]


def exports(path, name):
    """Whether the shared library exports a definition of name; NotALibrary if it is none for us."""
    with open(path, "rb") as file:
        _Reader(file.read(64))  # what is no library may be endless
        file.seek(0)
        reader = _Reader(file.read())
    try:
        kind, machine, sections, size, number = reader.header()
        if kind != ET_DYN:
            raise NotALibrary("is not a shared library")
        if machine != _machine_of(sys.executable):
            raise NotALibrary("is a library for another kind of machine")
        return _defines(reader, [sections + i * size for i in range(number)], name.encode() + b"\0")
    except (struct.error, IndexError, OverflowError):
        raise NotALibrary("is a damaged shared library") from None


def _defines(reader, sections, wanted):
    for section in sections:
        kind, place, size, link, entry = reader.section(section)
        if kind != SHT_DYNSYM or not entry:
            continue
        strings = reader.section(sections[link])[1]
        for symbol in range(place, place + size, entry):
            name, binding, defined_in = reader.symbol(symbol)
            if (defined_in != SHN_UNDEF and binding != STB_LOCAL
                    and reader.data.startswith(wanted, strings + name)):
                return True
    return False
