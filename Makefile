# `make demo` and `make test` set up what is missing, then do what they say; a second run only does
# what they say. `make help` lists the rest.

TANDEM := target/release/tandem
ENV := .venv/env
# Sourced before cargo: where cmake and libclang are, if the set-up had to bring its own.
CARGO := . ./$(ENV) && cargo

.PHONY: demo device serve soak chaos load fuzz test test-short test-fresh test-cpus test-vulkan test-engines test-clients test-otel test-onnx-real test-mutations check deny lock pictures build wheel bindings \
	dist bench-dist test-dist test-container install models llama-server onnxruntime bench \
	bench-llama-server bench-onnx tiny-onnx lint-workflows help clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

demo: device ## two questions, each answered by small alone, both together, large alone
	@$(TANDEM) pull || $(TANDEM) pull --pair tiny
	@$(TANDEM) demo

device: $(ENV) ## the program without the workshop, as a device runs it (docs/build.md)
	@$(CARGO) build --release --package tandem-cli --no-default-features

serve: build models ## the API and the page, with the default pair; prints the address
	@$(TANDEM) serve

soak: build models ## ten thousand requests to the edge server, with the real small model; minutes
	@$(CARGO) test --release --workspace --test it -- --ignored --nocapture soak

chaos: build models llama-server ## ten thousand texts while clouds and servers fail: TANDEM_SEED, TANDEM_GENERATIONS; minutes
	@scripts/chaos.sh

load: build models llama-server ## two hundred edges and one cloud, with the real small model; minutes
	@$(CARGO) test --release --workspace --exclude tandem-python --test it -- --ignored --nocapture load::

fuzz: $(ENV) ## a short round of every fuzz target: FUZZ_SECONDS, with a nightly toolchain
	@scripts/fuzz.sh "$(or $(FUZZ_SECONDS),20)"

test: build models llama-server onnxruntime ## every test, with real models; prints its counts
	@scripts/test.sh

test-short: build models ## a few minutes of it: the loop's properties, and the program with real models
	@scripts/test.sh short

test-fresh: ## the README's commands on four machines with nothing on them (root; half an hour)
	@scripts/rooms/fresh.sh

test-vulkan: build models ## a build for Vulkan on a driver without a GPU (root; a quarter of an hour)
	@scripts/rooms/vulkan.sh

test-cpus: build models onnxruntime ## tests with other CPUs' kernels, by the program of make dist; a quarter of an hour
	@scripts/test_cpus.sh

test-engines: build models ## vLLM, SGLang, llama-server: each installed, started, tried, stopped
	@scripts/engines/test.sh $(TANDEM)

test-clients: build models ## LlamaIndex, lm-evaluation-harness, aider, Open WebUI: each installed, tried
	@scripts/clients/applications.sh $(TANDEM)

test-otel: build models ## the build with traces: one request through edge and cloud, and a collector
	@$(CARGO) clippy --release --package tandem-cli --features otel --all-targets -- -D warnings
	@$(CARGO) test --release --package tandem-cli --features otel --test otel

test-onnx-real: build models onnxruntime ## a model of onnxruntime-genai's builder, made and run
	@scripts/onnx/test_real.sh $(TANDEM)

test-mutations: models ## the code is broken in one place after another, and its tests must fail; half an hour
	@. ./$(ENV) && scripts/mutations.py

check: $(ENV) ## formatting, clippy and docs, all warnings refused; files and pictures of the documentation; deny
	scripts/check_docs.py
	scripts/pictures/draw.sh --check
	cargo fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --package tandem-cli --no-default-features -- -D warnings
	scripts/check_device.sh
	export RUSTDOCFLAGS="-D warnings"; $(CARGO) doc --release --workspace --no-deps --document-private-items
	scripts/deny.sh

deny: ## a part of check: licences, sources and known faults of the dependencies; minutes the first time
	@scripts/deny.sh

lock: ## the Python packages of tests and tools anew, with their hashes, from scripts/**/*.in
	@scripts/lock.sh

pictures: ## draw the README's pictures again, from the answers and figures that are committed
	@scripts/pictures/draw.sh

lint-workflows: ## actionlint over the workflows
	@scripts/release/lint_workflows.sh

build: $(ENV)
	@$(CARGO) build --release --workspace --exclude tandem-python

wheel: build ## the Python package for this machine; prints where it is
	@scripts/python/wheel.sh $(TANDEM)

bindings: $(ENV)
	@$(CARGO) build --release --package llama-cpp-sys-2

dist: ## what a person downloads, for any machine of this architecture: dist/ (root)
	@scripts/dist/build.sh

bench-dist: build models ## the program of make dist beside the one built for this CPU, in turn
	@scripts/dist/bench.sh $(TANDEM)

test-dist: ## what make dist made: other CPUs, plain distributions, damaged files
	@scripts/dist/test.sh

install: ## under PREFIX (default /usr/local): what make dist made, else this build
	@scripts/dist/install.sh "$(or $(PREFIX),/usr/local)"

models: build
	@$(TANDEM) pull --pair all

llama-server: build models
	@scripts/engines/install.sh llama-server >/dev/null
	@scripts/engines/float32.sh $(TANDEM) smollm2-135m-instruct >/dev/null

onnxruntime: build
	@$(TANDEM) pull onnxruntime

tiny-onnx: ## make the tests' tiny ONNX models again
	$$(scripts/onnx/install.sh)/bin/python scripts/onnx/tiny_models.py crates/engine/tests/onnx_models crates/onnx/tests/graphs

test-container: ## build the image from dist's archive and use it: root, buildah, podman
	@scripts/release/test_container.sh dist/tandem-$$(scripts/release/version.sh)-$$(uname -m)-linux.tar.gz

bench: build models ## what this machine can do: engine, asks, modes
	$(TANDEM) bench edge
	$(TANDEM) bench ask --cloud-model smollm2-135m-instruct
	$(TANDEM) bench joint --max-tokens 128

bench-llama-server: build models ## the bare engine beside llama-server, in turn
	scripts/bench_llama_server.sh $(TANDEM)

bench-onnx: build models onnxruntime ## the ONNX engine beside a bare Python loop, in turn
	scripts/onnx/bench.sh $(TANDEM)

$(ENV): scripts/setup/setup.sh scripts/setup/libclang.py
	@scripts/setup/setup.sh

clean: ## remove what was built; models stay
	rm -rf target .venv
