"""Run podtui on the terminal that is its standard input (started as ``-m podtui.web.child``).

The parent started us in a new session, but only this process can make the terminal its controlling
terminal, which is required to receive hang-up, resize and interrupt signals.
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
