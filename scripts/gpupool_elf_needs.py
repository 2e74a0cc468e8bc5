"""What a 64-bit ELF file needs of others: libraries, and versions of them."""
import re
import struct

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB = 1, 5
DT_VERNEED, DT_VERNEEDNUM = 0x6ffffffe, 0x6fffffff


class Needs:
    """libraries: ['libc.so.6', ...]; versions: {'GLIBC_2.34', ...}.
    ValueError or struct.error if the file cannot be read."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            self.data = file.read(1 << 28)
        if self.data[:5] != b'\x7fELF\x02':
            raise ValueError('not a 64-bit ELF file')
        self.order = '>' if self.data[5:6] == b'\x02' else '<'
        self.loads, dynamic = [], None
        at, = self._get('Q', 32)
        size, count = self._get('HH', 54)
        for i in range(count):
            kind, _, offset, address, _, length = self._get(
                'IIQQQQ', at + i * size)
            if kind == PT_LOAD:
                self.loads.append((address, length, offset))
            elif kind == PT_DYNAMIC:
                dynamic = offset, length
        self.libraries, self.versions = [], set()
        if dynamic:
            self._read_dynamic(*dynamic)

    def _get(self, layout, at):
        return struct.unpack_from(self.order + layout, self.data, at)

    def _offset(self, address):
        for start, length, offset in self.loads:
            if start <= address < start + length:
                return address - start + offset
        raise ValueError('an address outside the file')

    def _string(self, at):
        end = self.data.index(b'\0', at)
        return self.data[at:end].decode('utf-8', 'replace')

    def _read_dynamic(self, offset, length):
        entries = [self._get('QQ', at)
                   for at in range(offset, offset + length, 16)]
        tags = dict(reversed(entries))
        strings = self._offset(tags[DT_STRTAB])
        self.libraries = [self._string(strings + value)
                          for tag, value in entries if tag == DT_NEEDED]
        if DT_VERNEED not in tags:
            return
        at = self._offset(tags[DT_VERNEED])
        for _ in range(tags.get(DT_VERNEEDNUM, 0)):
            _, count, _, first, following = self._get('HHIII', at)
            aux = at + first
            for _ in range(count):
                _, _, _, name, onward = self._get('IHHII', aux)
                self.versions.add(self._string(strings + name))
                aux += onward
            at += following

    def newest_glibc(self):
        """(2, 34); None if it names no version."""
        found = [tuple(map(int, match.groups())) for match in
                 (re.match(r'GLIBC_(\d+)\.(\d+)', version)
                  for version in self.versions) if match]
        return max(found, default=None)
