# The library in WebAssembly: `make wasm` compiles it with Emscripten into a folder of static files, and `make wasm-check`
# runs its tests. docs/wasm.md describes the page.

deps-wasm: sources
	@.ci/deps emscripten nodejs librandom123-dev libxxhash-dev

# Modules of Debian's node, where another node comes first. Checks of each call would take longer than the compiler.
EMCC ?= env NODE_PATH=/usr/share/nodejs EMCC_SKIP_SANITY_CHECK=1 emcc
WASM := $(B)/wasm
WASM_OBJECTS := $(B)/wasm-objects
WASM_SHARED := -O2 -pthread -msimd128
# Headers that are the same everywhere (Random123, xxHash) are taken from this machine's own folder.
WASM_CC := $(EMCC) $(SOURCES_INC) -idirafter /usr/include
# How test programs are linked: for Node, with the files of this machine.
WASM_NODE := -sENVIRONMENT=node -sNODERAWFS=1 -sALLOW_MEMORY_GROWTH=1 -sEXIT_RUNTIME=1 -sINITIAL_MEMORY=64MB -Wno-pthreads-mem-growth
# What the page needs of the laboratory, and what tests need besides. The rest needs cairo.
WASM_LAB := lab/maps lab/case lab/reference
# All objects are made for threads. Linked without them, they run on one.
WASM_MAKE = $(AGAIN) B=$(WASM_OBJECTS) CC="$(WASM_CC)" CFLAGS="$(WASM_SHARED)" AR=emar PIC= LAB_ROOMS="$(WASM_LAB)" \
    $(SOURCES_ONLY) LDFLAGS="$(WASM_NODE)" LIBS="-L$(abspath $(WASM_OBJECTS)) -ljansson -lm"
$(eval $(call from_sources,$(WASM_OBJECTS),$(EMCC) $(WASM_SHARED),emar))

# ---- The folder of static files. ----
WASM_LINK := $(WASM_SHARED) -sENVIRONMENT=web,worker -sFILESYSTEM=0 -sDYNAMIC_EXECUTION=0 -sALLOW_MEMORY_GROWTH=1 \
    -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=32MB -sEXPORTED_FUNCTIONS=_malloc,_free,_ll_text_free -Wno-pthreads-mem-growth
WASM_PARTS := $(WASM_OBJECTS)/wasm/web.o $(WASM_OBJECTS)/liblongline-lab.a $(WASM_OBJECTS)/liblongline.a $(WASM_OBJECTS)/libjansson.a
# The page is that of `longline serve` (PAGE), with a worker in place of the server.
WASM_FILES := index.html $(notdir $(wildcard wasm/*.css wasm/*.js)) page.css branches.js attention.js page.js LICENSES.txt
wasm: $(WASM)/longline.js $(WASM)/longline-threads.js $(WASM_FILES:%=$(WASM)/%)
	@echo "$(WASM) is made; python3 -m http.server -d $(WASM) shows it"
$(WASM)/index.html: $(PAGE)/page.html wasm/index.awk $(wildcard wasm/*.html)
	@mkdir -p $(@D)
	$(call run,page)awk -f wasm/index.awk $< >$@.new && mv $@.new $@
$(WASM)/LICENSES.txt: wasm/licences.sh LICENSE
	@mkdir -p $(@D)
	$(call run,text)sh $< $(SOURCES) >$@.new && mv $@.new $@
$(WASM)/%: wasm/%
	@mkdir -p $(@D) && cp $< $@
$(WASM)/%: $(PAGE)/%
	@mkdir -p $(@D) && cp $< $@
# Linked without threads, variables of a thread would lie at address 0 (LLVM 14). Files that have such variables are
# compiled for one thread once more, and come before the library.
WASM_ONE := $(patsubst %.c,$(WASM_OBJECTS)/one/%.o,$(shell grep -rl --include=*.c '^static _Thread_local' src $(WASM_LAB)))
$(WASM_OBJECTS)/one/%.o: %.c wasm-objects
	@mkdir -p $(@D)
	$(call run,emcc)$(WASM_CC) -std=c17 -D_GNU_SOURCE -Iinclude -Isrc -ffp-contract=off $(filter-out -pthread,$(WASM_SHARED)) -c $< -o $@
$(WASM)/longline.js: wasm-objects $(WASM_ONE)
	@mkdir -p $(@D)
	$(call run,emcc)$(EMCC) $(filter-out -pthread,$(WASM_LINK)) $(WASM_ONE) $(WASM_PARTS) -o $@
$(WASM)/longline-threads.js: wasm-objects
	@mkdir -p $(@D)
	$(call run,emcc)$(EMCC) $(WASM_LINK) -sPTHREAD_POOL_SIZE=Module.workers $(WASM_PARTS) -o $@
wasm-objects: $(WASM_OBJECTS)/libjansson.a
	+@$(WASM_MAKE) $(WASM_PARTS)

# ---- Tests. ----
WASM_TESTS ?= kernels quantize layer_kernels rotate products sinusoids random safetensors golden
wasm-programs: $(WASM_OBJECTS)/libcmocka.a wasm-objects
	+@$(WASM_MAKE) RESULTS=$(RESULTS) WRAP="node --no-experimental-fetch" TESTS="$(patsubst $(B)/%,$(WASM_OBJECTS)/%,$(call named,$(WASM_TESTS)))" tests
# Nothing without Emscripten: whoever has not asked for it (make deps-wasm) needs no browser's program.
wasm-check: $(B)/longline
	+@if which emcc node >/dev/null && [ -e $(SOURCES)/cmocka ]; then \
	    $(AGAIN) wasm && $(AGAIN) wasm-programs && tests/run.sh $(RESULTS) scripts $(B) tests/wasm/worker.sh tests/wasm/page.sh; \
	else echo "wasm: left out, no Emscripten, Node or sources here; make deps-wasm installs them"; \
	    echo "0 0 1 wasm" >>$(RESULTS); fi
.PHONY: deps-wasm wasm wasm-objects wasm-programs wasm-check
