# SPDX-License-Identifier: Apache-2.0
# A thin front for meson and scripts/. 'make help' lists the targets.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
# SETUP=no: use what is there, look for no Debian package.
SETUP ?= yes
ifeq ($(SETUP),no)
setup = @:
need = @:
else
setup = @scripts/setup
need = @scripts/setup --check
endif

all: ## build into build/; the program is build/sidelight
	$(need) build
	@test -f $(BUILD)/build.ninja || meson setup --prefix $(PREFIX) $(BUILD) >$(BUILD).setup.log 2>&1 || \
		{ cat $(BUILD).setup.log; rm -rf $(BUILD) $(BUILD).setup.log; exit 1; }
	@rm -f $(BUILD).setup.log
	@ninja -C $(BUILD)

demo: ## install what is missing, build, and show it all at work until Ctrl-C
	$(setup) build demo
	@$(MAKE) --no-print-directory all SETUP=no
	@$(BUILD)/sidelight demo --switch $(DEMO_ARGS)

check: ## install what tests need, build, run every test
	$(setup) build demo test
	@scripts/check

soak: ## the same for longer: 3 minutes a fuzzer, bigger proofs
	$(setup) build demo test
	@scripts/check --soak

bench: ## measure beside the peers; writes build/bench.jsonl
	$(setup) build test bench
	@bench/run

fuzz: ## the fuzzers only, 60 s each (FUZZ_SECONDS=n)
	$(setup) build test
	@scripts/check --only fuzz --fuzz-seconds $(or $(FUZZ_SECONDS),60)

lint: ## format, manual pages, licence lines, symbols, includes, names of tests
	$(setup) build test
	@scripts/check --only lint

format: ## bring every .c file into the house's format
	@scripts/lint-format --fix

install: all ## install; DESTDIR and PREFIX are heeded
	@meson configure $(BUILD) --prefix $(PREFIX) >/dev/null
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C $(BUILD) >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@test -n "$(DESTDIR)" || test "$$(id -u)" != 0 || ldconfig
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/sidelight and what belongs to it"

clean: ## remove everything that was built
	rm -rf $(BUILD) build-check

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: all demo check soak bench fuzz lint format install clean help
