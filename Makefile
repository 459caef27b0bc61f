# The few verbs of this project; `make help` lists them.

# Build results, tools and made test files live outside the checkout.
export QUAYFS_DEV_DIR ?= $(HOME)/.cache/quayfs-dev
export CARGO_TARGET_DIR ?= $(QUAYFS_DEV_DIR)/target
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help demo test test-long bench bench-peers lint build dist docs setup clean
.DEFAULT_GOAL := help

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: ## Mount a local folder as a bucket, copy a file in and out, unmount
	@scripts/demo

test: ## Every check and test, about as CI runs them
	@scripts/test

test-long: ## The tests with large files, and the suites in full
	@QUAYFS_LONG=1 scripts/test

bench: ## Speed against a plain client and against the local disk, as ratios
	@scripts/bench

bench-peers: ## Reads side by side with other file systems: over an hour
	@scripts/bench-peers

lint: ## Format and lints; licences and sources too where cargo-deny is installed
	@scripts/lint

build: ## The binary, optimised
	@scripts/setup build
	QUAYFS_BUILD_VERSION=$$(scripts/version) cargo build --release --locked -p quayfs-cli
	@echo built $(CARGO_TARGET_DIR)/release/quayfs

dist: ## The files of a release for amd64 and arm64: archives, packages, image, checksums
	@scripts/dist

docs: ## The documentation as a site
	@scripts/docs

setup: ## What the tests need, installed where it is missing
	@scripts/setup

clean: ## Build results away; tools and made files stay
	cargo clean
