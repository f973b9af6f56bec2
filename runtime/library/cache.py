"""Cache of built libraries: which files may be loaded, and how it stays intact and small.

`KEY.so` are libraries, `objects/KEY.o` the pieces that they are linked from, `KEY.json` the
compilers that made them. Beside each lies its record `KEY.*.sum`: name, size and SHA-256. A file
that does not match its record (cut short, damaged, exchanged, somebody else's) counts as absent,
and is built anew. Files are written under another name, brought to the disk, and moved into place.
The time of a record is that of the last use: the least recently used files go first when the folder
outgrows its limit.

Opened libraries run with the rights of the user. So nobody else may be able to write to the folder,
to own it, or to own a link that leads to it. A folder above it may be another's: who puts another
folder into its place owns that one, and it is refused.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock

#: Environment variable that overrides the folder of the cache.
CACHE_VARIABLE = "KINESYM_CACHE"

#: Environment variable with the largest size of the cache in MB (10^6 bytes).
LIMIT_VARIABLE = "KINESYM_CACHE_LIMIT"

#: Beginning of the names of files and folders that do not outlive a build.
WORK = "kinesym-work-"

_DEFAULT_LIMIT = 2000.0  # MB
_STALE = 86400.0  # s; what a killed build left is removed when it is older
_WAIT = 600.0  # s; longest wait for another process that builds the same library
_NAMES = re.compile(r"[0-9a-f]{32}\.(so|o|json)(\.sum)?")
_WORK = re.compile(f"{WORK}.*")
_LEFT = re.compile(f"{WORK}.*|[0-9a-f]{{32}}[.]lock")
_INSTALLER = Path(__file__).stat().st_uid
_ANOTHER = f"name another folder in the environment variable {CACHE_VARIABLE}"


class CacheError(RuntimeError):
    """The folder for built libraries cannot be used."""


def cache_folder() -> Path:
    """Folder of the cache of built libraries, as an absolute path."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return (Path(chosen) if chosen else platformdirs.user_cache_path("kinesym")).absolute()


def private_folder() -> Path:
    """Fallback folder if the cache cannot be written: one per user and machine."""
    return Path(tempfile.gettempdir()).absolute() / f"kinesym-{os.geteuid()}"


def cache_limit() -> float:
    """The largest size of the cache in bytes; raises `CacheError` if the variable is no number."""
    chosen = os.environ.get(LIMIT_VARIABLE, "").strip()
    try:
        megabytes = float(chosen) if chosen else _DEFAULT_LIMIT
    except ValueError:
        megabytes = float("nan")
    if not megabytes > 0.0:
        raise CacheError(
            f"the environment variable {LIMIT_VARIABLE} must be a number of megabytes above 0, "
            f"got {chosen!r}; correct or unset it"
        )
    return 1e6 * megabytes


def trouble(folder: Path) -> str | None:
    """Reason why nothing may be loaded from `folder`, as a sentence; None if there is no reason."""
    try:
        status = folder.stat()
        links = [link for link in _links(folder) if not _trusted(link.lstat())]
    except OSError:
        return None  # nothing is there, or nothing that could be loaded
    if not stat.S_ISDIR(status.st_mode):
        return None
    if links:
        return f"the link {links[0]} on the way to the cache belongs to another user; {_ANOTHER}"
    if not _trusted(status):
        return f"the cache folder {folder} belongs to another user; {_ANOTHER}"
    if status.st_mode & 0o022:
        shared = status.st_mode & stat.S_ISVTX  # such as /tmp, to be left as it is
        repair = "" if shared else f"run chmod go-w {shlex.quote(str(folder))}, or "
        return (
            f"others may write to the cache folder {folder}, and what lies there runs with your "
            f"rights; {repair}{_ANOTHER}"
        )
    return None


def check(folder: Path) -> None:
    """Check that nobody else may write to `folder`; raises `CacheError`."""
    reason = trouble(folder)
    if reason is not None:
        raise CacheError(reason)


def _trusted(status: os.stat_result) -> bool:
    """Whether the owner is the user, root, or who installed kinesym and could change its code."""
    return status.st_uid in (os.geteuid(), 0, _INSTALLER)


def _links(path: Path) -> Iterator[Path]:
    """The symbolic links on the way to an existing path, and those that they lead to."""
    for part in (path, *path.parents):
        if part.is_symlink():
            yield part
            yield from _links(part.parent / os.readlink(part))


