# lockstep: GNU make, C11. Objects live under build/ (build/asan, build/tsan for SAN=...); headers are tracked.
#   make            the program, build/lockstep
#   make test       every test that needs no download
#   make SAN=address,undefined test ; make SAN=thread test
#   make install PREFIX=/usr/local
CC ?= gcc
PREFIX ?= /usr/local
SAN ?=
comma := ,
BUILD ?= build$(if $(SAN),/$(subst $(comma),-,$(SAN)))

CFLAGS ?= -O2 -g
WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
ALL_CFLAGS = -std=c11 $(CFLAGS) $(WARN) -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread -Isrc -I$(BUILD)/gen \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_LDFLAGS = -pthread $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN))
LIBS = -lpcre2-8 -ledit -lm

SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c))
LIB_SRC := $(filter-out src/cli/main.c,$(SRC))
LIB_OBJ := $(LIB_SRC:src/%.c=$(BUILD)/%.o)
LIB := $(BUILD)/liblockstep.a

all: $(BUILD)/lockstep

$(BUILD)/lockstep: $(BUILD)/cli/main.o $(LIB)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(LIB): $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

UNIT_SRC := $(sort $(wildcard tests/unit/*/*.c))
UNIT := $(UNIT_SRC:tests/%.c=$(BUILD)/tests/%)

$(BUILD)/tests/%: tests/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(ALL_LDFLAGS) $(LIB) -lcmocka $(LIBS)

unit: $(UNIT)

clean:
	rm -rf build

.PHONY: all unit clean
-include $(LIB_OBJ:.o=.d) $(BUILD)/cli/main.d $(addsuffix .d,$(UNIT))
