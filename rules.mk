# The rest of the Makefile: what is installed, and the ways to build and test that are not everyday.

# ---- Packages. .ci/deps installs those that are missing; it does nothing when all are there. ----
PKG_BUILD := gcc libc6-dev make pkg-config libjansson-dev librandom123-dev zlib1g-dev liblzma-dev libpng-dev libcairo2-dev \
    libfontconfig-dev libxxhash-dev libmd-dev
# The package longline for Python, its tests, types and notebooks.
PKG_PYTHON := python3-dev python3-venv python3-numpy python3-cffi python3-setuptools python3-wheel python3-build python3-pytest \
    python3-hypothesis python3-tqdm python3-torch python3-nbconvert python3-ipykernel python3-matplotlib python3-pil mypy binutils
# Optional for the build: libcurl for downloads, libarchive to unpack them, sentencepiece for pieces of words, PCRE2 and
# utf8proc for tokenizers of other programs, zstd for files packed by it, Open MPI and MPICH for many ranks (a plug-in each),
# iproute2 to test these as machines of their own, libmicrohttpd for `longline serve`. The programs sentencepiece, midicsv,
# strace, xz and man are what tests compare with, or look with.
PKG_CHECK := g++ libcmocka-dev clang clang-tidy valgrind libc6-dbg cmake libcurl4-openssl-dev \
    libarchive-dev libsentencepiece-dev libpcre2-dev libutf8proc-dev libzstd-dev libmicrohttpd-dev locales openmpi-bin \
    libopenmpi-dev mpich libmpich-dev iproute2 sentencepiece midicsv strace xz-utils man-db groff-base $(PKG_PYTHON)
deps-build:
	@.ci/deps $(PKG_BUILD)
# Opens the pages of reports and of the server in their tests, which say so and go on where it cannot be had.
PKG_BROWSER := chromium fonts-dejavu-core
# Packages of npm for the tests, where npm is: the client that OpenAI publishes, and what finds barriers in a page.
PKG_NPM := openai@6 axe-core@4
NPM := $(B)/npm/node_modules
deps:
	@.ci/deps $(PKG_BUILD) $(PKG_CHECK)
	@.ci/deps $(PKG_BROWSER) || echo "no chromium to be had: tests will not open the pages"
	@[ -e $(NPM)/axe-core ] || ! command -v npm >/dev/null || { mkdir -p $(B)/npm && \
	    timeout 120 npm install --prefix $(B)/npm --no-audit --no-fund --silent $(PKG_NPM); } || \
	    echo "no packages of npm to be had: tests go on without $(PKG_NPM)"

deps-aarch64:
	@dpkg --print-foreign-architectures | grep -qx arm64 || $(AS_ROOT) dpkg --add-architecture arm64
	@.ci/deps gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
	    $(addsuffix :arm64,libcmocka-dev libjansson-dev zlib1g-dev liblzma-dev libmd-dev libcairo2)
deps-deb:
	@.ci/deps dpkg-dev debhelper lintian
deps-deb-arm64: deps-aarch64 deps-deb
	@.ci/deps $(addsuffix :arm64,libarchive-dev libcairo2-dev libcurl4-openssl-dev libmicrohttpd-dev libpcre2-dev \
	    libpng-dev libutf8proc-dev libzstd-dev)
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)

# ---- Other builds of the same sources, each in its own folder. ----
SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
AGAIN = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
# With few rounds (LL_FAST), and less optimised: what this build looks for are faults of memory, not of numbers. With -O3 each tier
# of kernels takes minutes to compile.
asan:
	+@LL_FAST=1 LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0 $(AGAIN) B=$(B)/asan WERROR= KERNEL_LEVEL=-O1 \
	    CFLAGS="-O1 -g1 $(SAN) -fno-omit-frame-pointer" LDFLAGS="$(SAN)" RESULTS=$(RESULTS) fast-tests
ubsan: asan
# Programs that use threads, and the server, under ThreadSanitizer. It understands the parallel loop: threads of POSIX, atomics of C11.
TSAN_TESTS ?= threads host_threads attention stream model_stream batch_loss train resume shared_sequence post
tsan:
	+@TSAN_OPTIONS=halt_on_error=1 $(AGAIN) B=$(B)/tsan WERROR= CFLAGS="-O1 -g -fsanitize=thread" LDFLAGS=-fsanitize=thread \
	    RESULTS=$(RESULTS) TESTS="$(patsubst $(B)/%,$(B)/tsan/%,$(call named,$(TSAN_TESTS)))" tests $(B)/tsan/longline
	@TSAN_OPTIONS=halt_on_error=1 tests/run.sh $(RESULTS) scripts $(B)/tsan tests/cli/serve.sh
