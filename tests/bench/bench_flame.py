#!/usr/bin/env python3
"""What drawing a flame graph of 100,000 frames costs.

  bench_flame.py [-r ROUNDS]

CPU time of drawing alone, as tests/unit/flame_tool prints it: the least of ROUNDS. Exit code 1 when a budget is broken.
"""
import argparse
import pathlib
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
import flame_tree  # noqa: E402

BUDGET_S = 0.3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-r", "--rounds", type=int, default=5)
    args = parser.parse_args()
    tree = flame_tree.large()
    slow = False
    with tempfile.TemporaryDirectory() as directory:
        for form in ("html", "svg"):
            done = [tree.draw(pathlib.Path(directory) / f"flame.{form}", form) for _ in range(args.rounds)]
            cpu_s = min(one["cpu_s"] for one in done)
            slow |= cpu_s > BUDGET_S
            print(f"{form} of 100,000 frames: {cpu_s:.3f} s of CPU (budget {BUDGET_S}), {done[0]['bytes']:,} bytes")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
