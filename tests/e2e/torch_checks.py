"""Checks of infprof.torch that need PyTorch: run by the system's Python, all in one process, since importing torch takes a second.
Prints a JSON object: of each check null, or what failed.

  python3 torch_checks.py [NAME...]
"""
import json
import sys
import traceback

from torch_parts import CHECKS, EVERY, fake, hooks, profiling
import torch_checks_hooks  # noqa: F401
import torch_checks_steps  # noqa: F401


def run(function):
    fake.rows.clear()
    fake.recording = True
    try:
        profiling.start(EVERY)
        function()
        return None
    except BaseException:
        return traceback.format_exc()
    finally:
        profiling.stop()
        hooks.thread.calls.clear()
        hooks.thread.step = None


def main():
    wanted = sys.argv[1:] or list(CHECKS)
    if wanted == ["--list"]:
        print("\n".join(CHECKS))
        return
    print(json.dumps({name: run(CHECKS[name]) for name in wanted}))


if __name__ == "__main__":
    main()
