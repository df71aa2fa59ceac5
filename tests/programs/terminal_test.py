"""The output of the programs on an interactive terminal."""
import os
import pty
import re
import select
import time
import unittest

from programs import GPT, GPT_TINY, ProgramTest

WIDTH = 72


class Terminal:
    """Runs a program on a pseudo-terminal of WIDTH columns. lines() returns all lines, also those that have scrolled off."""

    def __init__(self, program, *args):
        self.output, self.status = "", None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", NO_COLOR="1")
            os.execv(str(program), [str(program), *map(str, args)])
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))

    def read_until(self, word, seconds):
        """Returns True when the output contains `word`, False if the program ends first."""
        end = time.monotonic() + seconds
        while word not in self.output and time.monotonic() < end:
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the other side is closed: the program has ended
                return False
            if not data:
                return False
            self.output += data.decode(errors="replace")
        return word in self.output

    def press(self, keys):
        os.write(self.master, keys)

    def wait(self):
        self.read_until("\0never\0", 240)
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        screen, row, column = [""], 0, 0
        for piece in re.findall(r"\x1b\[K|\x1b\[[0-9;]*m|.", self.output, re.DOTALL):
            if piece == "\r":
                column = 0
            elif piece == "\n":
                screen.append("")
                row += 1
            elif piece == "\x1b[K":
                screen[row] = screen[row][:column]
            elif not piece.startswith("\x1b"):
                if column >= WIDTH:
                    screen.append("")
                    row, column = row + 1, 0
                screen[row] = screen[row].ljust(column)[:column] + piece + screen[row][column + 1:]
                column += 1
        return screen


class OnATerminal(ProgramTest):
    def test_control_c_does_not_break_lines(self):
        folder = self.folder / "run"
        shown = Terminal(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 10**7)
        self.assertTrue(shown.read_until(" left", 120), shown.output[-2000:])
        shown.press(b"\x03")
        self.assertEqual(shown.wait(), 10, shown.output[-2000:])
        lines = [line.rstrip() for line in shown.lines() if line.strip()]
        bars = [i for i, line in enumerate(lines) if re.match(r"\d+/10000000 \[", line)]
        self.assertEqual(len(bars), 1, lines)
        for line in lines:
            self.assertEqual("/10000000 [" in line, line is lines[bars[0]], lines)
        said = ["stopped by signal 2", "run folder", "go on with"]
        places = [next(i for i, line in enumerate(lines) if line.startswith(word)) for word in said]
        self.assertEqual(places, sorted(places), lines)
        self.assertLess(bars[0], places[1], lines)

    def test_a_supervisor_starts_a_line_after_its_child_died(self):
        folder = self.folder / "run"
        shown = Terminal(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 40, "--checkpoint-every", 1,
                         "--supervise", "--inject", "kill@step=20")
        self.assertEqual(shown.wait(), 0, shown.output[-2000:])
        lines = [line.rstrip() for line in shown.lines() if line.strip()]
        died = [line for line in lines if "killed by signal 9" in line]
        self.assertEqual(len(died), 1, lines)
        self.assertTrue(died[0].startswith("supervisor: "), lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