# All that make check runs under AddressSanitizer; some of their tests measure what ThreadSanitizer changes, and are left out.
tsan-all: # takes an hour and a half
	+@LL_FAST=1 $(MAKE) --no-print-directory tsan TSAN_TESTS="$(patsubst test_%,%,$(notdir $(FAST)))"
# A locale that writes 0.5 as 0,5, which numbers of the library must not follow; tests take it as their own.
COMMA := $(B)/locale/de_DE.UTF-8
$(COMMA):
	@mkdir -p $(@D)
	@localedef -i de_DE -f UTF-8 $@ || { echo "no locale with a decimal comma: numbers are tested without"; mkdir -p $@; }
IN_COMMA = env LOCPATH=$(abspath $(B)/locale) LC_ALL=de_DE.UTF-8
locale: $(FAST) $(COMMA)
	@WRAP="$(IN_COMMA)" tests/run.sh $(RESULTS) programs $(FAST)
# In that locale, too: `make check` runs all tests once in the C locale and once in this one, with few rounds (LL_FAST).
scalar: $(FAST) $(COMMA)
	@LL_FAST=1 LL_CPU=scalar WRAP="$(IN_COMMA)" tests/run.sh $(RESULTS) programs $(FAST)
# Valgrind knows no AVX-512, so the tier is capped; programs that compute for long are left out.
MEMCHECK := valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=9 \
    --suppressions=tests/valgrind.supp
VALGRIND_TESTS ?= recipe safetensors data idx file writer stream model_file figure
valgrind: $(TESTS)
	@LL_FAST=1 LL_CPU=scalar WRAP="$(MEMCHECK)" tests/run.sh $(RESULTS) programs \
	    $(call named,$(VALGRIND_TESTS))
objects: $(OBJECTS)
# Everything compiled with clang, and the fuzz targets linked with its libFuzzer, where that is installed. No program of this
# build is run, so that it is not optimised. `make fuzz` builds those that run, with sanitizers.
CLANG = B=$(B)/clang CC=clang CXX=clang++ CFLAGS="-O0 -fsanitize=fuzzer-no-link" KERNEL_LEVEL=-O0 \
    FUZZ_LINK='-fsanitize=fuzzer -fsanitize-link-c++-runtime'
FUZZER = B=$(B)/fuzz CC=clang CXX=clang++ KERNEL_LEVEL=-O1 \
    CFLAGS="-O1 -g -fsanitize=address,undefined,fuzzer-no-link -fsanitize-coverage-ignorelist=tests/fuzz/not_followed.txt" \
    FUZZ_LINK='-fsanitize=address,undefined,fuzzer -fsanitize-link-c++-runtime'
clang:
	+@$(AGAIN) $(CLANG) WERROR=-Werror objects \
	    $$([ ! -e $$(clang -print-file-name=libclang_rt.fuzzer-$$(uname -m).a) ] || echo fuzzers)
fuzz:
	+@$(AGAIN) $(FUZZER) fuzzers
	@echo "run one: $(B)/fuzz/tests/fuzz/fuzz_NAME-live NEW_CORPUS tests/fuzz/corpus/NAME"
# Everything compiled for AArch64, and run in an emulator what is quick there; for cairo and libpng it takes no -dev package.
# Kernels have -O3 as everywhere; the rest has little optimisation, and no debug information. With few rounds (LL_FAST).
AARCH64_TESTS ?= kernels kernel_rows quantize layer_kernels rotate products sinusoids base random recipe safetensors file stream golden
AARCH64 = B=$(B)/aarch64 CFLAGS=-O1 CC="aarch64-linux-gnu-gcc -idirafter /usr/include -idirafter /usr/include/$$(gcc -dumpmachine)" \
    CURL= ARCHIVE= SENTENCEPIECE= UNICODE= ZSTD= MICROHTTPD= \
    LIBS="-L/usr/lib/aarch64-linux-gnu $(patsubst -lcairo,-l:libcairo.so.2,$(patsubst -lfontconfig,-l:libfontconfig.so.1,$(patsubst \
    -lpng,-l:libpng16.so.16,$(filter-out $(LAB_OPTIONAL) $(CORE_OPTIONAL),$(LIBS)))))"
