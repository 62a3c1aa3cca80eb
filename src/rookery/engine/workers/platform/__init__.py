"""What differs between systems for worker processes: shared memory, wake-ups, and how a death is noticed.

linux.py             memfd, eventfd, pidfd: nothing has a name, so nothing can be left behind
portable.py          files in memory, which Windows and macOS have too; guardian.py removes what is left
portable_wakeups.py  pipes or sockets that wake a process and show its death
"""
