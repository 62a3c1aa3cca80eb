"""Which file system a path is on. SQLite needs locks that network drives do not have, or have with faults."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs",
}  # fmt: skip
# FUSE is used for both; what is not known to be a local disk counts as a network drive.
LOCAL_FUSE = {"bindfs", "encfs", "exfat", "ext2", "ext4", "fuse-overlayfs", "gocryptfs", "mergerfs", "ntfs", "ntfs-3g"}


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
