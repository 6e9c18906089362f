# Boxmaker. `make chat` to talk to it, `make test` to check it; the rest is for
# whoever works on it. Each recipe is one script, so that nothing depends on
# make's own quoting and each can be run by hand.

.PHONY: help build man chat test gate verify-llama verify-mattermost bench audit clean

help:
	@sed -n 's/^## //p' Makefile

## make build         programs into bin/
build:
	@scripts/build.sh

## make man           manual pages into bin/man/
man:
	@scripts/man.sh

## make chat          install what is missing, build, start everything, open the chat
chat:
	@scripts/chat.sh

## make test          every test; what could not run is listed at the end
test:
	@scripts/test.sh

## make gate          format, vet, staticcheck, deadcode, known vulnerabilities, tests
gate:
	@scripts/gate.sh

## make verify-llama  the tests against a real llama-server (LLAMA_SERVER=, LLAMA_MODEL= for your own)
verify-llama:
	@scripts/verify-llama.sh

## make verify-mattermost  the tests against a real Mattermost server, which is built first
verify-mattermost:
	@scripts/verify-mattermost.sh

## make bench         every figure beside its target
bench:
	@scripts/bench.sh

## make audit         known vulnerabilities in what is linked (needs the public database)
audit:
	@scripts/audit.sh

## make clean         remove bin/ and .cache/
clean:
	@rm -rf bin .cache
