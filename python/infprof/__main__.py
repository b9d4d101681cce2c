"""`python3 -m infprof --file_to_run FILE [--is_module] [--script_args ...]` records a Python program with its output each 50 ms, as
`infprof record --capture -t 50 -- python FILE` does; `--attach PID [--torch [HOW]]` loads the package into a running Python. With other
arguments it is the program infprof itself."""
import argparse
import os
import sys

from infprof import _place

OPTIONS = ("--file_to_run", "--is_module", "--language", "--log_collect_time", "--script_args", "-h", "--help")


def words_of(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m infprof", allow_abbrev=False,
                                     description="Record a program and its output each 50 ms.",
                                     epilog="`python3 -m infprof help` shows what infprof itself does.")
    parser.add_argument("--file_to_run", required=True, metavar="FILE", help="the script, or with --is_module the module")
    parser.add_argument("--is_module", action="store_true", help="FILE is the name of a module (a.b.c)")
    parser.add_argument("--language", choices=("python", "c"), default="python", help="c: FILE is a program (default: python)")
    parser.add_argument("--log_collect_time", action="store_true", help="nothing: how long each sample took is always recorded")
    parser.add_argument("--script_args", nargs=argparse.REMAINDER, default=[], metavar="ARGUMENT", help="arguments of the program; comes last")
    given = parser.parse_args(arguments)
    if given.language == "c":
        command = [os.path.join(".", given.file_to_run) if os.sep not in given.file_to_run else given.file_to_run]
    else:
        command = [sys.executable, *(["-m"] if given.is_module else []), given.file_to_run]
    return ["record", "--capture", "-t", "50", "--", *command, *given.script_args]


def attach_by(arguments):
    from infprof import _attach

    parser = argparse.ArgumentParser(prog="python3 -m infprof", allow_abbrev=False, description="Load infprof into a running Python.")
    parser.add_argument("--attach", type=int, required=True, metavar="PID", help="its process id; it has to be Python 3.14 or later")
    parser.add_argument("--torch", nargs="?", const="on", metavar="HOW", help="profile PyTorch modules, too; HOW as INFPROF_TORCH takes it")
    given = parser.parse_args(arguments)
    try:
        _attach.attach(given.attach, given.torch)
    except (OSError, RuntimeError) as error:
        sys.exit(f"infprof: {error}")


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0].split("=")[0] == "--attach":
        return attach_by(arguments)
    is_ours = not arguments or arguments[0].split("=")[0] in OPTIONS
    try:
        program = _place.program()
    except FileNotFoundError as error:
        sys.exit(f"infprof: {error}")
    words = words_of(arguments) if is_ours else arguments
    sys.stdout.flush()
    try:
        os.execv(program, [program, *words])
    except OSError as error:
        sys.exit(f"infprof: {program} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
