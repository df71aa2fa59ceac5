"""State of the card during a measurement (from nvidia-smi), and versions of the software."""
import csv
import io
import shutil
import subprocess

FIELDS = ("name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.draw", "power.limit",
          "temperature.gpu", "clocks_event_reasons.active")
OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
# Bits of clocks_event_reasons.active: reasons for reduced clocks (nvml.h).
SLOWED = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal", 0x40: "hardware thermal", 0x80: "power brake"}


def number(text):
    """Parses a number that nvidia-smi printed; returns None for "[N/A]" and similar texts."""
    try:
        return float(text)
    except ValueError:
        return None


def parse_smi(text, fields=FIELDS):
    """Parses the first GPU's line of the output with --format=csv,noheader,nounits."""
    line = next(csv.reader(io.StringIO(text.strip()), skipinitialspace=True), [])
    if len(line) != len(fields):
        return {}
    found = {}
    for field, value in zip(fields, line):
        key = field.replace(".", "_")
        if field == "clocks_event_reasons.active":
            bits = int(value, 16) if value.startswith("0x") else 0
            found["slowed_by"] = [words for bit, words in SLOWED.items() if bits & bit]
        else:
            found[key] = value if field in ("name", "driver_version") else number(value)
    return found


def smi():
    """Queries nvidia-smi; returns {} if it is not installed."""
    program = shutil.which("nvidia-smi")
    if not program:
        return {}
    for rename in ({}, OLD_NAMES):
        query = ",".join(rename.get(field, field) for field in FIELDS)
        try:
            done = subprocess.run([program, "--id=0", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                                  timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return {}
        if done.returncode == 0:
            return parse_smi(done.stdout)
    return {}
