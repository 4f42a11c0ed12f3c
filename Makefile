# lockstep: GNU make, C11, gcc 12 or clang 14. Nothing is written outside $(BUILD); headers, flags and the list of files are tracked.
#   make                     the program, build/lockstep
#   make test                unit and command-line tests of this build
#   make SAN=address,undefined test ; make SAN=thread test
#   make ARCH=aarch64 unit   cross build under build/aarch64, run under qemu-aarch64 by tools/run_tests
#   make fuzz                libFuzzer targets (clang), build/fuzz/tests/fuzz/NAME
#   make lint                layers, style, clang-format, clang-tidy
#   make install PREFIX=/usr/local DESTDIR=
# Every test there is, with its packages and the real model: ./dev test
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
SAN ?=
ARCH ?=
FUZZ ?=
comma := ,
BUILD ?= build$(if $(ARCH),/$(ARCH))$(if $(SAN),/$(subst $(comma),-,$(SAN)))

CFLAGS ?= $(if $(SAN),-O1,-O2) -g
WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
SANFLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CFLAGS = -std=c11 $(CFLAGS) $(WARN) -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread -Isrc \
	-I$(BUILD)/gen $(ARCH_CFLAGS) $(SANFLAGS) $(COVERAGE)
# What is fuzzed reads files and text; counting branches in the kernels would only take minutes of compiling.
COVERAGE = $(if $(FUZZ),$(if $(filter $(BUILD)/math/%,$@),,-fsanitize=fuzzer-no-link))
TEST_CFLAGS = $(ALL_CFLAGS) -Itests
ALL_LDFLAGS = -pthread $(LDFLAGS) $(ARCH_LDFLAGS) $(SANFLAGS)
LIBS = -lpcre2-8 -ledit -levent -lm

# The headers and libraries of a foreign architecture are unpacked beside its objects, so nothing is installed for it.
ifneq ($(ARCH),)
override CC := $(ARCH)-linux-gnu-gcc
override AR := $(ARCH)-linux-gnu-ar
SYSROOT := $(abspath build/sysroot-$(ARCH))
ARCH_CFLAGS = -isystem $(SYSROOT)/usr/include -isystem $(SYSROOT)/usr/include/$(ARCH)-linux-gnu
SYSROOT_LIBS := $(SYSROOT)/usr/lib/$(ARCH)-linux-gnu:$(SYSROOT)/lib/$(ARCH)-linux-gnu
ARCH_LDFLAGS = -L$(SYSROOT)/usr/lib/$(ARCH)-linux-gnu -Wl,-rpath,$(SYSROOT_LIBS) -Wl,-rpath-link,$(SYSROOT_LIBS)
SYSROOT_READY := build/sysroot-$(ARCH)/ready
endif

# `make V=1` shows the whole command lines.
say = $(if $(V),,@echo '  $(1)';)

SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c))
LIB_SRC := $(filter-out src/cli/main.c,$(SRC))
GEN_OBJ := $(if $(wildcard src/model/blueprint.h),$(BUILD)/gen/families.o)
PAGE := $(sort $(filter-out %~,$(wildcard src/serve/page/*.*)))
LIB_OBJ := $(LIB_SRC:src/%.c=$(BUILD)/%.o) $(GEN_OBJ) $(if $(PAGE),$(BUILD)/gen/page.o)
LIB := $(BUILD)/liblockstep.a
PROGRAM := $(if $(wildcard src/cli/main.c),$(BUILD)/lockstep)

# Who only builds the program, in a container for example, needs no Python.
all: $(PROGRAM) $(LIB) $(if $(shell command -v python3),$(BUILD)/layers.ok)

$(BUILD)/lockstep: $(BUILD)/cli/main.o $(LIB)
	$(call say,LD $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(LIB): $(LIB_OBJ) $(BUILD)/sources.list
	$(call say,AR $@)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

$(BUILD)/%.o: src/%.c $(BUILD)/flags.list | $(SYSROOT_READY)
	@mkdir -p $(@D)
	$(call say,CC $<)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The table of model families is the list of files in their folder: a new family needs no other edit.
FAMILIES := $(basename $(notdir $(sort $(wildcard src/model/families/*.c))))

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags.list | $(SYSROOT_READY)
	$(call say,CC $<)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/families.c: $(BUILD)/sources.list
	@mkdir -p $(@D)
	@{ echo '/* Made by the Makefile from the files in src/model/families: one row per family. */'; \
	  echo '#include "model/blueprint.h"'; echo '#include <stddef.h>'; \
	  echo 'extern const Family *const model_families[];'; echo 'extern const int model_n_families;'; \
	  $(foreach f,$(FAMILIES),echo 'extern const Family family_$(f);';) \
	  echo 'const Family *const model_families[] = {$(foreach f,$(FAMILIES),&family_$(f),) NULL};'; \
	  echo 'const int model_n_families = $(words $(FAMILIES));'; } > $@

# The web page is part of the program.
$(BUILD)/gen/page.c: $(PAGE) tools/embed_page $(BUILD)/sources.list
	@mkdir -p $(@D)
	@tools/embed_page $(PAGE) > $@

# These two change only when their content does: another compiler or flag rebuilds, and so does a file added or removed.
$(BUILD)/flags.list: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS)' > $@

$(BUILD)/sources.list: FORCE
	@mkdir -p $(@D); echo '$(LIB_OBJ) $(FAMILIES) $(PAGE)' | cmp -s - $@ || echo '$(LIB_OBJ) $(FAMILIES) $(PAGE)' > $@

$(BUILD)/layers.ok: $(SRC) $(wildcard src/*/*.h src/*/*/*.h) tools/check_layers
	@mkdir -p $(@D)
	tools/check_layers src && touch $@

ifneq ($(ARCH),)
$(SYSROOT_READY): tools/cross_sysroot
	tools/cross_sysroot $(ARCH) $(@D)
endif

# Tests: one cmocka binary per file; tests/support is linked into each.
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
SUPPORT_OBJ := $(SUPPORT_SRC:tests/%.c=$(BUILD)/tests/%.o)
UNIT_SRC := $(sort $(wildcard tests/unit/*/*.c tests/unit/*/*/*.c tests/goldens/*.c tests/exactness/*.c))
UNIT := $(UNIT_SRC:tests/%.c=$(BUILD)/tests/%)

$(BUILD)/tests/support/%.o: tests/support/%.c $(BUILD)/flags.list | $(SYSROOT_READY)
	@mkdir -p $(@D)
	$(call say,CC $<)$(CC) $(TEST_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%: tests/%.c $(SUPPORT_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(call say,CC $<)$(CC) $(TEST_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(SUPPORT_OBJ) $(ALL_LDFLAGS) $(LIB) -lcmocka $(LIBS)

unit: $(UNIT)
unit-list:
	@echo $(UNIT)

test: all unit
	tools/run_tests --build $(BUILD) unit e2e

# Fuzz targets: the library again, with coverage. The suite uses this build for its address and undefined run as well.
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*.c))
FUZZ_BIN := $(FUZZ_SRC:tests/%.c=$(BUILD)/tests/%)

$(FUZZ_BIN): $(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,CC $<)$(CC) $(TEST_CFLAGS) -fsanitize=fuzzer -Wno-missing-prototypes -MMD -MP -MF $@.d -o $@ $< $(ALL_LDFLAGS) $(LIB) $(LIBS)

fuzz-bin: $(FUZZ_BIN)
fuzz:
	$(MAKE) CC=clang SAN=address,undefined FUZZ=1 BUILD=build/fuzz fuzz-bin

lint:
	tools/run_tests lint tidy

# clang-format decides the layout; `make format` applies it.
FORMATTED = $(SRC) $(wildcard src/*/*.h src/*/*/*.h) $(UNIT_SRC) $(SUPPORT_SRC) $(FUZZ_SRC) $(wildcard tests/support/*.h)
format:
	clang-format -i $(FORMATTED)
format-list:
	@echo $(FORMATTED)

install: all
	install -D -m 755 $(BUILD)/lockstep $(DESTDIR)$(PREFIX)/bin/lockstep

# Downloads (build/download, build/models) survive a clean.
clean:
	find build -mindepth 1 -maxdepth 1 ! -name download ! -name models -exec rm -rf {} +

FORCE:
.PHONY: all unit unit-list test fuzz fuzz-bin lint format format-list install clean FORCE
.DELETE_ON_ERROR:
.SECONDARY: $(SUPPORT_OBJ)
-include $(LIB_OBJ:.o=.d) $(BUILD)/cli/main.d $(SUPPORT_OBJ:.o=.d) $(addsuffix .d,$(UNIT)) $(addsuffix .d,$(FUZZ_BIN))
