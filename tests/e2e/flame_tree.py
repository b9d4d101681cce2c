"""Trees of stacks with known answers for tests of flame graphs, and build/tests/unit/flame_tool, which draws them."""
import json
import os
import pathlib
import random
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
KINDS = ["native", "c++ runtime", "kernel", "python", "go", "jit", "vdso", "unknown"]
NATIVE, CXX, KERNEL, PYTHON, GO, JIT, VDSO, UNKNOWN = range(8)
GUESSED, INLINED, UNNAMED, GROUP = 1, 2, 4, 8


def tool():
    build = pathlib.Path(os.environ.get("INFPROF", TOP / "build-gcc" / "infprof")).resolve().parent
    for folder in (build, TOP / "build-gcc"):
        if (folder / "tests" / "unit" / "flame_tool").exists():
            return folder / "tests" / "unit" / "flame_tool"
    raise FileNotFoundError(f"{build}/tests/unit/flame_tool is not there: build the tests (tools/build build-gcc)")


def escape(text):
    return "".join("\\\\" if c == "\\" else f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c for c in text)


class Tree:
    """functions: (name, kind, object, file, line, flags) by name; stacks: (samples, [names], bucket, samples before)."""

    def __init__(self, mode="cpu", unit="seconds", each=0.01, buckets=0, seconds=10.0, truncated=0, unnamed=0, guessed=0, has_base=False):
        self.head = (mode, unit, buckets, seconds, truncated, unnamed, guessed, int(has_base))
        self.each, self.functions, self.stacks = each, {}, []

    def function(self, name, kind=NATIVE, object="demo", file="", line=0, flags=0):
        self.functions.setdefault(name, (len(self.functions), kind, object, file, line, flags))
        return self.functions[name][0]

    def stack(self, samples, names, bucket=-1, before=0, weight=None):
        self.stacks.append((samples, (samples or before) * self.each if weight is None else weight, bucket, before, [self.function(name) for name in names]))

    def text(self):
        lines = ["M\t" + "\t".join(map(str, self.head))]
        for name, (_, kind, object, file, line, flags) in self.functions.items():
            lines.append(f"F\t{kind}\t{flags}\t{line}\t{escape(object)}\t{escape(file)}\t{escape(name)}")
        for samples, weight, bucket, before, path in self.stacks:
            lines.append(f"S\t{samples}\t{weight!r}\t{bucket}\t{before}\t" + "\t".join(map(str, path)))
        return "\n".join(lines) + "\n"

    def draw(self, path, form="html", *options):
        """Writes the page; returns what the tool said of its work."""
        done = subprocess.run([tool(), form, *options], input=self.text().encode("utf-8", "surrogatepass"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr.decode()
        pathlib.Path(path).write_bytes(done.stdout)
        return json.loads(done.stderr)

    def totals(self):
        """{path: (self, total)} in samples, counted here by hand."""
        names = list(self.functions)
        found = {}
        for samples, _, _, _, path in self.stacks:
            path = tuple(names[i] for i in path)
            for n in range(len(path) + 1):
                own, total = found.get(path[:n], (0, 0))
                found[path[:n]] = (own + samples * (n == len(path)), total + samples)
        return found


def small():
    """Three frames below the root: main, which calls work and wait."""
    tree = Tree()
    tree.function("main", file="/src/main.c", line=10)
    tree.function("work", file="/src/work.c", line=42)
    tree.function("wait", KERNEL, "[kernel]")
    tree.stack(700, ["main", "work"])
    tree.stack(250, ["main", "wait"])
    tree.stack(50, ["main"])
    return tree


def usual(has_base=False, buckets=60):
    """Something of every kind: a server in C++, with Python, the kernel, recursion, guesses; busy at first with one thing, then another."""
    tree = Tree(buckets=buckets, seconds=60.0, truncated=40, unnamed=120, guessed=60, has_base=has_base)
    rng = random.Random(7)
    for name, kind, object, file, line, flags in [
            ("_start", NATIVE, "llama-server", "", 0, 0), ("main", NATIVE, "llama-server", "/src/server.cpp", 3120, 0),
            ("server_context::update_slots()", NATIVE, "llama-server", "/src/server.cpp", 2101, 0), ("llama_decode", NATIVE, "libllama.so", "/src/llama.cpp", 991, 0),
            ("ggml_graph_compute_thread", NATIVE, "libggml-cpu.so", "/src/ggml-cpu.c", 2880, 0), ("ggml_compute_forward_mul_mat", NATIVE, "libggml-cpu.so", "/src/ggml-cpu.c", 1230, 0),
            ("ggml_vec_dot_q4_K_q8_K", NATIVE, "libggml-cpu.so", "/src/quants.c", 512, INLINED), ("ggml_barrier", NATIVE, "libggml-cpu.so", "/src/ggml-cpu.c", 530, 0),
            ("llamafile_sgemm", NATIVE, "libggml-cpu.so", "/src/sgemm.cpp", 3011, 0), ("gomp_team_barrier_wait_end", NATIVE, "libgomp.so.1.0.0", "", 0, 0),
            ("std::__detail::_Executor<char const*>::_M_dfs", CXX, "libstdc++.so.6", "", 0, 0), ("operator new(unsigned long)", CXX, "libstdc++.so.6", "", 0, 0),
            ("malloc", NATIVE, "libc.so.6", "", 0, 0), ("entry_SYSCALL_64_after_hwframe", KERNEL, "[kernel]", "", 0, 0), ("do_syscall_64", KERNEL, "[kernel]", "", 0, 0),
            ("__x64_sys_futex", KERNEL, "[kernel]", "", 0, 0), ("asm_exc_page_fault", KERNEL, "[kernel]", "", 0, 0), ("clear_page_erms", KERNEL, "[kernel]", "", 0, 0),
            ("serve (app.py)", PYTHON, "app.py", "/srv/app.py", 20, 0), ("tokenize (app.py)", PYTHON, "app.py", "/srv/app.py", 88, 0), ("parse (json.py)", PYTHON, "json.py", "/usr/lib/json.py", 300, 0),
            ("runtime.gcBgMarkWorker", GO, "sidecar", "", 0, 0), ("jit_kernel_4", JIT, "[jit]", "", 0, 0), ("__vdso_clock_gettime", VDSO, "[vdso]", "", 0, 0),
            ("libtorch_cpu.so+0x1a2b30", NATIVE, "libtorch_cpu.so", "", 0, UNNAMED), ("0x7f21aa00", UNKNOWN, "", "", 0, UNNAMED), ("handle_guess", NATIVE, "llama-server", "", 0, GUESSED),
            ("[truncated]", UNKNOWN, "", "", 0, GROUP)]:
        tree.function(name, kind, object, file, line, flags)
    top = ["_start", "main", "server_context::update_slots()", "llama_decode", "ggml_graph_compute_thread"]
    parts = [(220, top + ["ggml_compute_forward_mul_mat", "ggml_vec_dot_q4_K_q8_K"], 0.6), (180, top + ["ggml_compute_forward_mul_mat", "llamafile_sgemm"], 0.5),
             (60, top + ["ggml_barrier"], 0.6), (45, ["gomp_team_barrier_wait_end"], 0.5), (30, top[:3] + ["std::__detail::_Executor<char const*>::_M_dfs"] * 4, 0.1),
             (18, top[:3] + ["std::__detail::_Executor<char const*>::_M_dfs"] * 9 + ["operator new(unsigned long)", "malloc"], 0.1),
             (15, top[:3] + ["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_futex"], 0.9), (12, top + ["asm_exc_page_fault", "clear_page_erms"], 0.05),
             (70, ["serve (app.py)", "tokenize (app.py)", "parse (json.py)"], 0.15), (25, ["serve (app.py)", "tokenize (app.py)", "libtorch_cpu.so+0x1a2b30"], 0.2),
             (16, ["serve (app.py)"], 0.5), (20, ["runtime.gcBgMarkWorker"], 0.8), (14, ["jit_kernel_4"], 0.7), (4, ["jit_kernel_4", "__vdso_clock_gettime"], 0.7),
             (9, ["[truncated]", "ggml_vec_dot_q4_K_q8_K"], 0.5), (8, ["0x7f21aa00"], 0.5), (10, ["main", "handle_guess", "malloc"], 0.3)]
    factors = {6: 0.4, 8: 3.0, 0: 0.9, 4: 2.0, 11: 0.0}
    for place, (weight, path, centre) in enumerate(parts):
        for bucket in range(buckets or 1):
            share = 1 / (1 + ((bucket / (buckets or 1) - centre) * 5) ** 2)
            samples = round(weight * share * (0.7 + 0.6 * rng.random()) / 4)
            before = round(samples * factors.get(place, 1.0)) if has_base else 0
            if samples or before:
                tree.stack(samples, path, bucket if buckets else -1, before)
    if has_base:
        tree.stack(0, ["_start", "main", "gone_by_now"], -1, 260)
    return tree


WORDS = ["memcpy", "at::native::add", "softmax_rows", "ggml_compute_forward", "json_parse", "kv_cache_find", "epoll_wait", "utf8_decode", "torch::autograd::Engine::thread_main",
         "cublasGemmEx", "silu_mul", "tokenizer::encode", "sampler_top_k", "std::vector<float>::push_back", "pthread_mutex_lock", "flash_attn_ext", "batch_scheduler_tick", "http_parse"]


def large(nodes=100_000, functions=3000, seed=1, buckets=0):
    """A bushy tree with about so many nodes, names shared as code shares them; a few ways hot, most cold."""
    rng = random.Random(seed)
    tree = Tree(buckets=buckets, seconds=120.0)
    names = [f"{rng.choice(WORDS)}_{i:x}" for i in range(functions)]
    for i, name in enumerate(names):
        tree.function(name, rng.choices(range(8), [60, 8, 10, 14, 2, 3, 1, 2])[0], f"lib{i % 40}.so", f"/src/f{i % 300}.cc" if i % 3 else "", i % 900, 0)
    paths, n = [()], 1
    seen = {()}
    while n < nodes:
        path = paths[int(len(paths) * rng.random() ** 0.55)] if rng.random() < 0.72 else paths[rng.randrange(len(paths))]
        if len(path) > 60:
            continue
        child = path + (names[int(functions * rng.random() ** 2)],)
        if child in seen:
            continue
        seen.add(child)
        paths.append(child)
        n += 1
    for path in paths[1:]:
        samples = int(rng.paretovariate(1.1)) if rng.random() < 0.8 else 0
        if samples:
            tree.stack(min(samples, 4000), list(path), rng.randrange(buckets) if buckets else -1)
    return tree