AARCH64_LIBS := $(addprefix /usr/lib/aarch64-linux-gnu/,libcmocka.so libcairo.so.2)
aarch64-all: # takes an hour
	+@$(MAKE) --no-print-directory aarch64 AARCH64_TESTS="$(patsubst test_%,%,$(notdir $(TESTS)))"
aarch64:
	+@if which aarch64-linux-gnu-gcc qemu-aarch64 >/dev/null && ls $(AARCH64_LIBS) >/dev/null; then \
	    $(AGAIN) $(AARCH64) objects && LL_FAST=1 WRAP=qemu-aarch64 $(AGAIN) $(AARCH64) RESULTS=$(RESULTS) \
	        TESTS="$(patsubst $(B)/%,$(B)/aarch64/%,$(call named,$(AARCH64_TESTS)))" tests && \
	        tests/run.sh $(RESULTS) scripts $(B)/aarch64 tests/neon_tiles.sh; \
	else echo "aarch64: left out, no compiler or emulator here; make deps-aarch64 installs them"; \
	    echo "0 0 1 aarch64" >>$(RESULTS); fi
# What of the sources the tests reach, by file, at the end: in a build of its own, whose counters gcovr reads (deps-trust).
# COVER= chooses what runs; COVERAGE_OF= what is counted.
COVER ?= fast-tests cli-tests
COVERAGE_OF ?= src
# AVX-512 is left out: two tiers include one header in two ways, which gcovr 5 does not take.
GCOVR = gcovr --root . --object-directory $(B)/coverage $(COVERAGE_OF:%=--filter '%/') --exclude '.*avx512' \
    --exclude-unreachable-branches --exclude-throw-branches
coverage:
	+@code=0; $(AGAIN) B=$(B)/coverage WERROR= CFLAGS="-O1 -g --coverage -fprofile-update=atomic" LDFLAGS=--coverage \
	    RESULTS=$(RESULTS) $(COVER) || code=$$?; \
	$(GCOVR) --print-summary --txt && $(GCOVR) --branches --txt | awk 'NR > 6 {print "branches: " $$0}' && exit $$code
# How much of each reader its fuzz target alone reaches.
fuzz-coverage:
	+@$(AGAIN) B=$(B)/coverage WERROR= CFLAGS="-O1 -g --coverage -fprofile-update=atomic" LDFLAGS=--coverage fuzz-replays
	@tests/fuzz/reached.sh $(B)/coverage
deps-trust:
	@.ci/deps gcovr lintian mmdebstrap
# ---- The campaigns of tests/trust: samples in seconds, or (make trust) all of them in hours, see docs/trust.md. ----
TRUST := $(wildcard tests/trust/*.sh)
TROUBLE := $(addprefix $(B)/tests/trust/,trouble disk_states old_kernel shim.so long_stream)
TRUST_CC = $(call run,ld)mkdir -p $(@D) && $(CC) -std=gnu17 -D_GNU_SOURCE -O2 -g -Wall -Wextra $(WERROR)
$(B)/tests/trust/shim.so: tests/trust/shim.c tests/trust/branch.c tests/trust/branch.h $(B)/flags
	$(TRUST_CC) -shared -fPIC $(filter %.c,$^) -o $@ -ldl
$(B)/tests/trust/long_stream: $(B)/tests/trust/long_stream.o $(STATIC)
	$(LINK) -o $@
$(B)/tests/trust/%: tests/trust/%.c $(B)/flags
	$(TRUST_CC) $< -o $@
trust-short: $(B)/longline $(TROUBLE)
	@tests/run.sh $(RESULTS) scripts $(B) $(TRUST)
trust: $(B)/longline $(TROUBLE)
	@LL_TRUST=long LL_TEST_LIMIT=86400 tests/run.sh $(RESULTS) scripts $(B) $(TRUST)
# Static checks; `make check` looks at what changed since tests/analyzed.txt was written.
analyze:
	@JOBS=$(JOBS) tests/analyze.sh
analyze-short:
	@SHORT=1 JOBS=$(JOBS) RESULTS=$(RESULTS) tests/analyze.sh
# COUNT random changes of src (but for kernels and recipes), of which the tests should notice nine in ten.
COUNT ?= 300
SEED ?= 1
mutants: $(TESTS) $(B)/reached
	@LIBS="$(LIBS)" CC="$(CC)" tests/trust/mutants $(B) $(COUNT) $(SEED)
$(B)/reached: $(TESTS)
	@JOBS=$(JOBS) LIBS="$(LIBS)" CC="$(CC)" tests/trust/reached $(B)
fuzzers: $(FUZZ:%=%-live)
fuzz-replays: $(FUZZ)
$(B)/tests/fuzz/fuzz_%-live: $(B)/tests/fuzz/fuzz_%.o $(STATIC)
	$(call run,ld)$(CC) $(CFLAGS) $(FUZZ_LINK) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@

# ---- The package for Python: built beside the library, PYTHONPATH=$(B)/python; then its tests. ----
# The first interpreter that has what the build needs: Debian's packages are those of /usr/bin/python3.
PYTHON = $(eval PYTHON := $(shell for p in python3 /usr/bin/python3; do $$p -c 'from importlib.util import find_spec as f; \
    raise SystemExit(not all(map(f, ["cffi", "numpy", "pytest", "setuptools"])))' 2>/dev/null && { echo $$p; break; }; done))$(PYTHON)
PYTHON_FILES := $(wildcard python/*.py python/*.toml python/longline/*.py python/longline/*/*.py)
# What a program linked with liblongline.a needs besides, for python/setup.py.
core-libs:
	@echo $(CORE_LIBS)
