# Each target sees to what it needs from the system (scripts/setup.sh) and says what it installs or leaves out.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help report install uninstall traces test lint budget bench agree same captures qemu fuzz corrupted soak clean

# cargo is found where rustup puts it, too.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where cargo puts what it builds; taken from the environment when it says so.
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The HTML file that `make report` writes.
OUT ?= tollgate-report.html
# How many runs of each command `make same` makes.
RUNS ?= 20
# How long `make fuzz` runs each target.
SECONDS_EACH ?= 60

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

report: ## Measure this host, print the tables, write tollgate-report.html (OUT=FILE for another name)
	@scripts/setup.sh report
	@cargo build --release --locked -p tollgate $$(scripts/features.sh command)
	@"$(TARGET)/release/tollgate" report --out "$(OUT)"

# Where `make install` puts what it installs; DESTDIR stands in front of it for packages.
PREFIX ?= /usr/local
INSTALLED := $(DESTDIR)$(PREFIX)

# Root often has no cargo of its own (`sudo make install`): what the user has built is installed then.
install: ## Install the command, its manual pages and completions under PREFIX (/usr/local)
	@if command -v cargo >/dev/null || [[ ! -x "$(TARGET)/release/tollgate" ]]; then \
	    scripts/setup.sh report; \
	    cargo build --release --locked -p tollgate $$(scripts/features.sh command); \
	fi
	@scripts/install.sh "$(TARGET)/release/tollgate" "$(INSTALLED)"

uninstall: ## Remove what `make install` installed under PREFIX
	@scripts/install.sh --remove "$(INSTALLED)"

traces: ## Build the command with traces of traffic and stores of runs, too: target/traces/tollgate (some 280 crates more, minutes)
	@scripts/setup.sh report
	@cargo build --profile traces --locked -p tollgate $$(scripts/features.sh command) --features sql

test: ## Run all tests: units, integration, documentation, NEON under qemu
	@scripts/setup.sh test
	@scripts/test.sh

lint: ## Check formatting, clippy, wording, shell scripts, and the dependencies' licences and sources
	@scripts/setup.sh lint
	@scripts/lint.sh

# Callgrind cannot run AVX-512, so this is built for x86-64-v3, in a directory of its own.
budget: export RUSTFLAGS := -Ctarget-cpu=x86-64-v3
budget: export CARGO_TARGET_DIR := $(TARGET)/budget
budget: ## Count instructions by Callgrind and hold them against the budgets
	@scripts/setup.sh budget
	@cargo build --release --locked -p tollgate-budget --no-default-features --bin tollgate-budget
	@without=$$(crates/budget/without-gates.sh "$(TARGET)/budget/without-gates"); \
	    "$(TARGET)/budget/release/tollgate-budget" check --without-gates "$$without"

bench: ## Measure the ratios of the performance table within one run
	@scripts/setup.sh bench
	@cargo run --release --locked -p tollgate-budget --bin tollgate-bench

agree: ## Hold gates, observe and counts against tracefs, sockperf and function_graph on the same run (root, an idle machine)
	@scripts/setup.sh agree
	@scripts/agree.sh

same: ## Make fresh runs of the same thing and count how often compare tells two of them apart (RUNS=N of each, an idle machine)
	@scripts/setup.sh report
	@cargo build --release --locked -p tollgate $$(scripts/features.sh command)
	@scripts/same.sh $(RUNS)

captures: ## Compare the trace reader with tshark, packet by packet, over the captures of other projects (fetches 180 MB once)
	@scripts/setup.sh captures
	@scripts/captures.sh "$(TARGET)/captures"
	@cargo run --quiet --locked -p tollgate-trace --example captures -- "$(TARGET)/captures"

qemu: ## Count the instructions of a stock Debian kernel's TCP in QEMU, twice, and show them by layer
	@scripts/setup.sh qemu
	@parts=$$(crates/qemu/parts.sh "$(TARGET)/qemu/parts"); \
	    { read -r guest; read -r plugin; } <<<"$$parts"; \
	    cargo run --quiet --release --locked -p tollgate-qemu -- count --guest "$$guest" --plugin "$$plugin" \
	        --cache "$(TARGET)/qemu" --out "$(TARGET)/qemu/linux-counts.json"
	@cargo build --release --locked -p tollgate $$(scripts/features.sh command)
	@"$(TARGET)/release/tollgate" experiment run clark-instructions --linux-counts "$(TARGET)/qemu/linux-counts.json"

fuzz: ## Run each fuzz target for a minute (SECONDS_EACH=N for longer)
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(SECONDS_EACH)

# Frames of `make corrupted`.
FRAMES ?= 10000000

corrupted: ## Give our stack ten million corrupted frames; exit 1 when data reach an application that the checksum could have seen (FRAMES=N)
	@scripts/setup.sh soak
	@scripts/corrupted.sh $(FRAMES)

# How long `make soak` runs.
SECONDS ?= 3600

soak: ## Corrupted frames, then soak our stack for an hour: connections that come and go, faults, links that fail; exit 1 on a defect (SECONDS=N, root)
	@scripts/setup.sh soak
	@scripts/soak.sh $(SECONDS)

clean: ## Remove what was built, the tools in target/tools included
	@cargo clean
