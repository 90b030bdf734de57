"""Runs a command in a terminal: terminal.py COLUMNS PATTERN COMMAND... Prints each text that its moving line shows.

Where PATTERN is not empty, the command is stopped once a text matches it.
"""
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios

columns, pattern, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
pid, terminal = pty.fork()
if not pid:
    os.environ.update(TERM="xterm", NO_COLOR="")
    sys.stdin.readline()  # until the terminal has its width
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
os.write(terminal, b"\n")
seen, stopped = b"", False
while True:
    try:
        block = os.read(terminal, 4096)
    except OSError:  # the other end is closed
        block = b""
    if not block:
        break
    seen += block
    if pattern and not stopped and re.search(pattern.encode(), seen):
        os.kill(pid, signal.SIGTERM)
        stopped = True
for text in re.split("[\r\n]+", seen.decode()):
    print(text.rstrip())
status = os.waitpid(pid, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
