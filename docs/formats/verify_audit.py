#!/usr/bin/env python3
"""Verifies an audit log of Boxmaker (audit-log.md): python3 verify_audit.py AUDIT_FOLDER [N:HASH ...]

Each N:HASH is a head that was kept elsewhere: the log had N records, and its last line that SHA-256.
Shares no code with Boxmaker. Says what is wrong first and ends with status 1, or prints the head.
"""
import hashlib, json, os, re, sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def no_twice(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def lines(folder):
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".jsonl")):
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])\.jsonl", name):
            sys.exit(name + ": no file of an audit log")
        with open(os.path.join(folder, name), "rb") as file:
            for number, line in enumerate(file, 1):
                yield "%s:%d" % (name, number), line


def main(folder, *heads):
    known = {}
    for head in heads:
        n, value = head.split(":")
        known.setdefault(int(n), set()).add(value)
    n, last = 0, "0" * 64
    for place, line in lines(folder):
        if line[-19:] != b',"crc":"%08x"}\n' % crc32c(line[:-19]):
            sys.exit(place + ": changed, or not whole: the checksum does not fit")
        record = json.loads(line, object_pairs_hook=no_twice)
        if list(record)[:5] != ["v", "n", "time", "prev", "kind"] or record["v"] != 1:
            sys.exit(place + ": no audit record of version 1")
        if record["n"] != n:
            sys.exit("%s: number %s in the place of %d: missing, repeated or reordered" % (place, record["n"], n))
        if record["prev"] != last:
            sys.exit(place + ": the line before is not the one that this one was written after")
        n, last = n + 1, hashlib.sha256(line[:-1]).hexdigest()
        if known.pop(n, {last}) != {last}:
            sys.exit("%s: not the record that was there: the log was written anew" % place)
    if any(value != {"0" * 64} or count for count, value in known.items()):
        sys.exit("the log had %d records, now it has %d: its end was cut off" % (max(known), n))
    print("%d:%s" % (n, last))


main(*sys.argv[1:])