PYTHON_BUILD = cd python && LONGLINE_ARCHIVE=$(abspath $(B))/liblongline.a LONGLINE_LIBS="$(CORE_LIBS)" $(PYTHON) setup.py -q
$(B)/python/built: $(B)/liblongline.a $(PYTHON_FILES)
	@[ -n "$(PYTHON)" ] || { echo "no Python with cffi, numpy, pytest and setuptools; make deps installs them" >&2; exit 1; }
	@rm -rf $(@D) && mkdir -p $(@D)
	$(call run,py)$(PYTHON_BUILD) build --build-base $(abspath $(B)/python-temp) --build-lib $(abspath $(B)/python)
	@touch $@
python: $(B)/python/built
	@PYTHON="$(PYTHON)" LONGLINE_LIBS="$(CORE_LIBS)" tests/run.sh $(RESULTS) python $(B) $(wildcard python/tests/test_*.py)

# ---- Installation. ----
DATA = $(DESTDIR)$(PREFIX)/share
LIBDIR ?= $(PREFIX)/lib
# The program finds its plug-ins here, whatever LIBDIR is.
FROM_BIN = $(PREFIX)/lib/longline
empty :=
space := $(empty) $(empty)
CORE_REQUIRES := jansson$(if $(PACKED), zlib liblzma)$(if $(PNG), libpng)
fill = sed 's|@PREFIX@|$(PREFIX)|g; s|@LIBDIR@|$(LIBDIR)|g; s|@VERSION@|$(VERSION)|g; s|@ABI@|$(ABI)|g; \
    s|@CORE_REQUIRES@|$(CORE_REQUIRES)|g; \
    s|@CORE_PRIVATE@|$(addprefix $(space),$(CORE_OPTIONAL))|g; s|@LAB_PRIVATE@|$(addprefix $(space),$(LAB_OPTIONAL))|g'
