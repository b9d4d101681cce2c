# Only a front: Meson and Ninja build (tools/build), tools/setup fetches what they need. `make help` lists the targets.

PREFIX ?= /usr/local
PYTHON = .deps/venv/bin/python
OTHER = $(if $(filter aarch64,$(ARCH)),arm)
export PREFIX

# Tests and fuzzers of several targets must not run at once: they share the two cores and the folders.
.NOTPARALLEL:
.DEFAULT_GOAL = help
.PHONY: help build check check-gpu demo demo-deps bench fuzz docs install wheel tarball sdist clean build-asan build-tsan build-clang build-fuzz

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | while IFS='	' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

build: ## the optimised build/infprof, with all that it needs
	@tools/setup build
	@tools/build build --quiet

demo: build ## record a real llama.cpp server under load, then show what was recorded
	@tools/setup demo || echo "The demo goes on with a load that is on every machine."
	@tools/demo

demo-deps: ## fetch the server and the model of the demo (272 to 306 MB, once)
	@tools/setup demo

check: ## all builds, all tests (about 20 minutes)
	@tools/setup check
	@$(PYTHON) tools/check

check-gpu: build ## hold what is recorded against nvidia-smi, on a machine with a GPU
	@tools/check-gpu

bench: build ## measure speed and cost, beside other monitors
	@tools/setup check bench
	@PATH=$(CURDIR)/.deps/bench/root/usr/bin:$$PATH $(PYTHON) tests/bench/run.py

fuzz: ## run each fuzzer for FUZZ_SECONDS (60), and kill a recording 1,000 times
	@tools/setup check
	@tools/fuzz

docs: build ## generate docs/metrics.md anew
	@tools/build build docs

install: build ## install below PREFIX (/usr/local), DESTDIR is put in front; ALIASES=profiler: also by that name
	@.deps/venv/bin/meson install -C build --no-rebuild --quiet --skip-subprojects
	@for name in $(ALIASES); do ln -sf infprof "$(DESTDIR)$(PREFIX)/bin/$$name"; done

wheel: ## dist/infprof-*.whl for pip, which runs on most distributions; ARCH=aarch64: for 64-bit Arm
	@tools/setup build wheel $(OTHER)
	@$(PYTHON) tools/wheel $(if $(ARCH),--arch $(ARCH))

tarball: ## the same as a directory that runs from any place
	@tools/setup build wheel $(OTHER)
	@$(PYTHON) tools/wheel --tarball $(if $(ARCH),--arch $(ARCH))

sdist: ## sources for pip, which builds them where a compiler and the libraries are
	@tools/setup build
	@$(PYTHON) tools/wheel --sdist

build-asan build-tsan build-clang build-fuzz:
	@tools/setup check
	@tools/build $@ --quiet

clean: ## remove all builds; what set-up fetched stays in .deps and subprojects, recordings stay too
	rm -rf build build-*
