"""Into a Python that runs already, by its own remote debugging interface (PEP 768): 3.14 or later, the same version on both sides."""
import os
import shutil
import sys
import tempfile
import time

from infprof import _place

# Runs in the main thread of the other process, between two of its instructions, in a namespace of its own.
SCRIPT = '''\
import os, sys
answer, above, torch = {answer!r}, {above!r}, {torch!r}
before = list(sys.path)
try:
    sys.path.append(above)
    from infprof import _attached
    said = _attached.begin(torch)
except BaseException as error:
    said = f"{{type(error).__name__}}: {{error}}"
finally:
    sys.path[:] = before
try:
    with open(answer + ".part", "w") as file:
        file.write(said)
    os.rename(answer + ".part", answer)
except OSError:
    pass
'''


def refuse(pid):
    if not hasattr(sys, "remote_exec"):
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(f"Python {version} cannot load anything into a running process: that takes 3.14 or later; start the program by "
                           "`infprof record --python -- COMMAND`")
    try:
        is_elsewhere = os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {pid}") from None
    except PermissionError:
        raise PermissionError(f"process {pid} is not yours to change: run as its user, or as root") from None
    if is_elsewhere:
        raise RuntimeError(f"process {pid} has other files than this one (a container): attach from inside it")


def attach(pid, torch=None, seconds=10):
    """Loads this package into the running Python `pid`, which then records itself; torch: also profile PyTorch, as INFPROF_TORCH says
    it. Needs the right to trace the process. Returns once that has happened. TimeoutError: its main thread has run no Python for so
    many seconds; it happens when it does."""
    refuse(pid)
    folder = tempfile.mkdtemp(prefix="infprof-attach-")
    script, answer = os.path.join(folder, "script.py"), os.path.join(folder, "answer")
    with open(script, "w") as file:
        file.write(SCRIPT.format(answer=answer, above=os.path.dirname(_place.HERE), torch=torch))
    owner = os.stat(f"/proc/{pid}")
    if owner.st_uid != os.geteuid():
        os.chown(folder, owner.st_uid, owner.st_gid)
        os.chown(script, owner.st_uid, owner.st_gid)
    try:
        sys.remote_exec(pid, script)
    except BaseException:
        shutil.rmtree(folder)
        raise
    end = time.monotonic() + seconds
    while not os.path.exists(answer):
        if not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(folder)
            raise ProcessLookupError(f"process {pid} has ended")
        if time.monotonic() > end:  # the script stays for it
            raise TimeoutError(f"the main thread of process {pid} has run no Python for {seconds} s; it loads infprof when it does")
        time.sleep(0.01)
    with open(answer) as file:
        said = file.read()
    shutil.rmtree(folder)
    if said:
        raise RuntimeError(f"process {pid} says: {said}")
