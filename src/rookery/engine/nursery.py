"""The fork server: a fresh interpreter with everything imported, which forks one worker per request."""

from __future__ import annotations

import os
import signal
import socket

from rookery.engine import worker  # imports NumPy and Gymnasium once, for all workers
from rookery.engine.channel import Channel, ChannelClosed
from rookery.engine.launch import die_with_parent


def main(fd: int, parent: int) -> None:
    """Serve until the parent closes the channel."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=fd))
    me = os.getpid()
    while True:
        try:
            message, fds = channel.receive()
        except ChannelClosed:
            os._exit(0)
        if message[0] == "fork":
            pid = os.fork()
            if pid == 0:
                channel.close()
                worker.main(fds[0], me)
            os.close(fds[0])
            channel.send(pid)
        else:
            channel.send(_status(message[1]))


def _status(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None
