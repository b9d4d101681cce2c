"""A program that mostly sleeps, with the labels that `infprof report --labels` evaluates (docs/labels.md)."""
import sys
import time

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
for label in ("begin", "sleep", "end"):
    print(f"measure_label-{label}: {time.time()}", flush=True)
    time.sleep(seconds / 3)
