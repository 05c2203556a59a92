.DEFAULT_GOAL := help
SHELL := /bin/bash

GOLANGCI_LINT_VERSION := v2.12.0
GOVULNCHECK_VERSION := v1.9.0
ACTIONLINT_VERSION := v1.7.12

# Empty: Go tells the version from git.
VERSION :=
STAMP = $(if $(VERSION),-X github.com/payonce/payonce/internal/version.stamp=$(VERSION))

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start database, PSP simulator and server, and print a curl line to try
	@scripts/run.sh

.PHONY: demo
demo: ## Show in a minute what happens without the guard, and with it
	@scripts/run.sh demo

.PHONY: test
test: ## Run all tests, with the race detector, on whatever PostgreSQL there is
	@scripts/install-test-needs.sh
	go test -race -timeout 20m ./...

.PHONY: test-docker
test-docker: ## Run all tests against PostgreSQL in Docker
	@scripts/install-test-needs.sh
	PAYONCE_TEST_SOURCE=docker go test -race -timeout 20m -count=1 ./...

.PHONY: chaos
chaos: ## Break everything for minutes and judge whether anybody paid twice (CHAOS="--seed 7 --failover synchronous")
	@scripts/install-test-needs.sh
	go run ./internal/chaos/run $(CHAOS)

.PHONY: snapshot
snapshot: ## Copy sql/ into the migrations
	scripts/snapshot.sh

.PHONY: fmt
fmt: ## Format the Go code
	gofmt -w .

.PHONY: lint
lint: ## Check format, go vet, golangci-lint and the GitHub workflow
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	@scripts/golangci-lint.sh $(GOLANGCI_LINT_VERSION) run ./...
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION) .github/workflows/*.yml

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what the programs call
	@scripts/vuln.sh $(GOVULNCHECK_VERSION) ./cmd/...

.PHONY: build
build: ## Build the programs into bin/; VERSION=v1.2.3 names the release
	go build -trimpath -ldflags "$(STAMP)" -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container image payonce; VERSION=v1.2.3 names the release
	mkdir -p bin/image/data
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w $(STAMP)" -o bin/image/ ./cmd/...
	docker build --tag payonce$(if $(VERSION),:$(VERSION)) .

.PHONY: up
up: image ## Start PostgreSQL, simulator and server in containers; docs/deploy.md goes on from there
	scripts/compose.sh up --detach --build

.PHONY: down
down: ## Remove what `make up` started, data included
	scripts/compose.sh down --volumes

.PHONY: quickstart
quickstart: ## Run the README's quick start from a clean clone and compare
	scripts/quickstart-check.sh

.PHONY: bench
bench: ## Measure what the guard costs, in ten minutes, and write docs/benchmarks.md
	@scripts/install-test-needs.sh
	go run ./bench run --scale 0.85 --out bench/results
	go run ./bench render

.PHONY: bench-quick
bench-quick: ## Run the whole benchmark in a minute; fails on wrong answers and absurd ratios
	@scripts/install-test-needs.sh
	go run ./bench quick
