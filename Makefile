# longline with GNU make. `make` builds, `make check` tests everything, `make demo` shows it at work,
# `make help` lists the rest. Sources, programs and tests are found by wildcard: a new file needs no
# line here. Everything that is built lies under $(B).
B ?= build
PREFIX ?= /usr/local
CC ?= cc
CXX ?= c++
CFLAGS ?= -O2 -g
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

VERSION := $(shell awk '/define LL_VERSION_(MAJOR|MINOR|PATCH)/ {v = v s $$3; s = "."} END {print v}' include/longline/base.h)
# While the first number is 0, the second one changes with the interface (CHANGELOG.md).
ABI := $(shell echo $(VERSION) | sed -E 's/^(0\.[0-9]+).*/\1/; t; s/\..*//')
WARN := -Wall -Wextra -Wno-missing-field-initializers -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-sign-conversion
# No -ffast-math, and no contraction: what is computed does not depend on the compiler's taste.
PIC ?= -fPIC
BASE := -std=c17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude $(PIC) -ffp-contract=off $(WARN) $(WERROR)
# Libraries that the build uses where they are, for downloads, archives, pieces of words, tokenizers of other programs
# (PCRE2 and utf8proc), files packed by zstd and `longline serve`; CURL=, ARCHIVE=, SENTENCEPIECE=, UNICODE=, ZSTD= and
# MICROHTTPD= leave them out.
PKG_CONFIG ?= pkg-config
CURL ?= $(shell $(PKG_CONFIG) --exists libcurl 2>/dev/null && echo 1)
ARCHIVE ?= $(shell $(PKG_CONFIG) --exists libarchive 2>/dev/null && echo 1)
SENTENCEPIECE ?= $(shell $(PKG_CONFIG) --exists sentencepiece 2>/dev/null && echo 1)
UNICODE ?= $(shell $(PKG_CONFIG) --exists libpcre2-8 libutf8proc 2>/dev/null && echo 1)
MICROHTTPD ?= $(shell $(PKG_CONFIG) --exists libmicrohttpd 2>/dev/null && echo 1)
# Of builds where zlib and liblzma, or libpng, are not to be had: PACKED= reads no .gz, .xz and .zst, PNG= no pictures.
PACKED ?= 1
ZSTD ?= $(if $(PACKED),$(shell $(PKG_CONFIG) --exists libzstd 2>/dev/null && echo 1))
PNG ?= 1
# MPI libraries whose compilers are here, each with a plug-in of its own for many ranks; MPI= leaves them out.
MPI ?= $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),$(m)))
# What the core needs, and what the laboratory needs besides.
CORE_OPTIONAL := $(if $(SENTENCEPIECE),-lsentencepiece_train -lsentencepiece -lstdc++) $(if $(UNICODE),-lpcre2-8 -lutf8proc) \
    $(if $(ZSTD),-lzstd)
LAB_OPTIONAL := $(if $(CURL),-lcurl) $(if $(ARCHIVE),-larchive)
CORE_LIBS := -ljansson $(if $(PACKED),-lz -llzma) $(if $(PNG),-lpng) $(CORE_OPTIONAL) -lm -lpthread
LAB_LIBS := -lcairo -lfontconfig -ljansson -lz -lmd $(LAB_OPTIONAL) -lm
LIBS = $(LAB_LIBS) $(CORE_LIBS)
WITHOUT := $(if $(CURL),%/fetch_none.c,%/fetch_curl.c) $(if $(ARCHIVE),%/unpack_none.c,%/unpack_archive.c) $(if $(SENTENCEPIECE),%/pieces_none.c) \
    $(if $(PACKED),%/decode_none.c,%/decode.c) $(if $(PNG),%/png_none.c,%/png_read.c) $(if $(ZSTD),%/decode_zstd_none.c,%/decode_zstd.c) \
    $(if $(UNICODE),%/unicode_none.c,%/unicode_lib.c) $(if $(MICROHTTPD),%/http_none.c,%/http.c) %/mpi_plugin.c

