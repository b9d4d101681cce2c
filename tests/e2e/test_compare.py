"""infprof compare, report --diff, report --group and runs --pin: on real runs of programs that differ by what is known."""
import csv
import io
import json
import pathlib
import subprocess
import xml.etree.ElementTree as ET

import pytest

from program import run
from test_load import load_json, truth, truth_program  # noqa: F401  (fixtures)

# So much CPU by the process's own clock, whatever else the machine does.
BURN = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): sum(range(2000))"
# Units of work of equal length, so many in each function.
SHARES = """
static volatile unsigned long sink;
static __attribute__((noinline)) void unit(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void alpha(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void beta(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
        const unsigned long share = argc > 1 ? strtoul(argv[1], NULL, 10) : 50;

        while (clock() < 2 * CLOCKS_PER_SEC) {
                alpha(share * 3700);
                beta((100 - share) * 3700);
        }
        unit(1);
        return 0;
}
"""
REPLICATES = 4
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


@pytest.fixture(scope="module")
def burnt(infprof, tmp_path_factory):
    """Two directories of four runs: 0.5 s of CPU, and 20 % more. In turns, so that what the machine does meets both."""
    folder = tmp_path_factory.mktemp("burnt")
    for _ in range(REPLICATES):
        for name, seconds in ("before", "0.5"), ("after", "0.6"):
            done = run([infprof, "record", "-o", folder / name, "-t", "50", "--no-snapshots", "--", "python3", "-S", "-c", BURN, seconds])
            assert done.returncode == 0, done.stderr
    return folder


