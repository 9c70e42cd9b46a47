# `make demo` and `make test` set up what is missing, then do what they say; a second run only does
# what they say. `make help` lists the rest.

TANDEM := target/release/tandem
ENV := .venv/env
# Sourced before cargo: where cmake and libclang are, if the set-up had to bring its own.
CARGO := . ./$(ENV) && cargo

.PHONY: demo serve soak test test-cpus test-engines test-onnx-real check build models llama-server \
	onnxruntime bench bench-llama-server bench-onnx tiny-onnx help clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

demo: build models ## three answers: small alone, both together, large alone
	@scripts/demo.sh $(TANDEM)

serve: build models ## the API and the page, with the default pair; prints the address
	@$(TANDEM) serve

soak: build models ## ten thousand requests to the edge server, with the real small model; minutes
	@$(CARGO) test --release --workspace --test all -- --ignored --nocapture soak

test: build models llama-server onnxruntime ## every test, with real models; prints its counts
	@scripts/test.sh

test-cpus: build models llama-server onnxruntime ## the tests with other CPUs' kernels; half an hour and more
	@scripts/test_cpus.sh

test-engines: build models ## vLLM, SGLang, llama-server: each installed, started, tried, stopped
	@scripts/engines/test.sh $(TANDEM)

test-onnx-real: build models onnxruntime ## a model of onnxruntime-genai's builder, made and run
	@scripts/onnx/test_real.sh $(TANDEM)

check: $(ENV) ## formatting, clippy and docs, all warnings refused
	cargo fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	export RUSTDOCFLAGS="-D warnings"; $(CARGO) doc --release --workspace --no-deps --document-private-items

build: $(ENV)
	@$(CARGO) build --release --workspace

models: build
	@$(TANDEM) pull

llama-server: build models
	@scripts/engines/install.sh llama-server >/dev/null
	@scripts/engines/float32.sh $(TANDEM) smollm2-135m-instruct >/dev/null

onnxruntime: build
	@$(TANDEM) pull onnxruntime

tiny-onnx: ## make the tests' tiny ONNX models again
	$$(scripts/onnx/install.sh)/bin/python scripts/onnx/tiny_models.py crates/engine/tests/onnx_models crates/onnx/tests/graphs

bench: build models ## what this machine can do: engine, asks, modes
	$(TANDEM) bench edge
	$(TANDEM) bench ask --cloud-model smollm2-135m-instruct
	$(TANDEM) bench joint --max-tokens 128

bench-llama-server: build models ## the bare engine beside llama-server, in turn
	scripts/bench_llama_server.sh $(TANDEM)

bench-onnx: build models onnxruntime ## the ONNX engine beside a bare Python loop, in turn
	scripts/onnx/bench.sh $(TANDEM)

$(ENV): scripts/setup/setup.sh
	@scripts/setup/setup.sh

clean: ## remove what was built; models stay
	rm -rf target .venv
