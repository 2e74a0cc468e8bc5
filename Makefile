# gpupool: one library, its simulated driver, its tests.
#
#   make             the library and everything that runs without a card
#   make demo        build and show it at work (on a card, else simulated)
#   make deps test   install what the tests need, then run them
#   make help        all targets and settings

CC        ?= cc
CUDA_HOME ?= /usr/local/cuda
PREFIX    ?= /usr/local
PYTHON    ?= python3
SAN       ?=
# Sanitized code does not get much faster for what the compiler spends on it.
OPT       ?= $(if $(SAN),-O1,-O2)

# One build tree a sanitizer, so that they never mix.
B := build$(if $(SAN),/san-$(SAN))

# TSan does not model fences; the ones here order no plain data.
comma := ,
# AddressSanitizer's builds look for undefined behaviour, too.
SANITIZE := $(if $(SAN),-fsanitize=$(SAN:address=address$(comma)undefined) \
	 -fno-sanitize-recover=all)
SAN_WARN := $(if $(filter thread,$(SAN)),-Wno-unknown-warning-option -Wno-tsan)

WARN  := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	 -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla
CFLAGS_ALL := -std=gnu11 $(OPT) -g -fPIC -fvisibility=hidden \
	 -fno-strict-aliasing -fno-omit-frame-pointer $(WARN) -I. \
	 $(SANITIZE) $(SAN_WARN) \
	 $(if $(DEBUG),-DGP_DEBUG) $(CFLAGS)
LIB_CFLAGS := -ftls-model=initial-exec
LDFLAGS_ALL := $(SANITIZE) $(LDFLAGS)

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

# ---- what there is -----------------------------------------------------

