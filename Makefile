# SPDX-License-Identifier: Apache-2.0
# A thin front for meson and scripts/: see README.md.
BUILD ?= build
all:
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD)
.PHONY: all
