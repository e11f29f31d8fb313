# Usher's targets. `make` alone prints them.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools and the lab's programs live in caches outside the tree, so that `git clean` costs nothing.
TOOLS          := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/usher-tools
GOLANGCI_LINT  := $(TOOLS)/golangci-lint-v2.15.0/golangci-lint
GOTESTSUM      := $(TOOLS)/gotestsum-v1.13.0/gotestsum
CONTROLLER_GEN := $(TOOLS)/controller-gen-v0.23.0/controller-gen

LAB := go run -C lab ./cmd/lab

# The image that `make image` builds, its name and the architecture of the nodes (this machine's). RELEASE is stamped into the
# program, together with the image's name.
IMAGE    = localhost/usher:$(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
ARCH    ?=
RELEASE ?=
STAMPS   = $(if $(RELEASE),-X usher.sh/usher/internal/cli.stamped=$(RELEASE) -X usher.sh/usher/internal/cli.releaseImage=$(IMAGE))

# The oldest Kubernetes that usher install accepts, and one in between; make test has the newest. They are pinned in lab/versions.
OLDER_KUBERNETES := 1.33 1.30

# The programs of a real FoundationDB, which some tests run where they are there. .ci/run unpacks them.
export FDB_BIN ?= $(lastword $(wildcard $(TOOLS)/foundationdb-*/bin))

# Real nodes need root, so only root's tests need their programs.
TEST_BINARIES := $(if $(filter 0,$(shell id -u)),--real)

.PHONY: help build image test test-all lint generate lab lab-up lab-down demo demo-real bench bench-drain bench-maintenance bench-etcd bench-webhook bench-pressure bench-scale bench-replacement bench-memberset bench-openstack bench-notices fuzz properties sim test-kubelet mutations clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/usher, and bin/kubectl-usher as a link to it
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(STAMPS)" -o bin/usher ./cmd/usher
	ln -sf usher bin/kubectl-usher

image: ## build bin/usher-image.tar, an image called IMAGE for nodes of ARCH; without Docker
	go run -C lab ./image/cmd/usher-image -name "$(IMAGE)" -arch "$(ARCH)" -release "$(RELEASE)" -o $(CURDIR)/bin/usher-image.tar

test: $(GOTESTSUM) ## run all tests of all modules, on a real control plane where they need one
	$(LAB) build $(TEST_BINARIES)
	GOTESTSUM=$(GOTESTSUM) hack/test

test-all: export EVERYTHING := 1
test-all: test ## make test, and what takes long: older Kubernetes, more properties and histories with new seeds, the kubelet's code; two hours
	GOTESTSUM=$(GOTESTSUM) hack/test-versions $(OLDER_KUBERNETES)
	hack/properties 5000
	FIRST=new hack/sim 10000
	$(MAKE) test-kubelet

lint: $(GOLANGCI_LINT) ## check all modules with the pinned linters
	$(GOLANGCI_LINT) run ./...
	cd lab && $(GOLANGCI_LINT) run ./...
	cd test/kubelet && $(GOLANGCI_LINT) run ./...

generate: $(GOLANGCI_LINT) $(CONTROLLER_GEN) ## write what is generated, format, tidy; CI fails when that changes anything
	$(CONTROLLER_GEN) object paths=./api/v1alpha1
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1 output:crd:dir=config/crd
	$(CONTROLLER_GEN) rbac:roleName=usher-manager paths=./internal/... output:rbac:dir=config/rbac
	go run ./hack/rolesdoc > docs/roles.md
	go test ./cmd/usher-demo -count 1 -run '^TestPicture$$' -update
	$(GOLANGCI_LINT) fmt ./...
	cd lab && $(GOLANGCI_LINT) fmt ./...
	cd test/kubelet && $(GOLANGCI_LINT) fmt ./...
	go mod tidy
	cd lab && go mod tidy
	cd test/kubelet && go mod tidy

lab: ## build the lab's programs (etcd, Kubernetes, kwok) into the cache; minutes at first, then nothing
	$(LAB) build

lab-up: lab ## start a lab and say how to use it; UP="--nodes 6 --zones 3" and the like
	$(LAB) up $(UP)

lab-down: ## end the lab that lab-up started
	$(LAB) down $(DOWN)

demo: export USHER_DEMO_BEGAN := $(shell date +%s.%N)
demo: ## drain a node of a simulated shop, as usher and as kubectl do, side by side
	go run ./cmd/usher-demo

demo-real: lab build ## drain a node of a small shop on a real control plane
	go run -C lab ./demo $(CURDIR)/bin/usher

bench: ## time the plan of a drain on 5,000 nodes and 150,000 pods
	go test -run '^$$' -bench . -benchmem ./internal/...

bench-drain: lab build ## drain the same nodes with kubectl and with usher, and compare
	go run -C lab ./bench $(CURDIR)/bin/usher

bench-maintenance: lab build ## drain the same nodes with usher and by NodeMaintenances, and single replicas with kubectl and a policy
	go run -C lab ./bench maintenance $(CURDIR)/bin/usher

bench-etcd: ## drain real nodes under a real etcd with kubectl alone and with usher, with budgets and without; needs root
	$(LAB) build --real
	go test -C lab ./realetcd -count 1 -timeout 30m -v -run TestRealEtcd -budget -fsync -rounds $(or $(ROUNDS),3)

bench-webhook: lab build ## time the answers of admission, and weigh the manager in a cluster of 1,000 nodes
	go run -C lab ./benchwebhook $(CURDIR)/bin/usher

bench-pressure: ## bring real nodes into trouble, with the kubelet alone and with the agent, and weigh the agent; needs root
	$(LAB) build --real
	go test -C lab ./pressure -count 1 -timeout 60m -v -run TestLoads -bench AtRest -benchtime 1x -alone -rounds $(or $(ROUNDS),3)

bench-scale: lab build ## run commands in a small cluster and in one of 1,000 nodes and 20,000 pods, with kubectl beside them
	go run -C lab ./benchscale $(CURDIR)/bin/usher

bench-replacement: ## lose a real node with the only copy of an etcd member's data, and time until the member is replaced; needs root
	go test ./internal/replacement -run '^$$' -bench '^BenchmarkManyMembers$$'
	$(LAB) build --real
	go test -C lab ./realetcd -count 1 -timeout 30m -v -run '^TestLostNode$$' -figures -fsync

bench-memberset: lab build ## have MemberSets run a real etcd and a real FoundationDB (FDB_BIN) on real nodes, and time what happens to them; needs root
	go test ./internal/memberset -run '^$$' -bench '^BenchmarkManySets$$'
	go run -C lab ./benchsets $(CURDIR)/bin/usher
	$(LAB) build --real
	go test -C lab ./realetcd -count 1 -timeout 30m -v -run '^TestMemberSet$$' -figures -fsync
	go test -C lab ./realfdb -count 1 -timeout 1h -v -run '^TestMemberSet$$' -figures

bench-openstack: ## empty a host of a real OpenStack (Debian's packages) by a shell loop and by a maintenance, and compare; needs root
	$(LAB) build
	go test -C lab ./hypervisors -count 1 -timeout 1h -v -run '^TestFigures$$' -figures

bench-notices: ## take real nodes away with two minutes' notice, RUNS (10) times, and time what a notice leads to; needs root
	$(LAB) build --real
	go test -C lab ./notices -count 1 -timeout 2h -v -figures -runs $(or $(RUNS),10)

fuzz: ## fuzz everything that reads what others wrote, FUZZTIME (30s) each
	hack/fuzz $(or $(FUZZTIME),30s)

properties: ## check the safety properties on CHECKS (20000) random clusters, new ones each time or those of SEED
	hack/properties $(or $(CHECKS),20000) $(SEED)

sim: ## play HISTORIES (10000) random histories of governed evictions, or show the one of SEED
	hack/sim $(or $(HISTORIES),10000) $(SEED)

test-kubelet: ## compare the account of node pressure with the kubelet's own code on INPUTS (100000) inputs each, new ones each time or those of SEED
	go test -C test/kubelet -count 1 -v -timeout 2h -seed $(or $(SEED),0) -inputs $(or $(INPUTS),100000) .

mutations: ## change the account of node pressure line by line, and see the comparison with the kubelet notice
	go run -C test/kubelet ./mutate

clean: ## remove what was built in the tree; the caches stay
	rm -rf bin

# A version in the path: a new pin is a new path, so nothing stale is ever run.
$(TOOLS)/golangci-lint-v%/golangci-lint:
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$*

$(TOOLS)/gotestsum-v%/gotestsum:
	GOBIN=$(@D) go install gotest.tools/gotestsum@v$*

$(TOOLS)/controller-gen-v%/controller-gen:
	GOBIN=$(@D) go install sigs.k8s.io/controller-tools/cmd/controller-gen@v$*
