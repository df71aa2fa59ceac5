"""thread_exit.py NM LIBRARY...: fails if a thread_local has a destructor; PerThread (core/per_thread.h) is used instead.

The C library allocates memory to register such a destructor. Without memory it ends the process.
"""
import subprocess
import sys

nm, *libraries = sys.argv[1:]
for library in libraries:
    names = subprocess.run([nm, library], check=True, capture_output=True, text=True).stdout.split()
    if not any(name.startswith("_ZN6binade") for name in names):
        sys.exit(f"thread_exit: no symbol of Binade's in {library}")
    if any(name.startswith("__cxa_thread_atexit") for name in names):
        sys.exit(f"thread_exit: a thread_local of {library} has a destructor; make it a PerThread (core/per_thread.h)")
print("thread_exit: no thread_local has a destructor")
