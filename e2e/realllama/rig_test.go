package realllama

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// A rig is what all tests share: the server's command and the models.
type rig struct {
	server string // command of llama-server
	build  string // what it says of itself
	models []model
	why    string // if there is no server: why
}

// A model is a file and what is known of its tokens.
type model struct {
	name   string
	file   string
	style  string         // of its template's tool calls; empty for the owner's own model
	tokens map[string]int // special tokens by name, scripted replies as "reply NAME"
}

func (m model) tiny() bool { return m.style != "" }

// shared is made by TestMain and only read after that.
var shared rig

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "boxmaker-llama-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if shared, err = newRig(dir); err != nil {
		fmt.Fprintln(os.Stderr, "realllama:", err)
		return 1
	}
	if shared.why != "" {
		return m.Run() // every test skips itself and says why
	}
	fmt.Fprintln(os.Stderr, "realllama: llama-server", shared.build)
	return stack.Main(m)
}

func newRig(dir string) (rig, error) {
	var r rig
	r.server = os.Getenv("LLAMA_SERVER")
	switch wish := os.Getenv("BOXMAKER_LLAMA"); {
	case wish == "skip":
		r.why = "no real llama-server: BOXMAKER_LLAMA=skip"
		return r, nil
	case r.server == "" && wish != "require":
		r.why = "no real llama-server: run `make verify-llama`, or set LLAMA_SERVER=path or BOXMAKER_LLAMA=require"
		return r, nil
	case r.server == "":
		out, err := command("../../scripts/llama-from-debian.sh")
		if err != nil {
			return r, err
		}
		r.server = strings.TrimSpace(out)
	}
	version, err := exec.Command(r.server, "--version").CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("LLAMA_SERVER=%s does not run: %w\n%s", r.server, err, version)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	r.build = strings.TrimPrefix(first, "version: ")
	if file := os.Getenv("LLAMA_MODEL"); file != "" {
		r.models = []model{{name: filepath.Base(file), file: file}}
		return r, nil
	}
	maker := filepath.Join(dir, "tinygguf")
	if _, err := command("go", "build", "-C", "../../tools", "-buildvcs=false", "-o", maker, "./tinygguf"); err != nil {
		return r, err
	}
	for _, kind := range []struct{ arch, style string }{{"qwen35", "xml"}, {"qwen3", "json"}} {
		m, err := makeModel(maker, dir, kind.arch, kind.style)
		if err != nil {
			return r, err
		}
		r.models = append(r.models, m)
	}
	return r, nil
}

// makeModel writes a tiny model and learns its token numbers.
func makeModel(maker, dir, arch, style string) (model, error) {
	m := model{name: arch, file: filepath.Join(dir, arch+".gguf"), style: style, tokens: map[string]int{}}
	args := []string{"-arch", arch, "-tools", style, "-o", m.file}
	byText := map[string]string{}
	for _, name := range replyNames() {
		text := replies()[name].text(style)
		byText[strconv.Quote(text)] = name
		args = append(args, "-canned", strconv.Quote(text))
	}
	out, err := command(maker, args...)
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(out) {
		var id int
		switch f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3); {
		case len(f) == 3 && f[0] == "token":
			id, err = strconv.Atoi(f[2])
			m.tokens[f[1]] = id
		case len(f) == 3 && f[0] == "canned":
			id, err = strconv.Atoi(f[1])
			m.tokens["reply "+byText[f[2]]] = id
		default:
			err = fmt.Errorf("tinygguf: unknown line %q", line)
		}
		if err != nil {
			return m, err
		}
	}
	if want := len(replyNames()) + 5; len(m.tokens) != want {
		return m, fmt.Errorf("tinygguf named %d tokens, want %d:\n%s", len(m.tokens), want, out)
	}
	return m, nil
}

// command runs a program; its standard error is shown only if it fails.
func command(name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", filepath.Base(name), err), errors.New(errs.String()))
	}
	return out.String(), nil
}

// each runs a test on every model, or skips it if there is no server.
func each(t *testing.T, f func(t *testing.T, m model)) {
	t.Helper()
	if shared.why != "" {
		t.Skip(shared.why)
	}
	for _, m := range shared.models {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// eachTiny is each for tests that need scripted replies or exact figures.
func eachTiny(t *testing.T, f func(t *testing.T, m model)) {
	t.Helper()
	each(t, func(t *testing.T, m model) {
		if !m.tiny() {
			t.Skip("this test needs a model of tools/tinygguf, and LLAMA_MODEL names another")
		}
		f(t, m)
	})
}

// firstTiny gives one tiny model, for tests to which the architecture is nothing.
func firstTiny(t *testing.T) model {
	t.Helper()
	switch {
	case shared.why != "":
		t.Skip(shared.why)
	case !shared.models[0].tiny():
		t.Skip("this test needs a model of tools/tinygguf, and LLAMA_MODEL names another")
	}
	return shared.models[0]
}
