"""The fork server: a fresh interpreter with everything imported, which forks one worker per request."""

from __future__ import annotations

import os
import socket

from rookery.engine import worker  # imports NumPy and Gymnasium once, for all workers
from rookery.engine.channel import Channel, ChannelClosed
from rookery.engine.child import settle_in
from rookery.engine.launch import collect


def main(fd: int, parent: int) -> None:
    """Serve until the parent closes the channel."""
    settle_in(parent)
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
            channel.send(collect(message[1]))
