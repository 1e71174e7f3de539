#!/usr/bin/env python3
"""Measures rows of the table of the model of the kernel's HTB again, on real packets.

    shares.py TABLE [EVERY]

Runs every EVERY-th row (default 6) of crates/theory/src/kernel_htb/seen.txt, whose head explains a row, with the
kernel's HTB on a virtual cable. Prints the shares there and now, and exits with 1 if any two differ by more than
LIMIT. Needs tc, and root in a network namespace of its own: scripts/oracle-htb makes one.
"""

import re
import socket
import subprocess
import sys
import time

LIMIT = 0.05
SO_PRIORITY = 12
SO_SNDBUFFORCE = 32
# Packets of the link in a measurement, and those that a leaf's queue holds.
PACKETS = 900
QUEUE = 300


def run(*command: str, text: str = "") -> str:
    return subprocess.run(command, input=text, text=True, check=True, capture_output=True).stdout


def commands(link: int, classes: list[list[int]]) -> str:
    lines = ["qdisc replace dev va root handle 1: htb"]
    lines.append(f"class add dev va parent 1: classid 1:1 htb rate {link}bit ceil {link}bit")
    parents = {parent for _, parent, *_ in classes}
    for minor, parent, rate, ceil, quantum, burst, cburst, prio, _ in classes:
        options = f"rate {rate}bit ceil {ceil or link}bit prio {prio}"
        for name, value in (("quantum", quantum), ("burst", burst), ("cburst", cburst)):
            options += f" {name} {value}" if value else ""
        lines.append(f"class add dev va parent 1:{parent:x} classid 1:{minor:x} htb {options}")
        if minor not in parents:
            lines.append(f"qdisc add dev va parent 1:{minor:x} pfifo limit {QUEUE}")
    return "\n".join(lines) + "\n"


def sent(minors: list[int]) -> list[int]:
    text = run("tc", "-s", "class", "show", "dev", "va")
    found = re.findall(r"class htb 1:([0-9a-f]+) .*\n Sent (\d+) bytes", text)
    by_minor = {int(minor, 16): int(count) for minor, count in found}
    return [by_minor[minor] for minor in minors]


def measure(link: int, length: int, classes: list[list[int]]) -> list[float]:
    run("tc", "-batch", "-", text=commands(link, classes))
    parents = {parent for _, parent, *_ in classes}
    busy = [minor for minor, *_, sends in classes if sends and minor not in parents]
    sockets = []
    for minor in busy:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        one.bind(("va", 0))
        one.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, 0x10000 | minor)
        one.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        one.setblocking(False)
        sockets.append(one)
    frame = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + b"\0" * (length - 14)

    def keep_full(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for one in sockets:
                try:
                    for _ in range(QUEUE // 2):
                        one.send(frame)
                except OSError:
                    pass  # The queue is full.
            time.sleep(min(0.05, QUEUE / 8 * length * 8 / link))

    seconds = max(1.5, PACKETS * length * 8 / link)
    keep_full(seconds / 3)
    before = sent(busy)
    keep_full(seconds)
    bytes_now = [after - first for first, after in zip(before, sent(busy), strict=True)]
    for one in sockets:
        one.close()
    run("tc", "qdisc", "del", "dev", "va", "root")
    return [count / sum(bytes_now) for count in bytes_now]


def main() -> int:
    table, every = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
    for end in ("va", "vb"):
        run("ip", "link", "set", end, "up")
    with open(table, encoding="utf-8") as file:
        rows = [line for line in file if not line.startswith("#")]
    largest = 0.0
    for row in rows[::every]:
        setup, shares = row.split("=")
        link, length, *classes = setup.split()
        there = [float(share) for share in shares.split(" of ")[0].split()]
        now = measure(int(link), int(length), [[int(part) for part in one.split("/")] for one in classes])
        apart = max(abs(one - other) for one, other in zip(there, now, strict=True))
        largest = max(largest, apart)
        print(f"{int(link) / 1e6:>6g} Mbit/s, {length:>4} B: {there} there, {[round(one, 4) for one in now]} now")
    print(f"largest difference: {100 * largest:.1f} points; {100 * LIMIT:g} are allowed")
    return int(largest > LIMIT)


sys.exit(main())
