# `infprof record --python` puts the folder of this file in front of PYTHONPATH, so that each Python of the command runs it when it
# starts, also one that is too old for infprof: this file is for Python 2, too. The program sees neither it nor its folder.
import os
import sys


def start():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    if sys.version_info < (3, 8):
        return
    # The folder that has the package stands last for a moment: one that is installed for the program itself goes before it.
    above = os.path.dirname(os.path.dirname(here))
    is_new = above not in sys.path
    if is_new:
        sys.path.append(above)
    try:
        from infprof import _start

        _start.start()
    except Exception as error:
        sys.stderr.write("infprof: this Python is not profiled: %s\n" % error)
    finally:
        if is_new:
            sys.path.remove(above)


start()
del os, start
# The one that would have run without us. Where there is none, the import fails, as it does without us: site.py expects that.
del sys.modules["sitecustomize"], sys
import sitecustomize  # noqa: E402, F401