CORE_SRC  := $(wildcard pool/*.c stats/*.c conf/*.c)
SHIM_SRC  := $(wildcard shim/*.c)
SHIM_ASM  := $(wildcard shim/*.S)
SIM_SRC   := $(wildcard tests/sim/*.c)
SIM_ASM   := $(wildcard tests/sim/*.S)
NVML_SRC  := $(wildcard tests/sim/nvml/*.c)
RT_SRC    := $(wildcard tests/sim/cudart/*.c)
REPLAY_SRC := $(wildcard pool/replay/*.c)
UNIT_SRC  := $(wildcard tests/unit/*.c)
PROG_SRC  := $(wildcard tests/programs/*.c)
FUZZ_SRC  := $(wildcard tests/fuzz/*.c)
ORDER_SRC := $(wildcard tests/order/*.c)
CONFORM_SRC := $(wildcard tests/conformance/*.c)
SOAK_SRC  := $(wildcard tests/soak/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
EX_SRC    := $(wildcard tests/examples/*.c)

obj = $(patsubst %,$(B)/obj/%.o,$(1))

LIB    := $(B)/libgpupool.so
CORE   := $(B)/libgpupool-core.a
SIM    := $(B)/sim/libcuda.so.1
RT     := $(B)/sim/libcudart.so.13
NVML   := $(B)/sim/libnvidia-ml.so.1
RT_A   := $(B)/sim/libcudart_static.a
REPLAY_LIB := $(B)/libgpupool-replay.a
REPLAY := $(if $(REPLAY_SRC),$(B)/gpupool-replay)
CONF_DOC := $(B)/gpupool-conf
EXAMPLES := $(patsubst tests/examples/%.c,$(B)/examples/%,$(EX_SRC))
UNITS  := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(UNIT_SRC))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(FUZZ_SRC))
ORDER_FUZZ := $(B)/tests/order-fuzz
CONFORMANCE := $(B)/tests/conformance
SOAK   := $(B)/tests/soak
MUTANT := $(B)/mut/libgpupool.so
BENCHES := $(patsubst tests/bench/%.c,$(B)/tests/bench/%,$(BENCH_SRC))
# rt_*: runtime API, built with shared and static cudart. Others: as named.
PROGS  := $(patsubst tests/programs/%.c,$(B)/tests/programs/%,$(PROG_SRC)) \
	  $(patsubst tests/programs/rt_%.c,$(B)/tests/programs/rt_%-static,$(filter tests/programs/rt_%,$(PROG_SRC)))

.PHONY: all programs docs deps demo test bench fuzz soak lint gpu-test gpu-bench install uninstall libfuzzer clean help format headers work-table readme
all: $(LIB) $(SIM) $(NVML) $(RT) $(RT_A) $(REPLAY) $(EXAMPLES) $(CONF_DOC)

programs: all $(PROGS)

help:
	@echo 'make               library, simulated driver, replay, examples'
	@echo 'make demo          an unmodified example, plain and preloaded'
	@echo 'make deps          install what the tests need (apt, as root)'
	@echo 'make test          all tests; no card needed'
	@echo 'make programs      what make makes, and the programs that tests run'
	@echo 'make AGAIN=1 test  what failed runs once more, alone; see tests/run.py --help'
	@echo 'make SAN=address test      the same under ASan and UBSan (or SAN=undefined)'
	@echo 'make SAN=thread test              units and fuzzers with threads, under TSan'
	@echo 'make bench [TRACES=DIR]           timings, build/bench.json'
	@echo 'make fuzz          longer random runs'
	@echo 'make soak [SECONDS=1800] [SEED=N] random calls and kills on simulated cards'
	@echo 'make libfuzzer     build/libfuzzer/conf-fuzz, with clang'
	@echo 'make docs          man page and completions, in build/share/'
	@echo 'make readme        the configuration table in the README'
	@echo 'make lint          clang-format, clang-tidy, cppcheck'
	@echo 'make work-table    the hooks of new cuda.h entry points'
	@echo 'make gpu-test      programs on a real card, plain and preloaded'
	@echo 'make gpu-bench     timings on a real card'
	@echo 'make format        clang-format over the sources'
	@echo 'make install       PREFIX=/usr/local'
	@echo 'make uninstall     removes what install put there'
	@echo 'make clean         removes build/'
	@echo 'settings           CC CUDA_HOME PREFIX PYTHON SAN V=1 DEBUG=1'

# ---- CUDA headers (no CUDA library is ever linked) ----------------------

CUDA_INC := $(CUDA_HOME)/include
ifeq ($(wildcard $(CUDA_INC)/cuda.h),)
headers:
	@echo 'gpupool: no cuda.h in $(CUDA_INC); install the CUDA Toolkit headers (Debian, Ubuntu: cuda-cudart-dev-13-0 or nvidia-cuda-dev) or set CUDA_HOME' >&2; exit 1
else
headers:
endif
CUDA_VERSION := $(shell sed -n 's/^\#define CUDA_VERSION //p' $(CUDA_INC)/cuda.h 2>/dev/null)

# ---- objects -------------------------------------------------------------

$(B)/obj/shim/%.c.o $(B)/obj/tests/sim/%.c.o $(B)/obj/tests/programs/%.c.o $(B)/obj/tests/conformance/%.c.o $(B)/obj/tests/soak/%.c.o $(B)/obj/tests/unit/test_captures.c.o $(B)/obj/tests/unit/test_events.c.o $(B)/obj/tests/unit/test_graph_memory.c.o $(B)/obj/tests/order/%.c.o $(B)/obj/tests/order/caller/%.c.o $(B)/obj/tests/examples/%.c.o: EXTRA = -isystem $(CUDA_INC)
$(B)/obj/shim/%.c.o $(B)/obj/pool/%.c.o $(B)/obj/stats/%.c.o $(B)/obj/conf/%.c.o: EXTRA += $(LIB_CFLAGS)

$(B)/obj/%.c.o: %.c | headers
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(EXTRA) -MMD -MP -c -o $@ $<

$(B)/obj/%.S.o: %.S
	$(say) AS $<
	@mkdir -p $(@D)
	$(Q)$(CC) -g -fPIC -I. -DCUDA_VERSION=$(CUDA_VERSION) -MMD -MP -c -o $@ $<

# ---- the library -----------------------------------------------------------

# The export map comes from the hook table: a row is an export.
$(B)/exports.map: shim/exports.map.in shim/hooks.def shim/work.def Makefile | headers
	$(say) GEN $@
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -x c -I. $(filter -D%,$(CFLAGS)) -DCUDA_VERSION=$(CUDA_VERSION) -o $@ $<

# From the newest header; what older ones lack is left out by its version.
work-table: | headers
	$(Q)$(PYTHON) shim/work_table.py --include $(CUDA_INC) --cc "$(CC)"

# GP_NODEFS: sanitizer runtimes are resolved at load time.
$(LIB): $(call obj,$(SHIM_SRC) $(SHIM_ASM) $(CORE_SRC)) $(B)/exports.map
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libgpupool.so \
		-Wl,--version-script=$(B)/exports.map -Wl,-Bsymbolic \
		$(if $(SAN),,-Wl,-z,defs) -Wl,-z,now -Wl,-z,relro -Wl,--as-needed \
		-o $@ $(filter %.o,$^) -ldl -lpthread

$(CORE): $(call obj,$(CORE_SRC))
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

# ---- simulated driver and runtime ----------------------------------------

$(SIM): $(call obj,$(SIM_SRC) $(SIM_ASM))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcuda.so.1 \
		-o $@ $^ -ldl -lpthread
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so

$(NVML): $(call obj,$(NVML_SRC))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $^ -ldl
	$(Q)ln -sf libnvidia-ml.so.1 $(@D)/libnvidia-ml.so

$(RT): $(call obj,$(RT_SRC))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcudart.so.13 -Wl,-Bsymbolic \
		$(if $(wildcard tests/sim/cudart/exports.map),-Xlinker --version-script=tests/sim/cudart/exports.map) \
		-o $@ $^ -ldl -lpthread
	$(Q)ln -sf libcudart.so.13 $(@D)/libcudart.so

$(RT_A): $(call obj,$(RT_SRC))
	$(say) AR $@
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^

# ---- programs --------------------------------------------------------------

$(B)/examples/%: $(B)/obj/tests/examples/%.c.o $(RT) $(SIM)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -L$(B)/sim -lcudart -lpthread

$(B)/tests/programs/rt_%-static: $(B)/obj/tests/programs/rt_%.c.o $(RT_A) $(SIM)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(RT_A) -L$(B)/sim -Wl,--as-needed -lcuda -ldl -lpthread

$(B)/tests/programs/%: $(B)/obj/tests/programs/%.c.o $(RT) $(SIM) $(NVML)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -L$(B)/sim -Wl,--as-needed -lcudart -lcuda -lnvidia-ml -ldl -lpthread

$(CONFORMANCE): $(call obj,$(CONFORM_SRC)) $(RT) $(SIM)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) -L$(B)/sim -lcudart -lcuda -lpthread

$(SOAK): $(call obj,$(SOAK_SRC)) $(RT) $(SIM)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) -L$(B)/sim -lcudart -lcuda -lpthread

$(B)/tests/unit/test_replay_%: $(B)/obj/tests/unit/test_replay_%.c.o $(REPLAY_LIB) $(CORE)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(REPLAY_LIB) $(CORE) -lcmocka -ldl -lpthread -lm

$(B)/tests/unit/%: $(B)/obj/tests/unit/%.c.o $(CORE) $(call obj,$(wildcard tests/support/*.c))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(CORE) -lcmocka -ldl -lpthread -lm

$(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.c.o $(CORE) $(call obj,$(wildcard tests/support/*.c))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(CORE) -ldl -lpthread -lm

$(B)/tests/bench/%: $(B)/obj/tests/bench/%.c.o $(REPLAY_LIB) $(CORE)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(REPLAY_LIB) $(CORE) -ldl -lpthread -lm

# The library with clauses of its protocol that can be switched off. Its
# objects are apart, so that none of this is in the other.
$(MUTANT): $(LIB)
	$(Q)$(MAKE) --no-print-directory B=$(B)/mut CFLAGS='$(CFLAGS) -DGP_MUTATIONS' $@

# Its name makes the library take it for one that orders its own streams.
$(B)/tests/librmm-order.so: $(call obj,tests/order/caller/caller.c) $(SIM)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $< -L$(B)/sim -lcuda

$(ORDER_FUZZ): $(call obj,$(ORDER_SRC)) $(B)/tests/librmm-order.so $(SIM) | $(MUTANT)
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -rdynamic -o $@ $(filter %.o,$^) $(B)/tests/librmm-order.so -L$(B)/sim -Wl,-rpath,'$$ORIGIN/../sim:$$ORIGIN' -lcuda -ldl -lpthread

# The fuzzer of the settings under libFuzzer, and words for it to start from.
LIBFUZZER := $(B)/libfuzzer/conf-fuzz
CLANG ?= clang
libfuzzer: $(LIBFUZZER)
$(LIBFUZZER): tests/fuzz/conf-fuzz.c $(wildcard conf/*.c conf/*.h) conf/options.def
	$(say) CLANG $@
	@mkdir -p $(@D)
	$(Q)sed -n 's/^GP_[A-Z]*(\([a-z0-9_]*\),.*/"\1:"/p' conf/options.def >$@.dict
	$(Q)$(CLANG) -std=gnu11 -O1 -g -I. -DGP_LIBFUZZER -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $< $(wildcard conf/*.c)

# What the replay is made of, for its units and the benchmarks.
$(REPLAY_LIB): $(call obj,$(filter-out %/main.c,$(REPLAY_SRC)))
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/gpupool-replay: $(call obj,$(filter %/main.c,$(REPLAY_SRC))) $(REPLAY_LIB) $(CORE)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(REPLAY_LIB) $(CORE) -ldl -lpthread -lm

# Prints the table of conf/options.def, and what the settings are read as.
$(CONF_DOC): $(call obj,$(wildcard conf/doc/*.c)) $(CORE)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(CORE)

# ---- targets -----------------------------------------------------------------

deps:
	$(Q)sh tests/deps.sh

# TSan does not survive an exported dlsym, so SAN=thread runs what is linked,
# not what is preloaded; and of that what starts threads, as it has nothing to
# say of the rest.
ifeq ($(SAN),thread)
THREADED := $(shell grep -lE 'pthread_create|order_random\.h' $(UNIT_SRC) $(FUZZ_SRC))
TESTED := $(filter $(THREADED:%.c=$(B)/%),$(UNITS) $(FUZZERS))
else
TESTED := $(UNITS) $(FUZZERS) all $(PROGS) $(CONFORMANCE) $(if $(SAN),,$(SOAK) $(ORDER_FUZZ))
endif
RUN_TESTS = $(PYTHON) tests/run.py --build $(B) $(if $(SAN),--san $(SAN)) $(if $(AGAIN),--again)
test: $(TESTED)
	$(Q)$(RUN_TESTS) $(TESTS)

demo: all
	$(Q)$(PYTHON) tests/demo.py --build $(B)

bench: all $(BENCHES) $(B)/tests/programs/drv_script
	$(Q)$(PYTHON) tests/bench/run.py --build $(B) $(if $(TRACES),--traces $(TRACES))

fuzz: $(FUZZERS) $(if $(filter thread,$(SAN)),,all $(PROGS) $(CONFORMANCE)) $(if $(SAN),,$(ORDER_FUZZ))
	$(Q)$(PYTHON) tests/run.py --build $(B) $(if $(SAN),--san $(SAN)) --fuzz-long

SECONDS ?= 1800
soak: all $(SOAK)
	$(Q)$(PYTHON) tests/soak.py --build $(B) $(if $(SAN),--san $(SAN)) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

gpu-test: all
	$(Q)$(PYTHON) tests/gpu/run.py --build $(B)

gpu-bench: all $(BENCHES)
	$(Q)$(PYTHON) tests/gpu/bench.py --build $(B)

LINT_SRC = $(CORE_SRC) $(wildcard conf/doc/*.c) $(SHIM_SRC) $(SIM_SRC) $(NVML_SRC) $(RT_SRC) $(REPLAY_SRC) $(UNIT_SRC) $(PROG_SRC) $(FUZZ_SRC) $(ORDER_SRC) $(CONFORM_SRC) $(SOAK_SRC) $(BENCH_SRC) $(EX_SRC) $(wildcard tests/support/*.c)
LINT_HDR = $(wildcard */*.h */*/*.h)
lint:
	clang-format --dry-run -Werror $(LINT_SRC) $(LINT_HDR)
	clang-tidy --quiet $(CORE_SRC) $(SHIM_SRC) $(REPLAY_SRC) -- -std=gnu11 -I. -isystem $(CUDA_INC)
	cppcheck --quiet --error-exitcode=1 --inline-suppr --enable=warning,performance,portability -I. $(CORE_SRC) $(SHIM_SRC) $(REPLAY_SRC)

# The README's configuration table anew, after a change of conf/options.def.
readme: $(CONF_DOC)
	$(Q)$(PYTHON) tests/readme_table.py --write $(CONF_DOC)

# Man page and completions come from what the commands' --help says.
DOCS := $(B)/share/gpupool.1
docs: $(DOCS)
$(DOCS): $(wildcard scripts/*.py) $(CONF_DOC)
	$(say) GEN $@
	$(Q)$(PYTHON) scripts/gpupool_docs.py --to $(@D) --conf-tool $(CONF_DOC)

format:
	clang-format -i $(LINT_SRC) $(LINT_HDR)

# A running program keeps the old file: the library is replaced by rename.
# The linker's cache is asked whether LD_PRELOAD finds the bare name.
# `import gpupool` works where this Python looks into PREFIX; for others there
# is PYTHONPATH=PREFIX/lib/gpupool.
TO = $(DESTDIR)$(PREFIX)
PYTHON_DIR = $(shell $(PYTHON) -c 'import site, sys, sysconfig; \
	prefix = sys.argv[1].rstrip("/") + "/"; \
	found = [d for d in site.getsitepackages() if d.startswith(prefix)]; \
	print(found[0] if found else prefix + "lib/python%s/site-packages" \
	% sysconfig.get_python_version())' '$(PREFIX)')
SHARE_DIRS := man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d
install: $(LIB) $(REPLAY) $(CONF_DOC) $(DOCS)
	$(say) INSTALL '$(TO)/lib/libgpupool.so'
	$(Q)mkdir -p '$(TO)/lib/gpupool' '$(TO)/bin'
	$(Q)install -m 755 $(LIB) '$(TO)/lib/.libgpupool.so.new'
	$(Q)mv -f '$(TO)/lib/.libgpupool.so.new' '$(TO)/lib/libgpupool.so'
	$(if $(REPLAY),$(say) INSTALL '$(TO)/bin/gpupool-replay')
	$(if $(REPLAY),$(Q)install -m 755 $(REPLAY) '$(TO)/bin/')
	$(say) INSTALL '$(TO)/bin/gpupool'
	$(Q)install -m 644 scripts/*.py stats/report.schema.json '$(TO)/lib/gpupool/'
	$(Q)mkdir -p '$(TO)/lib/gpupool/html'
	$(Q)install -m 644 scripts/html/* '$(TO)/lib/gpupool/html/'
	$(Q)install -m 755 $(CONF_DOC) '$(TO)/lib/gpupool/'
	$(Q)install -m 755 scripts/gpupool '$(TO)/bin/gpupool'
	$(say) INSTALL '$(TO)/share/man/man1/gpupool.1'
	$(Q)mkdir -p $(addprefix '$(TO)/share/,$(addsuffix ',$(SHARE_DIRS)))
	$(Q)install -m 644 $(DOCS) '$(TO)/share/man/man1/'
	$(Q)install -m 644 $(B)/share/gpupool.bash '$(TO)/share/bash-completion/completions/gpupool'
	$(Q)install -m 644 $(B)/share/_gpupool '$(TO)/share/zsh/site-functions/'
	$(Q)install -m 644 $(B)/share/gpupool.fish '$(TO)/share/fish/vendor_completions.d/'
	$(say) INSTALL '$(TO)/include/gpupool.h'
	$(Q)mkdir -p '$(TO)/include' '$(DESTDIR)$(PYTHON_DIR)'
	$(Q)install -m 644 shim/gpupool.h '$(TO)/include/'
	$(say) INSTALL '$(DESTDIR)$(PYTHON_DIR)/gpupool.py'
	$(Q)install -m 644 scripts/gpupool.py '$(DESTDIR)$(PYTHON_DIR)/'
	$(if $(DESTDIR),,$(Q)ldconfig 2>/dev/null; \
		found=$$(ldconfig -p 2>/dev/null | sed -n 's/.*libgpupool\.so .*=> //p' | head -n 1); \
		test "$$found" -ef '$(TO)/lib/libgpupool.so' || \
		echo 'gpupool: the linker does not look there (or ldconfig needs root): give LD_PRELOAD the full path' >&2)

# A running program keeps the library until it ends.
uninstall:
	$(say) REMOVE '$(TO)/lib/libgpupool.so'
	$(Q)rm -f '$(TO)/lib/libgpupool.so' '$(TO)/bin/gpupool' '$(TO)/bin/gpupool-replay'
	$(Q)rm -f '$(TO)/share/man/man1/gpupool.1' '$(TO)/share/bash-completion/completions/gpupool'
	$(Q)rm -f '$(TO)/share/zsh/site-functions/_gpupool' '$(TO)/share/fish/vendor_completions.d/gpupool.fish'
	$(Q)rm -f '$(TO)/include/gpupool.h' '$(DESTDIR)$(PYTHON_DIR)/gpupool.py'
	$(Q)rm -rf '$(TO)/lib/gpupool'
	$(if $(DESTDIR),,$(Q)ldconfig 2>/dev/null || true)

clean:
	rm -rf build

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
