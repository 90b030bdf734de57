# longline: `make`, `make check`, `make demo`, `make install PREFIX= DESTDIR=`.
CC ?= cc
B := build
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-sign-conversion
BASE := -std=c17 -D_GNU_SOURCE -Iinclude -Isrc -fopenmp -fvisibility=hidden -fPIC -ffp-contract=off $(WARN)
LIBS := -ljansson -linih -lz -llzma -lcairo -lm -lpthread

LIB_SRC := $(shell find src -name '*.c')
CLI_SRC := $(wildcard cli/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)

all: $(B)/longline

$(B)/src/kernel/avx2.o: EXTRA := -O3 -mavx2 -mfma
$(B)/src/kernel/avx512.o: EXTRA := -O3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@

$(B)/liblongline.a: $(LIB_OBJ)
	$(AR) rcs $@ $^
$(B)/longline: $(CLI_OBJ) $(B)/liblongline.a
	$(CC) -fopenmp $(LDFLAGS) $^ $(LIBS) -o $@

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)
.PHONY: all

# Tests: every tests/test_*.c is a cmocka program; tests/oracle.c holds definitions in double.
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c))
$(B)/tests/%: tests/%.c tests/test.h $(wildcard tests/oracle*.[ch]) $(B)/liblongline.a
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -Itests $< $(wildcard tests/oracle*.c) $(B)/liblongline.a $(LDFLAGS) $(LIBS) -lcmocka -o $@
tests: $(TESTS)
	@set -e; for t in $(TESTS); do echo "== $$t"; $$t; done
.PHONY: tests
