"""Becomes podtui on the terminal that is its standard input (run as ``-m podtui.web.child``).

The parent made a session for us; only we can make the terminal its own, so that a hang-up, a resize
and the keys that interrupt reach it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import termios


def main() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "podtui", *sys.argv[1:]])


if __name__ == "__main__":
    main()
