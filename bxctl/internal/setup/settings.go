// Package setup is the installation on disk: the owner's choice of a model,
// the files that `bxctl init` writes, and how `bxctl up` reads them back.
//
// It guarantees that an existing file is never overwritten except where the
// owner asked for it (the old one is then kept beside it), and that no
// credential gets into a file here: an address with one in it is refused. It
// does not check that a server answers.
package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/internal/config"
)

// Names of the files in the config folder.
const (
	FileBxctl  = "bxctl.toml"
	FileProxy  = "inferproxy.toml"
	FileLoopd  = "loopd.toml"
	FileBroker = "brokerd.toml"
	FileRunner = "runnerd.toml"
	FileEgress = "egressd.toml"

	FileGateway = "gatewayd.toml" // only where a chat is set up; init does not write it
)

// Kind says where answers come from.
type Kind string

// Kinds.
const (
	Practice Kind = "practice" // the stand-in, started by up
	Upstream Kind = "upstream" // a llama-server that runs already
	Llama    Kind = "llama"    // a llama-server, started by up
)

// Settings is config/bxctl.toml.
type Settings struct {
	Model    Model          `toml:"model"`
	Practice PracticeModel  `toml:"practice"`
	Tools    Tools          `toml:"tools"`
	UIDs     map[string]int `toml:"uids"`
}

// Model says what serves the model, and how up starts it.
type Model struct {
	Kind    Kind     `toml:"kind"`
	File    string   `toml:"file"`         // GGUF file of kind llama
	Server  string   `toml:"llama_server"` // path; empty: found on PATH
	Slots   int      `toml:"slots"`
	Context int      `toml:"context"` // tokens of one slot
	KV      string   `toml:"kv"`
	Args    []string `toml:"args"`
}

// PracticeModel holds the size of the practice model, and switches for tests.
type PracticeModel struct {
	Slots   int      `toml:"slots"`
	Context int      `toml:"context"`
	Args    []string `toml:"args"`
}

// Tools says whether the roles that run tools are started.
type Tools struct {
	Enabled bool `toml:"enabled"`
}

// Proxy is config/inferproxy.toml.
type Proxy struct {
	Upstream string `toml:"upstream"` // see ParseUpstream; used by kind upstream
	Conns    int    `toml:"conns"`
	Rate     int    `toml:"rate"` // connections a second
}

// UIDBase and RoleNumber give the uid of each role where up runs as root: one
// of its own, in a range that distributions leave alone.
const UIDBase = 62100

// RoleNumber is the number of a role, from 1; 0 for a name that is none.
func RoleNumber(role string) int {
	return 1 + slices.Index([]string{"inferproxy", "loopd", "practice", "llama", "brokerd", "gatewayd", "memoryd", "egressd", "runnerd"}, role)
}

// DefaultSettings is an empty bxctl.toml.
func DefaultSettings() Settings {
	return Settings{
		Model:    Model{Kind: Practice, Slots: 2, Context: 32768, KV: "f16"},
		Practice: PracticeModel{Slots: 3, Context: 32768},
		Tools:    Tools{Enabled: true},
	}
}

// DefaultProxy is an empty inferproxy.toml.
func DefaultProxy() Proxy { return Proxy{Conns: 64, Rate: 200} }

// UID gives the uid of a role for an up that runs as root.
func (s Settings) UID(role string) uint32 {
	if uid, ok := s.UIDs[role]; ok {
		return uint32(uid)
	}
	return uint32(UIDBase + RoleNumber(role))
}

// Validate checks what config.Load cannot know.
func (s *Settings) Validate() error {
	var errs []error
	switch s.Model.Kind {
	case Practice, Upstream:
	case Llama:
		if !filepath.IsAbs(s.Model.File) {
			errs = append(errs, errors.New("model.file must be the absolute path of a GGUF file when model.kind is \"llama\""))
		}
	default:
		errs = append(errs, fmt.Errorf("model.kind is %q; it must be \"practice\", \"upstream\" or \"llama\"", s.Model.Kind))
	}
	if s.Model.KV != "f16" && s.Model.KV != "q8_0" {
		errs = append(errs, fmt.Errorf("model.kv is %q; it must be \"f16\" or \"q8_0\": smaller types spoil tool calls", s.Model.KV))
	}
	if s.Model.Server != "" && !filepath.IsAbs(s.Model.Server) {
		errs = append(errs, errors.New("model.llama_server must be an absolute path"))
	}
	errs = append(errs, within("model.slots", s.Model.Slots, 2, 64), within("model.context", s.Model.Context, 4096, 1<<22),
		within("practice.slots", s.Practice.Slots, 1, 64), within("practice.context", s.Practice.Context, 1024, 1<<22),
		checkArgs(s.Model.Args), s.checkUIDs())
	return errors.Join(errs...)
}

func (s *Settings) checkUIDs() error {
	seen := map[int]string{}
	for role, uid := range s.UIDs {
		switch {
		case RoleNumber(role) == 0:
			return fmt.Errorf("uids.%s: there is no such role", role)
		case role == "llama" && uid == 0: // a GPU may need it; the owner's choice
		case uid < 1000 || uid > 1<<31-2:
			return fmt.Errorf("uids.%s is %d; it must be an unprivileged uid, 1000 or more", role, uid)
		case seen[uid] != "":
			return fmt.Errorf("uids.%s and uids.%s are the same: each role needs one of its own", role, seen[uid])
		}
		seen[uid] = role
	}
	return nil
}

// checkArgs refuses flags that would undo what up sets.
func checkArgs(args []string) error {
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--host", "--port", "-m", "--model", "-np", "--parallel", "-c", "--ctx-size", "--cache-type-k", "-ctk", "--cache-type-v", "-ctv":
			return fmt.Errorf("model.args has %s, which bxctl up sets itself (model.slots, model.context, model.kv)", name)
		case "--api-key", "--api-key-file":
			return fmt.Errorf("model.args has %s: the inference path holds no credentials, and the socket is private already", name)
		}
		if name == "-md" || name == "--model-draft" || strings.HasPrefix(name, "--draft") || strings.HasPrefix(name, "--spec-") {
			return fmt.Errorf("model.args has %s: speculative decoding breaks the prompt cache of hybrid models", name)
		}
	}
	return nil
}

// Validate checks what config.Load cannot know.
func (p *Proxy) Validate() error {
	errs := []error{within("conns", p.Conns, 1, 4096), within("rate", p.Rate, 1, 100000)}
	if p.Upstream != "" {
		_, err := ParseUpstream(p.Upstream)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func within(key string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%s is %d; it must be from %d to %d", key, v, low, high)
	}
	return nil
}

// Load reads both files that up needs.
func Load(l config.Layout) (Settings, Proxy, error) {
	s, p := DefaultSettings(), DefaultProxy()
	if err := config.Load(filepath.Join(l.Config, FileBxctl), &s); err != nil {
		return s, p, err
	}
	if err := config.Load(filepath.Join(l.Config, FileProxy), &p); err != nil {
		return s, p, err
	}
	return s, p, nil
}

// BrokerKey is the name of the key of brokerd's secrets, in the folder of keys.
const BrokerKey = "brokerd.key"
