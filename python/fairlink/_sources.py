"""Texts and files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from . import _engine

Path: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = Mapping[str, str | bytes] | os.PathLike[str] | None

S = TypeVar("S", bound="Sourced")


class Sourced:
    """Something that was read from a file or a text. It can be pickled: a file is read again then."""

    _source: _engine.Source
    _made_of: tuple[str, tuple[Any, ...]]

    @classmethod
    def _read(cls: type[S], source: _engine.Source, made_of: tuple[str, tuple[Any, ...]]) -> S:
        raise NotImplementedError

    @classmethod
    def from_file(cls: type[S], path: Path) -> S:
        """Reads a file. Files that it names are looked for beside it.

        Raises:
            OSError: The file cannot be opened.
            Refused: What is wrong with it, at its place.
        """
        return cls._read(opened(path), ("from_file", (os.fspath(path),)))

    @classmethod
    def from_toml(cls: type[S], text: str, name: str = "text.toml", files: Files = None) -> S:
        """Reads a text.

        Args:
            text: The text, as a file has it.
            name: Its name in messages.
            files: Files that the text may name: their contents by name, or the directory in which they are.

        Raises:
            Refused: What is wrong with it, at its place.
        """
        return cls._read(written(text, name, files), ("from_toml", (text, name, files)))

    @property
    def text(self) -> str:
        """The text as it was read."""
        return self._source.text

    def __reduce__(self) -> tuple[Any, ...]:
        method, arguments = self._made_of
        return getattr(type(self), method), arguments


def opened(path: Path) -> _engine.Source:
    """Reads a file; one that cannot be opened is an `OSError`."""
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"a path as str or os.PathLike[str] is needed, not {type(path).__name__}")
    try:
        mode = os.stat(name).st_mode
    except ValueError as error:  # A NUL within.
        raise OSError(errno.EINVAL, str(error), name) from None
    except OSError as error:
        error.filename = name
        raise
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not os.access(name, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return _engine.Source.read(name)


def written(text: str, name: str, files: Files) -> _engine.Source:
    """Makes a source of a text."""
    for what, value in (("text", text), ("name", name)):
        if not isinstance(value, str):
            raise TypeError(f"{what}: a str is needed, not {type(value).__name__}")
    if files is None:
        return _engine.Source.among(name, text, {})
    if isinstance(files, Mapping):
        held = {path: data.encode() if isinstance(data, str) else bytes(data) for path, data in files.items()}
        return _engine.Source.among(name, text, held)
    return _engine.Source.beside(os.path.join(os.fspath(files), name), text)


def text_or_file(value: Path, name: str) -> _engine.Source:
    """Reads a text, which is a `str` with a line break, or a file."""
    if isinstance(value, str) and "\n" in value:
        return written(value, name, None)
    return opened(value)
