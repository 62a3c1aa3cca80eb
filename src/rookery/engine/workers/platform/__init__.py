"""What differs between systems for worker processes: shared memory, wake-ups, and how a death is noticed.

linux.py     memfd, eventfd, pidfd: nothing has a name, so nothing can be left behind
portable.py  files in memory, sockets and pipes, which Windows and macOS have too; a guardian removes what is left
"""