BOTH := liblongline liblongline-lab
BESIDE := $(addprefix include/longline-,lab.h dist.h batch.h draft.h)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/longline $(DESTDIR)$(PREFIX)/include/longline-lab \
	    $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/longline $(DATA)/man/man1 $(DATA)/longline/recipes
	install -m 755 $(B)/longline $(DESTDIR)$(PREFIX)/bin/longline
	install -m 644 include/longline.h $(BESIDE) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(wildcard include/longline/*.h) $(DESTDIR)$(PREFIX)/include/longline
	install -m 644 $(wildcard include/longline-lab/*.h) $(DESTDIR)$(PREFIX)/include/longline-lab
	for p in $(PLUGINS); do install -D -m 755 $$p $(DESTDIR)$(FROM_BIN)/$$(basename $$p) || exit 1; done
	for l in $(BOTH); do install -m 644 $(B)/$$l.a $(DESTDIR)$(LIBDIR)/$$l.a && \
	    install -m 755 $(B)/$$l.so $(DESTDIR)$(LIBDIR)/$$l.so.$(VERSION) && \
	    ln -sf $$l.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$$l.so.$(ABI) && \
	    ln -sf $$l.so.$(ABI) $(DESTDIR)$(LIBDIR)/$$l.so || exit 1; done
	$(fill) packaging/longline.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/longline.pc
	$(fill) packaging/longline-lab.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/longline-lab.pc
	$(fill) packaging/longlineConfig.cmake.in >$(DESTDIR)$(LIBDIR)/cmake/longline/longlineConfig.cmake
	$(fill) packaging/longlineConfigVersion.cmake.in >$(DESTDIR)$(LIBDIR)/cmake/longline/longlineConfigVersion.cmake
	install -m 644 packaging/longline.1 $(DATA)/man/man1/longline.1
	[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || :
	cd recipes && for r in *.ini */*.ini; do install -D -m 644 $$r $(abspath $(DATA))/longline/recipes/$$r || exit 1; done
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/longline $(DESTDIR)$(PREFIX)/include/longline.h \
	    $(BESIDE:%=$(DESTDIR)$(PREFIX)/%) $(BOTH:%=$(DESTDIR)$(LIBDIR)/%.*) $(DESTDIR)$(LIBDIR)/pkgconfig/longline.pc \
	    $(DESTDIR)$(LIBDIR)/pkgconfig/longline-lab.pc $(DATA)/man/man1/longline.1
	rm -rf $(DESTDIR)$(FROM_BIN) $(DESTDIR)$(LIBDIR)/longline $(DESTDIR)$(LIBDIR)/cmake/longline $(DESTDIR)$(PREFIX)/include/longline \
	    $(DESTDIR)$(PREFIX)/include/longline-lab $(DATA)/longline

# ---- Packages for Debian: the files that git knows, copied, built and packed there; the same bytes each time. ----
# They choose their own compiler: what is set for this make, such as CC="ccache cc", does not reach them.
DEB_TO ?= $(B)/deb
DEB = $(DEB_TO)/longline-$(VERSION)
# Whoever hands packages out names himself in them.
MAINTAINER ?= The longline authors <longline@example.org>
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date -r CHANGELOG.md +%s)
deb:
	@command -v dh >/dev/null || { echo "make deb needs debhelper; make deps-deb installs it" >&2; exit 2; }
	rm -rf $(DEB_TO) && mkdir -p $(DEB)
	git ls-files -z | xargs -0 cp -P --parents -t $(DEB)
	cp -r $(DEB)/packaging/debian $(DEB)/debian
	date=$$(LC_ALL=C date -u -R -d @$(SOURCE_DATE_EPOCH)) && sed -i "s/@VERSION@/$(VERSION)/; s/@DATE@/$$date/; \
	    s/@MAINTAINER@/$(MAINTAINER)/" $(DEB)/debian/changelog $(DEB)/debian/control
	cd $(DEB) && env $(patsubst %,-u %,MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL CC CXX AR NM CFLAGS LDFLAGS) \
	    SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) dpkg-buildpackage -b -us -uc -d -j$(JOBS) $(DEB_OPTIONS)
	ls $(DEB_TO)/*.deb
# Two builds of one state, in different surroundings, have to be the same packages to the byte.
deb-again:
	MAKE="$(MAKE)" tests/trust/deb_again $(B)/deb-again
# For arm64, compiled on this machine and tried in the emulator.
deb-arm64:
	@$(MAKE) --no-print-directory deb DEB_TO=$(B)/deb-arm64 DEB_OPTIONS="-aarm64 -Pcross,nocheck"
	tests/trust/deb_arm64 $(B)/deb-arm64

# ---- The page of all keys, from the program; tests/cli/recipe.sh sees that it is up to date. ----
keys: $(B)/longline
	$(B)/longline recipe >$(B)/keys
	awk -f docs/keys.awk $(B)/keys >$(B)/keys.md
	mv $(B)/keys.md docs/keys.md

# ---- The house rules, and everything at once. ----
lint: all
	@RESULTS=$(RESULTS) tests/lint.sh $(B)
check:
	@tests/check.sh $(B) "$(MAKE)" $(JOBS)
clean:
	rm -rf $(B)
.PHONY: core-libs analyze analyze-short coverage mutants deps-trust trust trust-short deb deb-again deb-arm64 deps-deb deps-deb-arm64 keys python deps deps-build deps-aarch64 asan ubsan tsan tsan-all locale scalar valgrind objects clang aarch64 aarch64-all fuzz fuzz-coverage fuzz-replays fuzzers install uninstall lint check clean
