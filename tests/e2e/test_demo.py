"""What the demo records where no server is: its Python inference loop."""
import pathlib
import re
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def test_the_python_loop_has_lines_and_native_code_below(infprof, run_dir):
    pytest.importorskip("numpy")
    done = subprocess.run([infprof, "record", "-o", run_dir, "--cpu=199", "--no-snapshots", "--", sys.executable, TOP / "tools" / "demo_model.py", "--seconds", "2"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and re.search(r"^[0-9]+ tokens, [0-9]+ a second, by numpy ", done.stdout, re.M), done
    folded = subprocess.run([infprof, "flamegraph", "-r", run_dir, "--folded", "--by", "line"], check=True, capture_output=True, text=True).stdout
    step = r"generate \(demo_model\.py:\d+\);.*Model\.decode \(demo_model\.py:\d+\);.*Layer\.forward \(demo_model\.py:\d+\);.*Layer\.feed_forward \(demo_model\.py:\d+\);"
    assert re.search(step + r".*FLOAT_matmul", folded), folded[-3000:]
    lines = subprocess.run([infprof, "report", "-r", run_dir, "lines", "--python-only"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"demo_model\.py:\d+  Layer\.feed_f", lines), lines
