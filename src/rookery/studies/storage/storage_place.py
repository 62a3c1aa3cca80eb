"""Where the trials of a study are recorded: a SQLite file on a local disk, or a PostgreSQL database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rookery.console import printable
from rookery.errors import MissingExtra, StudyError
from rookery.studies.storage.network_drives import network_drive

POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
SECRETS = ("password", "sslpassword")  # of a URL's query
KNOWN = "give the path of a SQLite file, or postgresql://user@host/database"


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
    def environment(self) -> dict[str, str]:
        """What another process needs in its environment to open the database by `url`."""
        return {} if self.password is None else {"PGPASSWORD": self.password}


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
