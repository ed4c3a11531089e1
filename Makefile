# The commands of daily work; `make help` lists them. CMake presets do the building, scripts/ the rest.
JOBS ?= $(shell nproc)
PRESET ?= release
PYTHON := .venv/bin/python
STAMP := .venv/.setup-stamp
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup build quickstart test asan bench bundle format lint clean
.DEFAULT_GOAL := build

help:            ## this list
	@sed -n 's/^\([a-z]*\):.*##/  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup:           ## install what the project needs (system packages, .venv)
	@scripts/setup

$(STAMP): scripts/setup requirements.txt requirements-dev.txt requirements-nvcc.txt requirements-llm-test.txt
	@scripts/setup

build: $(STAMP)  ## the program, at build/musacoder
	@[ -f build/build.ninja ] || cmake --preset $(PRESET)
	@cmake --build build -j $(JOBS)

quickstart: build  ## judge twelve tasks and show the report
	@scripts/quickstart

test: build      ## all fast tests, and the parsers under the sanitizers
	@scripts/test

asan: $(STAMP)   ## only the sanitizer part of `make test`
	@scripts/test asan

bench: build     ## measure; results are printed and nothing is asserted
	@scripts/bench

bundle: build    ## portable archive in dist/
	@scripts/bundle

format: $(STAMP) ## clang-format and ruff over the tree
	@scripts/format

lint: $(STAMP)   ## ruff, format check, clang-tidy on changed files
	@scripts/lint

clean:           ## remove the build folders
	rm -rf build build-* dist
