# Builds for which Debian has no libraries: musl, and WebAssembly (wasm/wasm.mk). jansson, which reads the header of model
# files, and cmocka, which tests use, are compiled from Debian's sources; what other libraries are for is left out.
SOURCES ?= build/sources
sources:
	@.ci/deps dpkg-dev xz-utils
	@[ -e $(SOURCES)/cmocka ] || .ci/sources $(SOURCES)
SOURCES_INC := -D_UINTPTR_T -isystem $(SOURCES)/jansson/android -isystem $(SOURCES)/jansson/src -isystem $(SOURCES)/cmocka/include
SOURCES_ONLY := MPI= CURL= ARCHIVE= SENTENCEPIECE= UNICODE= MICROHTTPD= PACKED= PNG= NEEDS=xxhash.h:libxxhash-dev
CMOCKA_HAS := $(addsuffix =1,$(addprefix -DHAVE_,STRUCT_TIMESPEC MALLOC_H INTTYPES_H STRSIGNAL SNPRINTF VSNPRINTF STRINGS_H \
    UNISTD_H SIGNAL_H TIME_H CLOCK_GETTIME_REALTIME UINTPTR_T))
# $(call from_sources,FOLDER,COMPILER,AR): the two libraries in FOLDER.
define from_sources
$(1)/libjansson.a: $(wildcard $(SOURCES)/jansson/src/*.c)
	@[ -e $(SOURCES)/jansson ] || { echo "no sources of jansson here: make deps-musl (or deps-wasm) fetches them" >&2; exit 1; }
	@mkdir -p $$(@D)/jansson && touch $$(@D)/jansson/jansson_private_config.h
	$$(call run,cc)cd $$(@D)/jansson && $(2) -DHAVE_STDINT_H -I. -I$(abspath $(SOURCES))/jansson/android -c $$(abspath $$^)
	@rm -f $$@ && $(3) rcs $$@ $$(@D)/jansson/*.o
$(1)/libcmocka.a: $(wildcard $(SOURCES)/cmocka/src/cmocka.c)
	@mkdir -p $$(@D)/cmocka
	$$(call run,cc)$(2) -w -D_UINTPTR_T -I$(SOURCES)/cmocka/include $(CMOCKA_HAS) -c $$< -o $$(@D)/cmocka/cmocka.o
	@rm -f $$@ && $(3) rcs $$@ $$(@D)/cmocka/cmocka.o
endef

# ---- musl: the core, and the laboratory but for its pictures and downloads, linked statically, and their tests. ----
MUSL := $(B)/musl
MUSL_CC := musl-gcc $(SOURCES_INC) -idirafter /usr/include -idirafter /usr/include/$(shell $(CC) -dumpmachine)
MUSL_LAB := $(filter-out lab/report lab/sets,$(wildcard lab/*))
# Tests of what is left out: pictures, reports (which runs write), packed files, tokenizers of other programs.
MUSL_NOT := adopt axis carry compare data fasta fetch figure file heat idx image input labelled listops midi music music_data \
    music_style pair_data pathfinder precision reading refused_memory report report_parts resume retrieval run_folder \
    sentencepiece spill study teaching train within words
deps-musl: sources
	@.ci/deps musl-tools librandom123-dev libxxhash-dev
$(eval $(call from_sources,$(MUSL),musl-gcc -O2,ar))
musl: $(MUSL)/libjansson.a $(MUSL)/libcmocka.a
	+@rm -f $(MUSL)/results; LL_FAST=1 $(AGAIN) B=$(MUSL) CC="$(MUSL_CC)" LAB_ROOMS="$(MUSL_LAB)" $(SOURCES_ONLY) LDFLAGS=-static RESULTS=$(MUSL)/results \
	    LIBS="-L$(abspath $(MUSL)) -ljansson -lm" TESTS="$(filter-out $(addprefix %/test_,$(MUSL_NOT)),$(FAST:$(B)/%=$(MUSL)/%))" tests
	@awk '{passed += $$1; failed += $$2} END {print "musl: " NR " programs, " passed " passed, " failed " failed"}' $(MUSL)/results
.PHONY: sources deps-musl musl