# The tests that take longest begin first: one that began last would run alone while the other cores wait.
LONGEST := toy model position attention refused_memory needs distance bf16 draw pathfinder analyse seq2seq stream_error
LONGEST_SCRIPTS := large report dist bench dist_deaf dist_network trust dist_unlike train list page dist_faults import install demo
first = $(foreach f,$(1),$(filter $(f),$(2))) $(filter-out $(1),$(2))
objects_of = $(if $(wildcard $(1)),$(patsubst %.c,$(B)/%.o,$(filter-out $(WITHOUT),$(shell find $(1) -name '*.c' | LC_ALL=C sort))))
CORE := $(call objects_of,src) $(B)/src/data/text/demo_text.o $(if $(SENTENCEPIECE),$(B)/src/data/text/pieces_shim.o)
# Rooms of the laboratory; a build that has no cairo names those without pictures, and one of the core alone none.
LAB_ROOMS ?= lab
LAB := $(call objects_of,$(LAB_ROOMS)) $(if $(filter lab,$(LAB_ROOMS)),$(B)/lab/report/style.o)
CLI := $(call objects_of,cli) $(B)/cli/serve/serve_page.o
TESTS := $(patsubst %.c,$(B)/%,$(call first,$(addsuffix .c,$(addprefix %/test_,$(LONGEST))),$(wildcard tests/*/test_*.c)))
# Of the test programs, those of these names: $(call named,base random).
named = $(foreach f,$(1),$(or $(filter %/test_$(f),$(TESTS)),$(error there is no test_$(f).c)))
SCRIPTS := $(call first,$(LONGEST_SCRIPTS:%=tests/cli/%.sh),$(wildcard tests/cli/*.sh))
FUZZ := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
EXAMPLES := $(patsubst %.c,$(B)/%,$(wildcard examples/*.c))
ORACLE := $(patsubst %.c,$(B)/%.o,$(wildcard tests/oracle/*.c))

STATIC := $(B)/liblongline-lab.a $(B)/liblongline.a
SHARED := $(B)/liblongline-lab.so $(B)/liblongline.so

PLUGINS := $(MPI:%=$(B)/longline-mpi-%.so)

all: $(B)/longline $(STATIC) $(SHARED) $(PLUGINS)
help:
	@sed -n 's/^#: //p' Makefile

#: make                build/longline, and liblongline and liblongline-lab, .a and .so, beside it
#: make deps           install what the build and the tests need (Debian, Ubuntu)
#: make demo           build; then train on the project's own text, generate, draw: about two minutes
#: make check          build and pass every test; the last line counts them
#: make install        into $(DESTDIR)$(PREFIX)
#: make tests          the test programs alone
#: make cli-tests      the program as a user runs it
#: make examples bench build and run the examples; measure
#: make asan ubsan     tests under AddressSanitizer and UBSan
#: make tsan           tests of what threads do under ThreadSanitizer; tsan-all: all but one, in an hour and a half
#: make valgrind       a few tests under valgrind
#: make scalar         tests with the plain kernels (LL_CPU=scalar)
#: make locale         tests where 0.5 is written 0,5
#: make check-mpich    the scripts of many ranks where MPICH is the only MPI
#: make dist-faults    ranks killed a hundred times, cut off from the network, under Slurm (takes some minutes, as root)
#: make wasm           a page that runs models in a browser, as static files (make deps-wasm); wasm-check tests it
#: make clang aarch64  compile everything with clang; for AArch64, where tests run emulated (make deps-aarch64)
#: make aarch64-all  all tests in the emulator: an hour
#: make keys           docs/keys.md from the keys of the program
#: make python         the package for Python, and its tests; then PYTHONPATH=build/python serves
#: make lint           the house rules that a script can check
#: make deb            packages for Debian, into $(B)/deb (make deps-deb); deb-arm64: for arm64 (make deps-deb-arm64)
#: make deb-again      builds them twice, in different surroundings: have both the same bytes?
#: make trust          memory, calls of the system, kills, power that fail: all of it, in hours (trust-short: samples)
#: make coverage       what of the sources the tests reach, by file (make deps-trust)
#: make mutants        random changes of the sources, which the tests should notice (COUNT=300 takes hours)
#: make analyze        static checks of gcc and clang, and that each finding has its reason
#: make fuzz           build the fuzz targets with clang's libFuzzer; fuzz-coverage: what each reaches of its reader

# Only the compute is worth -O3 (builds that look for faults take less). Only the files with names of instruction sets may use
# instructions that the machine may lack.
KERNEL_LEVEL ?= -O3
$(B)/src/kernel/%.o: EXTRA := $(KERNEL_LEVEL)
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(B)/src/kernel/avx2.o: EXTRA := $(KERNEL_LEVEL) -mavx2 -mfma
$(B)/src/kernel/avx512.o: EXTRA := $(KERNEL_LEVEL) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
$(B)/src/kernel/avx512bf16.o: EXTRA := $(KERNEL_LEVEL) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mprefer-vector-width=512
endif
ifneq ($(findstring aarch64,$(shell $(CC) -dumpmachine)),)
# Scheduling before registers are allocated loads more than the 32 registers hold beside the sums of a tile.
$(B)/src/kernel/neon.o: EXTRA := $(KERNEL_LEVEL) -fno-schedule-insns
$(B)/src/kernel/neonbf16.o: EXTRA := $(KERNEL_LEVEL) -fno-schedule-insns -march=armv8.2-a+bf16
endif
# The core's version script says what is exported, of its own functions what lab needs, too; the rest marks it.
VISIBILITY := -fvisibility=hidden
$(B)/src/%.o: VISIBILITY := $(if $(PIC),-fno-semantic-interposition)
$(B)/src/%.o: INC := -Isrc
$(B)/lab/%.o: INC := -Isrc -Ilab
$(B)/cli/%.o: INC := -Icli
$(B)/tests/%: INC := -Isrc -Ilab -Itests $(if $(ZSTD),-DWITH_ZSTD)

# One short line a file; V=1 shows the whole commands. A change of compiler or flags rebuilds everything.
run = $(if $(V),,@echo '  $(1)  $@';)
FLAGS := $(CC) $(CXX) $(BASE) $(KERNEL_LEVEL) $(CFLAGS) $(LDFLAGS) $(LIBS)
ifneq ($(FLAGS),$(shell cat $(B)/flags 2>/dev/null))
$(shell mkdir -p $(B) && printf '%s\n' '$(FLAGS)' >$(B)/flags)
endif
# The libraries and the program are linked again when the list of their files changes: a source is gone, or a library is
# there that was not.
LISTS := $(patsubst $(B)/%,%,$(CORE) $(LAB) $(CLI))
ifneq ($(LISTS),$(shell cat $(B)/lists 2>/dev/null))
$(shell mkdir -p $(B) && printf '%s\n' '$(LISTS)' >$(B)/lists)
endif
# Before the first file is compiled: are the headers of other packages there? Looked for again when the flags change.
NEEDS := jansson.h:libjansson-dev Random123/philox.h:librandom123-dev xxhash.h:libxxhash-dev \
    $(if $(PACKED),zlib.h:zlib1g-dev lzma.h:liblzma-dev) $(if $(PNG),png.h:libpng-dev) \
    $(if $(filter lab,$(LAB_ROOMS)),cairo/cairo.h:libcairo2-dev fontconfig/fontconfig.h:libfontconfig-dev sha2.h:libmd-dev)
$(B)/needs: $(B)/flags
	@.ci/needs '$(CC) $(CFLAGS)' $(NEEDS)
	@touch $@
$(B)/needs-tests: $(B)/needs
	@.ci/needs '$(CC) $(CFLAGS)' cmocka.h:libcmocka-dev
	@touch $@
$(addsuffix .o,$(TESTS)) $(ORACLE): | $(B)/needs-tests
$(B)/%.o: %.c $(B)/flags | $(B)/needs
	@mkdir -p $(@D)
	$(call run,cc)$(CC) $(BASE) $(VISIBILITY) $(INC) $(CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@
$(B)/%.o: %.cc $(B)/flags | $(B)/needs
	@mkdir -p $(@D)
	$(call run,c++)$(CXX) -std=c++17 -Iinclude -Isrc -fPIC -fvisibility=hidden -Wall -Wextra $(CFLAGS) -MMD -MP -c $< -o $@
# Files that become constants of the library.
$(B)/src/data/text/demo_text.o: src/data/text/demo.txt
$(B)/lab/report/style.o: lab/report/style.css
$(B)/cli/serve/serve_page.o: $(B)/cli/serve/page.html
$(B)/cli/serve/serve_page.o: override CFLAGS += -Wa,-I$(B)
# The page at `/` in one piece: a line @FILE@ of page.html stands for that file.
PAGE := cli/serve/page
$(B)/cli/serve/page.html: $(PAGE)/page.html $(wildcard $(PAGE)/*.js $(PAGE)/*.css)
	@mkdir -p $(@D)
	$(call run,page)awk '/^@.*@$$/ {f = "$(PAGE)/" substr($$0, 2, length - 2); n = 0; while ((r = (getline line <f)) > 0) {n++; \
	    print line} if (r < 0 || !n) exit 1; next} {print}' $< >$@.new && mv $@.new $@
$(B)/%.o: %.S $(B)/flags
	@mkdir -p $(@D)
	$(call run,as)$(CC) $(CFLAGS) -c $< -o $@
$(B)/liblongline.a: $(CORE)
$(B)/liblongline-lab.a: $(LAB)
$(STATIC): $(B)/lists
	@rm -f $@
	$(call run,ar)$(AR) rcs $@ $(filter %.o,$^)
# What lab takes from inside the core is exported under a version of its own: no other lab's fits.
$(B)/longline.map: packaging/longline.map.sh $(wildcard include/longline/*.h) $(addprefix include/longline-,batch.h draft.h) $(LAB) $(B)/lists
	$(call run,map)NM="$(NM)" packaging/longline.map.sh $(ABI) $(VERSION) $(LAB) >$@.new && mv $@.new $@
# Beside each other, wherever that is; a package whose folder the loader knows leaves it out.
LAB_RPATH ?= -Wl,-rpath,'$$ORIGIN'
SHARE = $(call run,ld)$(CC) -shared -Wl,-soname,$(@F).$(ABI) $(CFLAGS) $(LDFLAGS) -Wl,-z,defs -Wl,-z,nodelete
$(B)/liblongline.so: $(CORE) $(B)/longline.map
	$(SHARE) -Wl,--version-script,$(B)/longline.map -Wl,-Bsymbolic-functions $(CORE) $(CORE_LIBS) -o $@
	@ln -sf $(@F) $@.$(ABI)
$(B)/liblongline-lab.so: $(LAB) $(B)/liblongline.so packaging/longline-lab.map
	$(SHARE) -Wl,--version-script,packaging/longline-lab.map $(LAB_RPATH) $(LAB) $(B)/liblongline.so $(LAB_LIBS) -o $@
	@ln -sf $(@F) $@.$(ABI)

$(B)/longline-mpi-%.so: src/dist/mpi_plugin.c src/dist/transport.h $(B)/flags
	$(call run,mpicc)mpicc.$* -shared -std=c17 -D_GNU_SOURCE -fPIC -fvisibility=hidden -Wall -Wextra -Isrc $(CFLAGS) $(LDFLAGS) $< -o $@

LINK = $(call run,ld)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(B)/longline: LIBS += $(if $(MICROHTTPD),-lmicrohttpd)
$(B)/longline: $(CLI) $(STATIC) $(B)/lists
	$(LINK) -o $@
# Examples need the core alone.
$(EXAMPLES): LIBS = $(CORE_LIBS)
$(EXAMPLES): $(B)/%: $(B)/%.o $(B)/liblongline.a
	$(LINK) -o $@
$(TESTS): $(B)/%: $(B)/%.o $(ORACLE) $(STATIC)
	$(LINK) -lcmocka -o $@
# Of the program they have one file each.
$(B)/tests/recipe/test_needs: $(B)/cli/train/needs.o
$(B)/tests/recipe/test_needs.o: INC += -Icli
# It has the option parser within it; this is what that prints with.
$(B)/tests/fuzz/fuzz_command $(B)/tests/fuzz/fuzz_command-live: $(B)/cli/output/print.o $(B)/cli/output/show.o $(B)/cli/output/terminal.o
$(B)/tests/fuzz/fuzz_request $(B)/tests/fuzz/fuzz_request-live: $(B)/cli/serve/request.o $(B)/cli/serve/request_path.o \
    $(B)/cli/serve/refusal.o $(B)/cli/output/show.o
$(FUZZ): $(B)/%: $(B)/%.o $(B)/tests/fuzz/replay.o $(STATIC)
	$(LINK) -o $@
.SECONDARY:
OBJECTS := $(CORE) $(LAB) $(CLI) $(ORACLE) $(addsuffix .o,$(TESTS) $(FUZZ) $(EXAMPLES))
# The headers of each object that was compiled here, also of those that no list names.
-include $(shell find $(addprefix $(B)/,src lab cli tests examples wasm) -name '*.d' 2>/dev/null)

# ---- Tests. tests/run.sh runs programs, shows what matters, and counts into $(RESULTS). ----
RESULTS ?= $(B)/results
# Tests too slow for the sanitizers; they run in `make tests` alone.
SLOW := %/test_toy
tests: $(TESTS)
	@tests/run.sh $(RESULTS) programs $(TESTS)
FAST = $(filter-out $(SLOW),$(TESTS))
fast-tests: $(FAST) $(FUZZ)
	@tests/run.sh $(RESULTS) programs $(FAST)
	@tests/run.sh $(RESULTS) fuzz $(FUZZ)
cli-tests: $(B)/longline $(PLUGINS) $(EXAMPLES)
	@tests/run.sh $(RESULTS) scripts $(B) $(SCRIPTS)
ALONE := $(B)/mpich-alone
check-mpich: $(B)/longline $(B)/longline-mpi-mpich.so
	@rm -rf $(ALONE) && mkdir -p $(ALONE) && cp $^ $(ALONE)
	@tests/run.sh $(RESULTS) scripts $(ALONE) $(wildcard tests/cli/dist*.sh)
dist-faults: $(B)/longline $(PLUGINS)
	@LL_KILLS=100 tests/run.sh $(RESULTS) scripts $(B) tests/cli/dist_faults.sh tests/cli/dist_network.sh tests/dist/slurm.sh
examples: $(EXAMPLES)
bench: $(B)/longline
	$(B)/longline bench
demo: deps-build
	@$(MAKE) -j$(JOBS) $(B)/longline
	$(B)/longline demo
.PHONY: all help tests fast-tests cli-tests check-mpich dist-faults examples bench demo

include rules.mk $(wildcard sources.mk wasm/wasm.mk)