def prepare(folder: Path) -> None:
    """Make `folder`, for the user alone, if there is none. Raises `CacheError` if others may write
    to it, `OSError` if the user may not."""
    _make(folder)
    check(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def _make(folder: Path) -> None:
    if folder.is_dir():
        return
    _make(folder.parent)
    try:
        folder.mkdir(0o700)
        folder.chmod(0o700)  # an umask may have taken rights from the user himself
    except FileExistsError:  # by another process, or a file
        if not folder.is_dir():
            raise


def read(path: Path) -> bytes | None:
    """Read the content stored at `path`; None if it is missing or was changed."""
    record = _content(_record(path), 200) or b""
    words = record.split()
    if len(words) != 3 or not words[1].isdigit():
        return None
    data = _content(path, int(words[1]))
    if data is None or record != _recorded(path, data):
        return None
    with suppress(OSError):
        os.utime(_record(path))
    return data


def _content(path: Path, most: int) -> bytes | None:
    """The bytes of a file, up to `most`, that only trusted users can have written; no link."""
    try:
        with open(path, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            good = stat.S_ISREG(status.st_mode) and status.st_size <= most
            return file.read() if good and _trusted(status) and not status.st_mode & 0o022 else None
    except OSError:
        return None


def _open(path: str, flags: int) -> int:
    """Open a file without following links, and without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sum")


def _recorded(path: Path, data: bytes) -> bytes:
    return f"{path.name} {len(data)} {hashlib.sha256(data).hexdigest()}\n".encode()


def store(path: Path, data: bytes) -> None:
    """Store a file and its record, each at once. Raises `OSError`."""
    _place(path, data)
    _place(_record(path), _recorded(path, data))


def _place(path: Path, data: bytes) -> None:
    descriptor, made = tempfile.mkstemp(prefix=WORK, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, 0o644)
            file.flush()
            os.fsync(descriptor)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a path for one process at a time. Raises `OSError` if the lock cannot be had."""
    with FileLock(path, timeout=_WAIT):
        try:
            yield
        finally:
            _remove(path)  # while it is held: who waits for it makes another


def tidy(folder: Path, newest: Path) -> None:
    """Tidy the cache: remove leftovers of killed builds, and the least recently used files until
    the rest is below the limit; `newest` stays."""
    for item in (*_items(folder, _LEFT), *_items(Path(tempfile.gettempdir()), _WORK)):
        with suppress(OSError):
            status = item.stat(follow_symlinks=False)
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _STALE:
                _remove(Path(item.path))
    kept, limit = _kept(folder), cache_limit()
    total = sum(size for _, size in kept.values())
    for path, (_, size) in sorted(kept.items(), key=lambda entry: entry[1][0]):
        if total <= limit:
            break
        if path != str(newest) and not path.endswith(".json"):
            _remove(Path(path))
            _remove(_record(Path(path)))
            total -= size


def summary(folder: Path) -> str:
    """Summary of the content of `folder`, in a line. Raises `CacheError` if the limit is no
    number, and for a file in the place of a folder."""
    for part in (folder, *folder.parents):
        if part.exists() and not part.is_dir():
            raise CacheError(f"{folder}: {part} is a file; {_ANOTHER}")
    kept = _kept(folder)
    kinds = [os.path.splitext(path)[1] for path in kept]
    total = sum(size for _, size in kept.values())
    return (
        f"{folder}, {kinds.count('.so')} libraries, {kinds.count('.o')} objects, "
        f"{total / 1e6:.1f} MB of {cache_limit() / 1e6:g} MB"
    )


def clear(folder: Path) -> int:
    """Remove all that builds left in `folder`, and nothing else; returns how many files stay."""
    for names in (_NAMES, _LEFT):
        for item in _items(folder, names):
            _remove(Path(item.path))
    return len(_items(folder, _NAMES))


def _kept(folder: Path) -> dict[str, tuple[float, int]]:
    """Last use of each file that is kept, and its size with its record [bytes]; by text, as there
    may be ten thousands and every build looks."""
    found: dict[str, tuple[float, int]] = {}
    for item in _items(folder, _NAMES):
        path = item.path.removesuffix(".sum")
        with suppress(OSError):  # removed meanwhile
            status = item.stat(follow_symlinks=False)
            used, size = found.get(path, (0.0, 0))
            found[path] = max(used, status.st_mtime), size + status.st_size
    return found


def _items(folder: Path, names: re.Pattern[str]) -> list[os.DirEntry[str]]:
    """Files of a cache folder with names that builds write."""
    found: list[os.DirEntry[str]] = []
    for part in (folder, folder / "objects"):
        with suppress(OSError), os.scandir(part) as items:
            found += (item for item in items if names.fullmatch(item.name))
    return found


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
