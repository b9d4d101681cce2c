"""Manual pages and completion, made from the options' records (tools/manual)."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def made(infprof, tmp_path_factory):
    folder = tmp_path_factory.mktemp("manual")
    said(TOP / "tools" / "manual", infprof, folder)
    return folder


@pytest.fixture(scope="module")
def verbs(infprof):
    """Verbs and their options, from what people read."""
    names = re.findall(r"^  (\w+) +\S", said(infprof, "help").split("\nverbs:\n")[1].split("\n\n")[0], re.M)
    return {name: re.findall(r"^  (?:-\w, |    )--([\w-]+)", said(infprof, name, "-h"), re.M) for name in names}


def test_each_verb_and_option_has_its_place(made, verbs):
    assert {"record", "report", "flamegraph"} <= set(verbs) and all("help" in options for options in verbs.values())
    overview = (made / "infprof.1").read_text()
    completion = {name: (made / name).read_text() for name in ("infprof", "_infprof", "infprof.fish")}
    for verb, options in verbs.items():
        page = (made / f"infprof-{verb}.1").read_text()
        assert f"\\fB{verb}\\fR\n" in overview
        for option in options:
            assert "\\fB\\-\\-" + option.replace("-", "\\-") + "\\fR" in page, (verb, option)
            assert f"-n '__fish_seen_subcommand_from {verb}' -l {option} " in completion["infprof.fish"], (verb, option)
        for name in ("infprof", "_infprof"):
            of_verb = completion[name].split(f"\t{verb})\n")[1].split(";;")[0]
            assert all(f"--{option}" in of_verb for option in options), (name, verb)


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff")
def test_pages_are_rendered_without_a_warning(made):
    for page in sorted(made.glob("*.1")):
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", page], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, (page.name, done.stderr)
        text = re.sub(".\x08", "", done.stdout)  # struck twice: bold
        assert "\nNAME\n" in text and "\nSEE ALSO\n" in text


@pytest.mark.parametrize("words, answer", [
    (["infprof", "reco"], ["record", "recover"]),
    (["infprof", "record", "--capture-"], ["--capture-limit"]),
    (["infprof", "--capture-"], ["--capture-limit"]),
    (["infprof", "report", "func"], ["functions"]),
    (["infprof", "report", "-r", "func"], []),
    (["infprof", "help", "pl"], ["plot"]),
    (["infprof", "record", "--", "python", "--capture-"], []),
    (["infprof", "report", "--", "func"], []),
])
def test_bash_completes(made, words, answer):
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _infprof; printf "%s\\n" "${COMPREPLY[@]}"'
    assert said("bash", "-c", script, "bash", made / "infprof", *words).split() == answer


@pytest.mark.parametrize("shell, name", [("zsh", "_infprof"), ("fish", "infprof.fish")])
def test_other_shells_read_theirs(made, shell, name):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    said(shell, "-n", made / name)


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
@pytest.mark.parametrize("line, answer", [("infprof hel", ["help"]), ("infprof help pl", ["plot"]), ("infprof help plot pl", []),
                                          ("infprof report func", ["functions"])])
def test_fish_completes(made, line, answer, tmp_path):
    done = subprocess.run(["fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', made / "infprof.fish", line],
                          capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert [shown.split("\t")[0] for shown in done.stdout.splitlines()] == answer


def test_scripts_of_the_documents(tmp_path):
    """`./scripts/generate_testdata.sh testdata`, as the first document calls it."""
    said(TOP / "scripts" / "generate_testdata.sh", tmp_path / "testdata")
    assert (tmp_path / "testdata" / "proc" / "stat").is_file()
