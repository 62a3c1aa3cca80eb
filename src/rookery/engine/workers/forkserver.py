"""The fork server: a new interpreter with everything imported, which forks one worker per request."""

from __future__ import annotations

import os
import socket

from rookery.engine.workers import linux_worker
from rookery.engine.workers.channel import ChannelClosed
from rookery.engine.workers.child_process import set_up_child
from rookery.engine.workers.launcher import collect
from rookery.engine.workers.platform.linux import FdChannel


def main(fd: int, parent: int) -> None:
    """Serve until the parent closes the channel. Responses have the number of their request."""
    set_up_child(parent)
    channel = FdChannel(socket.socket(fileno=fd))
    me = os.getpid()
    while True:
        try:
            (number, method, *args), fds = channel.receive()
        except ChannelClosed:
            os._exit(0)
        if method == "fork":
            pid = os.fork()
            if pid == 0:
                channel.close()
                linux_worker.main(fds[0], me)
            os.close(fds[0])
            channel.send((number, pid))
        else:
            channel.send((number, collect(*args)))
