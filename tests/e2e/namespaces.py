"""Mount and pid namespaces of a test's own."""
import subprocess

import pytest


def unshare(*flags):
    """The words of unshare(1) for namespaces with mounts of their own; skips where they cannot be had.

    unshare makes the root's mounts private first. In a root directory that is no mount itself (chroot) it cannot; where none
    of the mounts is shared that is not needed, since nothing travels back anyway.
    """
    words = ["unshare", "--mount", *flags]
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        return words
    with open("/proc/self/mountinfo") as file:
        is_shared = any(" shared:" in line for line in file)
    words = ["unshare", "--mount", "--propagation", "unchanged", *flags]
    done = subprocess.run([*words, "true"], stderr=subprocess.PIPE, text=True)
    if is_shared or done.returncode != 0:
        pytest.skip(f"no mount namespace of its own here: {done.stderr.strip() or 'the mounts are shared'}")
    return words
