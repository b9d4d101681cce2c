"""infprof.torch with a real PyTorch: Debian's python3-torch. Its checks are in torch_checks_hooks.py and torch_checks_steps.py."""
import functools
import json
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
@functools.lru_cache(maxsize=None)
def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.fixture(autouse=True)
def torch():
    if not has_torch():
        pytest.skip("no python3-torch (tools/setup check installs it)")


@pytest.mark.parametrize("part", ["hooks", "steps"])
def test_checks(part):
    """Importing torch takes a second, so the checks of a file run in one process."""
    names = re.findall(r"^@check\ndef (\w+)", (HERE / f"torch_checks_{part}.py").read_text(), re.MULTILINE)
    done = subprocess.run([PYTHON, str(HERE / "torch_checks.py"), *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=170)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert list(results) == names and len(names) > 10
    faults = {name: fault for name, fault in results.items() if fault}
    assert not faults, "\n".join(f"{name}: {fault}" for name, fault in faults.items())
