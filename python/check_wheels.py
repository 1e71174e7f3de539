"""Checks wheels for systems that are not here: what their extension is, what it needs there, and what their tags say.

python check_wheels.py WHEEL...   prints a line for each wheel; exits 1 if one needs what its system does not have

Needs lief. Symbols of Python are checked by abi3audit.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import lief

# Libraries that every system with the tag has, without the numbers of versions that the tag gives.
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1"}
GLIBC |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MUSL = {"libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"}
MACOS = {"/usr/lib/libSystem.B.dylib", "/usr/lib/libiconv.2.dylib"}
# `python3.dll` comes with CPython, the universal C runtime with Windows 10.
WINDOWS = {"python3.dll", "kernel32.dll", "ntdll.dll", "ws2_32.dll", "advapi32.dll", "userenv.dll", "bcrypt.dll"}
WINDOWS |= {"bcryptprimitives.dll", "msvcrt.dll", "ucrtbase.dll"}
MACHINES = {"x86_64": {"X86_64", "AMD64"}, "amd64": {"AMD64"}, "aarch64": {"AARCH64"}, "arm64": {"ARM64"}}
OLDEST = {"manylinux2014": (2, 17)}


class Wrong(Exception):
    """A wheel that its system could not load."""


def need(libraries: set[str], known: set[str]) -> None:
    """Refuses libraries that are not known."""
    if missing := sorted(name for name in libraries if name not in known and not name.startswith("api-ms-win-")):
        raise Wrong(f"it needs {', '.join(missing)}")


def elf(binary: Any, platform: str) -> str:
    """Checks an extension for Linux; returns what it needs."""
    libraries = {str(name) for name in binary.libraries}
    versions = {aux.name for one in binary.symbols_version_requirement for aux in one.get_auxiliary_symbols()}
    if "musl" in platform:
        need(libraries, MUSL)
        if versions:
            raise Wrong(f"it needs versions of symbols, which musl does not have: {', '.join(sorted(versions))}")
        return "musl"
    need(libraries, GLIBC)
    numbers = [tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in versions if "GLIBC_" in name]
    newest = max(numbers, default=(0,))
    tag = re.search(r"manylinux_(\d+)_(\d+)", platform)
    oldest = (int(tag[1]), int(tag[2])) if tag else OLDEST["manylinux2014"]
    if newest > oldest:
        raise Wrong(f"it needs glibc {'.'.join(map(str, newest))}, and its tag says {'.'.join(map(str, oldest))}")
    return f"glibc {'.'.join(map(str, newest))}"


def macho(binary: Any, platform: str) -> str:
    """Checks an extension for macOS; returns what it needs."""
    need({library.name for library in binary.libraries} - {binary.library and binary.name}, MACOS)
    version = binary.build_version.minos if binary.has_build_version else binary.version_min.version
    tag = re.search(r"macosx_(\d+)_(\d+)", platform)
    if tag is None or tuple(version[:2]) > (int(tag[1]), int(tag[2])):
        raise Wrong(f"it needs macOS {version[0]}.{version[1]}, and its tag says {platform}")
    # Symbols that no library gives are looked up in the process: only those of Python can be there.
    for binding in binary.bindings:
        if not binding.has_library and not binding.symbol.name.startswith("_Py"):
            raise Wrong(f"it needs {binding.symbol.name}, which no library gives")
    return f"macOS {version[0]}.{version[1]}"


def pe(binary: Any, _: str) -> str:
    """Checks an extension for Windows; returns what it needs."""
    libraries = {str(one.name).lower() for one in binary.imports}
    need(libraries, WINDOWS)
    if not any(name == "python3.dll" for name in libraries):
        raise Wrong("it does not use python3.dll, the library of the stable ABI")
    if not any(one.name == "PyInit__engine" for one in binary.get_export().entries):
        raise Wrong("it has no PyInit__engine")
    return ", ".join(sorted(name for name in libraries if not name.startswith("api-ms-win-")))


KINDS = {
    "linux": ("ELF", "_engine.abi3.so", elf),
    "macosx": ("MACHO", "_engine.abi3.so", macho),
    "win": ("PE", "_engine.pyd", pe),
}


def check(path: Path) -> str:
    """Checks a wheel; returns what it needs."""
    *_, python, abi, platform = path.stem.split("-")
    kind = next((kind for name, kind in KINDS.items() if name in platform), None)
    if (python, abi) != ("cp310", "abi3") or kind is None:
        raise Wrong(f"its tag is {python}-{abi}-{platform}")
    form, name, look = kind
    with zipfile.ZipFile(path) as wheel:
        extensions = [entry for entry in wheel.namelist() if entry.endswith((".so", ".pyd", ".dll", ".dylib"))]
        if extensions != [f"fairlink/{name}"]:
            raise Wrong(f"its extensions are {', '.join(extensions)}")
        if "fairlink/py.typed" not in wheel.namelist():
            raise Wrong("it has no fairlink/py.typed")
        [info] = [entry for entry in wheel.namelist() if entry.endswith(".dist-info/WHEEL")]
        tags = re.findall(r"^Tag: (.+)$", wheel.read(info).decode(), re.MULTILINE)
        if {tag.rsplit("-", 1)[1] for tag in tags} != set(platform.split(".")):
            raise Wrong(f"its name says {platform}, and it says {', '.join(tags)}")
        binary: Any = lief.parse(list(wheel.read(extensions[0])))
    if binary is None or binary.format.name != form:
        raise Wrong(f"its extension is not {form}")
    if binary.format.name == "MACHO" and not hasattr(binary, "header"):
        binary = binary.at(0)
    machine = (binary.header.cpu_type if form == "MACHO" else getattr(binary.header, "machine_type", None) or binary.header.machine).name
    wanted = next(names for ending, names in MACHINES.items() if platform.split(".")[0].endswith(ending))
    if machine not in wanted:
        raise Wrong(f"its extension is for {machine}")
    return f"{form} {machine}, needs {look(binary, platform)}"


if __name__ == "__main__":
    failed = False
    for path in map(Path, sys.argv[1:]):
        try:
            print(f"{path.name}: {path.stat().st_size} B, {check(path)}")
        except Wrong as wrong:
            failed = True
            print(f"{path.name}: WRONG: {wrong}")
    sys.exit(failed)
