"""What the demo records of its own: its Python inference loop, and its model in PyTorch."""
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


def test_the_model_has_modules(infprof, run_dir):
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("Debian's python3-torch is not here")
    done = subprocess.run([infprof, "record", "-o", run_dir, "--torch", "--no-snapshots", "--", "/usr/bin/python3", TOP / "tools" / "demo_torch.py",
                           "--seconds", "3"], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0 and re.search(r"^[0-9]+ requests, [0-9]+ tokens$", done.stdout, re.M), done
    told = subprocess.run([infprof, "report", "-r", run_dir, "torch"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"layers\.\d\.(self_attn|mlp)\.\w+ .* Linear$", told, re.M) and "prefill" in told, told