def compare(infprof, *words, code=0, **options):
    done = run([infprof, "compare", *words], **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def rows_of(done):
    return {row["name"]: row for row in json.loads(done.stdout)["rows"]}


def test_more_work_is_found(infprof, burnt, tmp_path):
    """20 % more CPU, four runs a side; the interval holds what the program's own clock says, start-up included."""
    done = compare(infprof, "--replicates", REPLICATES, burnt / "before", burnt / "after", "--json")
    report = json.loads(done.stdout)
    assert [len(side["runs"]) for side in report["sides"]] == [REPLICATES, REPLICATES]
    assert (report["method"], report["correction"], report["unlike"]) == ("Welch's t test between runs", "Holm", None)
    cpu = rows_of(done)["cpu_s"]
    assert cpu["verdict"] == "worse" and cpu["p_corrected"] < 0.05 and cpu["better"] == "less"
    assert cpu["before"] >= 0.5 and cpu["after"] >= 0.6 and cpu["low"] < cpu["difference"] < cpu["high"]
    assert cpu["difference"] == pytest.approx(cpu["after"] / cpu["before"] - 1, rel=1e-9)
    back = rows_of(compare(infprof, "--replicates", REPLICATES, burnt / "after", burnt / "before", "--json"))["cpu_s"]
    assert back["verdict"] == "better" and back["p"] == pytest.approx(cpu["p"])

    text = " ".join(compare(infprof, "--replicates", REPLICATES, burnt / "before", burnt / "after").stdout.split())
    assert "B against A: worse: cpu_s +" in text and "Welch's t test" in text and "nan" not in text


def test_gate(infprof, burnt, tmp_path):
    sides = ["--replicates", REPLICATES, burnt / "before", burnt / "after"]
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    done = compare(infprof, *sides, "--fail-on", "cpu_s>+1%", "--fail-on", "cpu_s>+200%", "--junit", junit, "--markdown", markdown, code=3)
    assert "cpu_s>+1% of B: failed: +" in done.stdout and "cpu_s>+200% of B: passed: +" in done.stdout
    suite = ET.parse(junit).getroot().find("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "1", "0", "0"]
    failed, passed = suite.findall("testcase")
    assert failed.get("name") == "cpu_s>+1% of B" and "failed" in failed.find("failure").get("message")
    assert passed.find("failure") is None
    assert "| cpu\\_s |" in markdown.read_text() and "**worse**" in markdown.read_text()
    compare(infprof, *sides, "--fail-on", "cpu_s>+200%")
    # What lies within the interval is not decided, which is said, and is no failure.
    cpu = rows_of(compare(infprof, *sides, "--json"))["cpu_s"]
    done = compare(infprof, *sides, "--fail-on", f"cpu_s>{100 * cpu['difference']:.4f}%")
    assert "the data cannot decide it" in done.stderr and "undecided" in done.stdout
    done = compare(infprof, *sides, "--fail-on", "ttft_p95>5%", code=1)
    assert "not all of these runs have ttft_p95" in done.stderr and "not measured" in done.stdout


def test_one_run_a_side(infprof, burnt):
    """Without replicates a total has no noise that could be known."""
    done = compare(infprof, burnt / "before", burnt / "after", "--json")
    report, rows = json.loads(done.stdout), rows_of(done)
    assert report["method"] == "bootstrap of blocks of time"
    assert rows["cpu_s"]["verdict"] == "not known" and "one run a side" in rows["cpu_s"]["why"] and rows["cpu_s"]["low"] is None
    assert rows["cpu_s_per_s"]["n_before"] >= 1 and rows["rss_bytes"]["verdict"] in ("no evidence", "not known")
    again = compare(infprof, burnt / "before", burnt / "after", "--json")
    assert again.stdout == done.stdout  # resampling has a seed


def test_a_run_with_itself(infprof, burnt):
    done = compare(infprof, burnt / "before", burnt / "before", "--json")
    assert {row["verdict"] for row in rows_of(done).values()} <= {"no evidence", "not known"}
    assert all(row["difference"] in (0, None) for row in rows_of(done).values())


def test_functions(infprof, tmp_path):
    """alpha takes 30 % of the samples, then 80 %."""
    (tmp_path / "shares.c").write_text(SHARES)
    subprocess.run(["gcc", "-O1", "-g", tmp_path / "shares.c", "-o", tmp_path / "shares"], check=True)
    for share in 30, 80:
        done = run([infprof, "record", "--cpu=500", "-o", tmp_path / str(share), "-t", "50", "--no-snapshots", "--", tmp_path / "shares", share])
        assert done.returncode == 0, done.stderr
    done = compare(infprof, tmp_path / "30", tmp_path / "80", "--json")
    rows = {(row["section"], row["name"]): row for row in json.loads(done.stdout)["rows"]}
    alpha, beta = rows["functions_self", "alpha"], rows["functions_self", "beta"]
    # 1,000 samples a side: 1.6 points are a standard deviation, five of which leave one chance in a million.
    assert abs(alpha["before"] - 0.3) < 0.08 and abs(alpha["after"] - 0.8) < 0.08
    assert (alpha["verdict"], beta["verdict"]) == ("more", "less") and alpha["difference_is"] == "absolute"
    assert alpha["low"] < 0.5 + 0.08 and alpha["high"] > 0.5 - 0.08 and alpha["object"] == "shares"
    done = run([infprof, "report", "--diff", tmp_path / "30", "-r", tmp_path / "80"])
    assert done.returncode == 0 and "more: alpha +" in done.stdout and "less: beta -" in done.stdout


def test_ranges_of_one_run(infprof, run_dir, record):
    """0.1 s and 0.5 s of CPU a second, told apart by a mark."""
    code = ("import time\ndef burn(s):\n t = time.process_time()\n while time.process_time() - t < s: pass\n"
            "print(f'measure_label-quiet: {time.time()}', flush=True)\n"
            "for i in range(60):\n if i == 30: print(f'measure_label-loud: {time.time()}', flush=True)\n"
            " burn(0.004 if i < 30 else 0.02); time.sleep(0.04)")
    done = record("-t", "50", "--capture", "--no-snapshots", command=["python3", "-S", "-c", code])
    assert done.returncode == 0, done.stderr
    rows = rows_of(compare(infprof, f"{run_dir}@quiet..loud", f"{run_dir}@loud..", "--json"))
    row = rows["cpu_s_per_s"]
    assert row["difference"] > 0.5 and row["n_before"] >= 1, row
    assert "wall_s" not in rows  # of a part it says nothing
    done = compare(infprof, "@quiet..loud", "@loud..", "--json", cwd=run_dir.parent, code=1)
    assert "no run in ./profiler-output" in done.stderr
    done = compare(infprof, f"{run_dir}@quiet", run_dir, code=1)
    assert "a range is FROM..TO" in done.stderr


def test_requests(infprof, truth, tmp_path):
    """A server whose first token takes 5 ms, and one of 150 ms; the same time between tokens."""
    for name, ms in ("fast", 5), ("slow", 150):
        load_json(infprof, truth("-t", ms, "-i", 5), "-n", 160, "-c", 8, "--output-tokens", 4, "-o", tmp_path / name)
    rows = rows_of(compare(infprof, tmp_path / "fast", tmp_path / "slow", "--json"))
    ttft = rows["ttft_p50"]
    assert ttft["unit"] == "seconds" and ttft["after"] >= 0.15 and ttft["low"] > 0 and ttft["p_corrected"] < 0.05
    # On a machine that is held up, quarters of a run may differ by as much, which it says.
    assert ttft["verdict"] == "worse" or "within the noise of one run" in ttft["why"]  # a load alone records no machine
    assert rows["output_tokens_per_s"]["better"] == "more" and rows["output_tokens_per_s"]["difference"] < 0
    assert rows["ttft_p99"]["verdict"] == "not known" and "too few requests" in rows["ttft_p99"]["why"]
    assert {"e2e_p95", "tpot_p50", "itl_p95", "itl_mean"} <= set(rows) and "cpu_s" not in rows


def test_pins(infprof, burnt, tmp_path):
    first = sorted((burnt / "before").glob("*.infprof"))[0]
    place = tmp_path / "profiler-output"
    place.symlink_to(burnt / "before")
    done = run([infprof, "runs", "--pin", "base", first], cwd=tmp_path)
    assert done.returncode == 0 and first.stem in done.stderr
    listed = json.loads(run([infprof, "runs", "--json"], cwd=tmp_path).stdout)
    assert [row["pin"] for row in listed] == ["base", None, None, None]
    for name in "base", burnt / "before" / "base":
        shown = json.loads(run([infprof, "report", "--json", "-r", name], cwd=tmp_path).stdout)
        assert shown["run"] == first.stem
    report = json.loads(compare(infprof, "base", "@", "--json", cwd=tmp_path).stdout)
    newest = sorted((burnt / "before").glob("*.infprof"))[-1]
    assert [side["runs"][0]["uuid"] for side in report["sides"]] == [first.stem, newest.stem]
    assert run([infprof, "runs", "--pin", "base"], cwd=tmp_path).returncode == 0  # the newest takes the name
    assert [row["pin"] for row in json.loads(run([infprof, "runs", "--json"], cwd=tmp_path).stdout)] == [None, None, None, "base"]
    for name in "../evil", ".hidden", "0198", "a b", "x" * 65, "":
        done = run([infprof, "runs", "--pin", name], cwd=tmp_path)
        assert done.returncode == 1 and "is no name for a run" in done.stderr, name
    (burnt / "before" / "pins" / "broken").write_text("not a uuid\n")
    done = run([infprof, "report", "-r", "broken"], cwd=tmp_path)
    assert done.returncode == 1 and "pins/broken does not hold the uuid of a run" in done.stderr
    assert run([infprof, "runs", "--unpin", "broken"], cwd=tmp_path).returncode == 0
    assert run([infprof, "runs", "--unpin", "base"], cwd=tmp_path).returncode == 0
    done = run([infprof, "runs", "--unpin", "base"], cwd=tmp_path)
    assert done.returncode == 1 and "no run of ./profiler-output is named 'base'" in done.stderr
    done = run([infprof, "report", "-r", "base"], cwd=tmp_path)
    assert done.returncode == 1 and "there is no directory base" in done.stderr
    assert run([infprof, "runs", "--pin", "a", "--unpin", "b"], cwd=tmp_path).returncode == 2


def test_group(infprof, burnt):
    """Means, deviations, normalised to the smallest, and ratios to the first variant."""
    sides = [",".join(str(path) for path in sorted((burnt / name).glob("*.infprof"))) for name in ("before", "after")]
    done = run([infprof, "report", "--group", *sides, "--csv"])
    assert done.returncode == 0, done.stderr
    rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["number"] == "cpu_s"]
    before, after = rows
    assert (before["runs"], after["runs"], before["ratio"]) == (str(REPLICATES), str(REPLICATES), "")
    assert float(before["normalised"]) == 1 and float(after["normalised"]) == pytest.approx(float(after["mean"]) / float(before["mean"]))
    assert float(after["ratio_low"]) < float(after["ratio"]) < float(after["ratio_high"])
    cpu = rows_of(compare(infprof, *sides, "--json"))["cpu_s"]  # the same test
    assert float(after["ratio"]) - 1 == pytest.approx(cpu["difference"]) and float(after["ratio_low"]) - 1 == pytest.approx(cpu["low"])
    many = json.loads(run([infprof, "report", "--group", *sides[1].split(","), "--json"]).stdout)
    over = [row for row in many if row["number"] == "cpu_s"][-1]
    assert (over["variant"], over["runs"]) == ("all", REPLICATES - 1) and over["ratio_low"] <= over["ratio"] <= over["ratio_high"]
    for words, what in (["--group", sides[0]], "2 to 26 variants"), (["--group", *sides, "--html"], "--html is not for --group"), \
            (["--group", *sides, "-r", sides[0]], "as operands"):
        done = run([infprof, "report", *words])
        assert done.returncode == 2 and what in done.stderr, words


def test_unlike_machines(infprof, tmp_path):
    for name in "vm", "bare-metal":
        done = run([infprof, "record", "-o", tmp_path / name, "--root", FIXTURES / name, "-t", "100", "--duration", "300ms"])
        assert done.returncode == 0, done.stderr
    done = compare(infprof, tmp_path / "vm", tmp_path / "bare-metal", code=1)
    assert "the runs differ in more than what is compared: CPU (" in done.stderr and "--anyway" in done.stderr
    done = run([infprof, "compare", tmp_path / "vm", tmp_path / "bare-metal", "--anyway"])
    assert "no number in common" in done.stderr if done.returncode else "The runs are unlike: CPU (" in done.stdout


def test_short_runs(infprof, tmp_path):
    """Runs of one sample, or of none."""
    for name in "a", "b":
        assert run([infprof, "record", "-o", tmp_path / name, "--no-snapshots", "--", "true"]).returncode == 0
    done = run([infprof, "compare", tmp_path / "a", tmp_path / "b", "--json"])
    if done.returncode:
        assert done.returncode == 1 and "no number in common" in done.stderr
    else:
        assert {row["verdict"] for row in rows_of(done).values()} == {"not known"}


@pytest.mark.parametrize("words, code, what", [
    ([], 2, "give 2 to 26 runs"),
    (["a"], 2, "give 2 to 26 runs"),
    (["a"] * 27, 2, "give 2 to 26 runs"),
    (["nowhere", "nowhere"], 1, "there is no directory nowhere"),
    (["a", "b", "--fail-on", "ttft_p95"], 2, "it has no > or <"),
    (["a", "b", "--fail-on", "ttft_p95>5"], 2, "the change is not in percent"),
    (["a", "b", "--fail-on", ">5%"], 2, "it has no name"),
    (["a", "b", "--fail-on", "ttft_p95>x%"], 2, "the change is not a number"),
    (["a", "b", "--fail-on", "ttft_p59>5%"], 2, "there is no number 'ttft_p59'; did you mean ttft_p50?"),
    (["a", "b", "--fail-on", "nonsense>5%"], 2, "`infprof compare --list` has the numbers"),
    (["a", "b", "--junit", "x.xml"], 2, "--fail-on, and none is given"),
    (["a", "b", "--replicates", "1"], 2, "2 to 256"),
    (["a", "b", "--replicates", "many"], 2, "2 to 256"),
    ([",", "b"], 1, "',' names no run"),
])
def test_bad_words(infprof, tmp_path, words, code, what):
    done = compare(infprof, *words, code=code, cwd=tmp_path)
    assert what in done.stderr and not done.stdout, done.stderr


def test_list(infprof):
    """What a gate can name, and which direction is better."""
    rows = {row["number"]: row for row in json.loads(compare(infprof, "--list", "--json").stdout)}
    assert rows["ttft_p95"] == {"number": "ttft_p95", "unit": "seconds", "better": "less", "meaning": "Time to the first token as clients saw it, 95th percentile."}
    assert rows["output_tokens_per_s"]["better"] == "more" and len(rows) > 30


def test_sides_that_do_not_go_together(infprof, burnt):
    before = sorted((burnt / "before").glob("*.infprof"))
    done = compare(infprof, before[0], f"{before[1]},{before[2]}", code=1)
    assert "one side has one run and another one several" in done.stderr
    done = compare(infprof, "--replicates", REPLICATES + 1, burnt / "before", burnt / "after", code=1)
    assert f"before has {REPLICATES} runs, and --replicates wants {REPLICATES + 1} a side" in done.stderr
    done = compare(infprof, burnt / "before", burnt / "after", "--mode", "wall", code=1)
    assert done.stderr
