"""Where the trials of a study are recorded: a SQLite file on a local disk, or a PostgreSQL database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rookery.console import printable
from rookery.errors import MissingExtra, StudyError

POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
CONNECT_SECONDS = 10
SECRETS = ("password", "sslpassword")  # of a URL's query
KNOWN = "give the path of a SQLite file, or postgresql://user@host/database"
MOUNTS = Path("/proc/mounts")
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs",
}  # fmt: skip
# FUSE is used for both; what is not known to be a local disk counts as a network drive.
LOCAL_FUSE = {"bindfs", "encfs", "exfat", "ext2", "ext4", "fuse-overlayfs", "gocryptfs", "mergerfs", "ntfs", "ntfs-3g"}


@dataclass(frozen=True)
class StoragePlace:
    """A database: the file of a SQLite one, or the URL of a PostgreSQL one, without its password."""

    file: Path | None
    url: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, storage: str | Path, base: Path | None = None) -> StoragePlace:
        """The database that a user names: a path, or a URL. Relative paths are taken from `base`, or from here.

        Raises:
            StudyError: It is of another kind, or a file on a network drive.

        >>> place = StoragePlace.parse("postgresql://ann:secret@host/studies")
        >>> place.url, place.password
        ('postgresql://ann@host/studies', 'secret')
        """
        text = str(storage)
        scheme = text.split("://")[0] if "://" in text else ""
        if scheme in POSTGRES:
            return cls(None, *_split_password(text))
        if scheme not in ("", "sqlite"):
            raise StudyError(f"a study cannot be stored in {printable(scheme)}: {KNOWN}")
        name = _sqlite_file(text) if scheme else text
        if name in ("", ":memory:") or name.startswith("file:"):
            raise StudyError(f"a study is kept in a file, which {printable(text)!r} does not name: {KNOWN}")
        file = Path(os.path.abspath((base or Path()) / Path(name).expanduser()))
        return cls(file, f"sqlite:///{file}")

    def check_drive(self) -> None:
        """Refuse a SQLite file on a network drive: two machines that write to it would damage it."""
        kind = network_drive(self.file) if self.file is not None else None
        if kind is not None:
            raise StudyError(
                f"{printable(self.file)} is on a network drive ({kind}), where SQLite files get damaged: give "
                "search.storage a file on a local disk, or a PostgreSQL database (postgresql://user@host/database)"
            )

    def check_driver(self) -> None:
        """Refuse what cannot be opened because a package is missing."""
        if find_spec("optuna") is None or find_spec("sqlalchemy") is None:
            raise MissingExtra("studies are made by Optuna, which is not installed: pip install 'rookery[search]'")
        if self.file is None and find_spec("psycopg") is None:
            raise MissingExtra("PostgreSQL needs psycopg, which is not installed: pip install 'rookery[postgres]'")

    @property
    def shown(self) -> str:
        """For messages; a password is never part of it."""
        return printable(self.url if self.file is None else self.file)

    @property
    def connect_options(self) -> dict[str, Any]:
        """What connections to PostgreSQL are opened with: a server that has vanished is noticed within a minute."""
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "keepalives_idle": 20,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "application_name": "rookery",
        }
        return options if self.password is None else {**options, "password": self.password}

    @property
    def environment(self) -> dict[str, str]:
        """What another process needs in its environment to open the database by `url`."""
        return {} if self.password is None else {"PGPASSWORD": self.password}


def shown(storage: str | Path) -> str:
    """A storage for people, of whatever kind: without passwords."""
    if isinstance(storage, Path):
        return printable(storage)
    head, at, tail = re.sub(r"(?<=[?&])(\w*password)=[^&]*", r"\1=...", storage).rpartition("@")
    scheme, slashes, user = head.partition("://")
    return printable(f"{scheme}{slashes}{user.partition(':')[0]}{at}{tail}")


def _split_password(url: str) -> tuple[str, str | None]:
    """The URL with its scheme as users write it and without passwords, and the password."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    if "@" in parts.path + parts.fragment or not re.fullmatch(r"[^:]*(:\d*)?|\[[^]]*](:\d*)?", host):
        raise StudyError(  # without the URL: what was taken for a host may be a part of the password
            "the URL of the database cannot be read: it is postgresql://user:password@host:port/database, and "
            "/ ? # @ in a password are written %2F %3F %23 %40"
        )
    query = parse_qsl(parts.query, keep_blank_values=True)
    in_query = [value for key, value in query if key == "password"]
    kept = urlencode([pair for pair in query if pair[0] not in SECRETS], quote_via=quote, safe="/")
    place = f"{name}@{host}" if name else host
    plain = f"postgresql://{place}{parts.path}{'?' if kept else ''}{kept}"
    return plain, unquote(password) or next(iter(in_query), None)


def _sqlite_file(url: str) -> str:
    """The path in a URL such as sqlite:///studies/x.db, or sqlite:////data/x.db."""
    return re.sub(r"^sqlite:///?", "", url).split("?")[0]


def network_drive(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network drive that `path` is or will be on, such as "nfs4"; None if it is on a local disk.

    Args:
        path: A file or folder that need not exist.
        mounts: What /proc/mounts says, if it is not to be read.

    >>> network_drive(Path("/data/x/study.db"), "disk / ext4 rw 0 0\\nhost:/share /data nfs4 rw 0 0\\n")
    'nfs4'
    """
    kind = file_system(path, _read_mounts() if mounts is None else mounts)
    if kind.startswith("fuse."):
        return None if kind.removeprefix("fuse.") in LOCAL_FUSE else kind
    return kind if kind in NETWORK else None


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that is mounted nearest above `path`; "" if nothing says."""
    real = os.path.realpath(path)
    longest, kind = -1, ""
    for line in mounts.splitlines():
        place, found = (_unescaped(word) for word in line.split(" ")[1:3])
        above = place.rstrip("/")
        if (real == above or real.startswith(f"{above}/")) and len(above) >= longest:  # a later mount hides an earlier
            longest, kind = len(above), found
    return kind


def _read_mounts() -> str:
    try:
        return MOUNTS.read_text(errors="surrogateescape")
    except OSError:  # there is no such file, as on macOS
        return ""


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word)
