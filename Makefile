# The targets that people remember. CMake and Ninja do the work (CMakePresets.json); scripts/ holds what is longer than a
# line. `make` builds build/release/forge and first installs what the machine lacks (scripts/deps.sh).
MAKEFLAGS += --no-print-directory
PREFIX ?= /usr/local

.PHONY: all build deps demo quick-test test asan fuzz bench fmt tidy test-models test-clients install clean help

all: build

help: ## what each target does
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

build: ## the program, optimized: build/release/forge
	@scripts/deps.sh build
	@scripts/build.sh release forge

deps: ## install what building and testing need
	@scripts/deps.sh test

demo: build ## fetch SmolLM2, import it, let it answer
	@scripts/demo.sh

quick-test: build ## the same as a check: ends in PASS
	@scripts/quick_test.sh

test: ## everything that CI checks; ends in "N passed, N failed"
	@scripts/deps.sh test
	@scripts/check.sh

asan: deps ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/check.sh asan

fuzz: deps ## fuzz targets, FUZZ_SECONDS (60) each
	@scripts/check.sh fuzz

tidy: deps ## clang-tidy over all files
	@scripts/check.sh tidy

fmt: deps ## format all C files
	@scripts/c_files.sh | xargs clang-format -i

bench: build ## speed against the limits of this machine
	@scripts/build.sh release benches
	@scripts/bench.sh

test-models: build ## against the reference implementations on real models (Python packages, network)
	@scripts/test_models.sh

install: build ## into PREFIX (/usr/local)
	@cmake --install build/release --prefix $(PREFIX)

clean: ## remove build/, downloaded models included
	rm -rf build
