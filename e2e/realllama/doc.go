// Package realllama tests Boxmaker against a real llama-server: inferproxy and
// loopd as they are, the server in its own process, and between the two a desk
// (see desk_test.go) that records every request, can bias a reply, and can cut a
// stream. What goes through it is otherwise untouched.
//
// The tests need a server: LLAMA_SERVER names one, BOXMAKER_LLAMA=require gets one
// from Debian's packages (scripts/llama-from-debian.sh) or fails. With neither
// they are skipped. The models are the tiny ones of tools/tinygguf, of the two
// architectures qwen35 (hybrid) and qwen3 (plain attention), unless LLAMA_MODEL
// names one; tests of scripted replies and exact figures then don't run. LLAMA_FLAGS
// adds flags of the server, such as "-ngl 99".
//
// It proves what the two programs do with each other. It proves nothing of how a
// language model behaves: the tiny models write noise in the form of replies.
package realllama
