package setup

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/reach"
	"boxmaker/internal/config"
	"boxmaker/internal/durable"
)

//go:embed files/bxctl.toml
var bxctlFile string

//go:embed files/inferproxy.toml
var proxyFile string

//go:embed files/loopd.toml
var loopdFile string

//go:embed files/brokerd.toml
var brokerFile string

//go:embed files/runnerd.toml
var runnerFile string

//go:embed files/egressd.toml
var egressFile string

//go:embed files/system.md
var promptFile string

// A Choice is what the owner named on the command line. The zero value is no
// choice: practice for a new installation, no change for an existing one.
type Choice struct {
	Kind     Kind
	Upstream string // as given, for kind upstream
	File     string // as given, for kind llama
}

// A Job is one run of init.
type Job struct {
	Layout config.Layout
	Choice Choice
	Force  bool // write all files anew; the old ones are kept as *.old-<time>
	Prompt bool // write prompts/system.md and name it in loopd.toml
	Now    time.Time
}

// A Report says what init did, in lines for the owner.
type Report struct {
	Fresh   bool     // nothing was there
	Changes []string // in the configuration: "bxctl.toml: model.kind: \"practice\" -> \"llama\""
	Made    []string // elsewhere: "grants: 7 examples, in /home/me/.config/boxmaker/grants"
	Kind    Kind     // what is served now
	Target  string   // address or file of Kind
}

// Run makes the installation or changes its model. On an error nothing that
// was there is lost.
func (j Job) Run() (Report, error) {
	if err := j.check(); err != nil {
		return Report{}, err
	}
	l := j.Layout
	if err := makeFolders(l); err != nil {
		return Report{}, err
	}
	root, err := os.OpenRoot(l.Config)
	if err != nil {
		return Report{}, unwritable(l.Config, err)
	}
	defer root.Close()
	r, err := j.files(root)
	if err != nil {
		return r, err
	}
	if j.Prompt {
		if err := j.prompt(root, &r); err != nil {
			return r, err
		}
	}
	if err := j.readBack(&r); err != nil {
		return r, err
	}
	return r, j.authority(&r)
}

// configFiles are the files of the config folder, as they are when new.
func configFiles() []struct{ name, text string } {
	return []struct{ name, text string }{
		{FileBxctl, bxctlFile},
		{FileProxy, proxyFile},
		{FileLoopd, loopdFile},
		{FileBroker, brokerFile},
		{FileRunner, runnerFile},
		{FileEgress, egressFile},
	}
}

// files brings each of the files up to the choice.
func (j Job) files(root *os.Root) (Report, error) {
	r := Report{Fresh: true}
	for _, f := range configFiles() {
		old, err := readIn(root, f.name)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return r, unwritable(filepath.Join(root.Name(), f.name), err)
		}
		r.Fresh = r.Fresh && missing
		text := old
		if missing || j.Force {
			text = f.text
		}
		text, changed := j.choose(f.name, text)
		if !missing && !j.Force {
			r.Changes = append(r.Changes, changed...)
		}
		if !missing && text == old {
			continue
		}
		if j.Force && !missing {
			kept := f.name + ".old-" + j.Now.UTC().Format("20060102T150405Z")
			if err := durable.WriteFile(root, kept, []byte(old), 0o600); err != nil {
				return r, unwritable(root.Name(), err)
			}
			r.Changes = append(r.Changes, fmt.Sprintf("%s: written anew; the old one is %s", f.name, kept))
		} else if missing {
			r.Changes = append(r.Changes, f.name+": written")
		}
		if err := durable.WriteFile(root, f.name, []byte(text), 0o600); err != nil {
			return r, unwritable(root.Name(), err)
		}
	}
	return r, nil
}

// choose applies the choice to one file.
func (j Job) choose(name, text string) (string, []string) {
	c := j.Choice
	if c.Kind == "" {
		return text, nil
	}
	var changes []string
	set := func(section, key, value string) {
		next, was := setKey(text, section, key, literal(value))
		if next != text {
			label := key
			if section != "" {
				label = section + "." + key
			}
			if was == "" {
				was = "(not set)"
			}
			changes = append(changes, fmt.Sprintf("%s: %s: %s -> %s", name, label, was, literal(value)))
			text = next
		}
	}
	switch {
	case name == FileBxctl:
		set("model", "kind", string(c.Kind))
		if c.Kind == Llama {
			set("model", "file", c.File)
		}
	case name == FileProxy && c.Kind == Upstream:
		set("", "upstream", c.Upstream)
	}
	return text, changes
}

// check refuses a choice that cannot work, before anything is written.
func (j *Job) check() error {
	if _, err := os.Lstat(filepath.Join(j.Layout.Config, FileBxctl)); errors.Is(err, fs.ErrNotExist) {
		if err := reach.Home(j.Layout.Home, DefaultSettings().UID("brokerd")); err != nil {
			return err
		}
	}
	switch j.Choice.Kind {
	case Upstream:
		_, err := ParseUpstream(j.Choice.Upstream)
		return err
	case Llama:
		path, err := CheckModel(j.Choice.File)
		j.Choice.File = path
		return err
	default:
		return nil
	}
}

// CheckModel reports whether path is a GGUF file, and gives its absolute path.
func CheckModel(path string) (string, error) {
	refuse := func(what string, err error) (string, error) {
		return "", &fault.Fault{
			Code: fault.Usage, What: what, Err: err,
			Do: "give the path of a GGUF file that you can read", Key: "model-file",
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil || path == "" {
		return refuse("the model file has no usable path", err)
	}
	f, err := os.Open(abs)
	if err != nil {
		return refuse("the model file can't be opened", err)
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "GGUF" {
		return refuse(fmt.Sprintf("%q is not a GGUF file", abs), nil)
	}
	return abs, nil
}

// readBack loads what stands there now, as up will.
func (j Job) readBack(r *Report) error {
	s, p, err := Load(j.Layout)
	if err != nil {
		return &fault.Fault{
			What: "the installation can't be read back", Err: err,
			Means: "a file that was there before has a mistake in it; it was not replaced",
			Do:    "mend that line, or run bxctl init --force, which keeps the old files beside the new ones", Key: "config-invalid",
		}
	}
	r.Kind = s.Model.Kind
	switch s.Model.Kind {
	case Upstream:
		r.Target = p.Upstream
	case Llama:
		r.Target = s.Model.File
	}
	return nil
}

// prompt writes the replacement of the system prompt, unless it is there.
func (j Job) prompt(root *os.Root, r *Report) error {
	dir := filepath.Join(j.Layout.Config, "prompts")
	if filepath.Dir(j.Layout.Config) == j.Layout.Home { // all in one folder
		dir = filepath.Join(j.Layout.Home, "prompts")
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	prompts, err := os.OpenRoot(dir)
	if err != nil {
		return unwritable(dir, err)
	}
	defer prompts.Close()
	path := filepath.Join(dir, "system.md")
	switch err := durable.Create(prompts, "system.md", []byte(promptFile), 0o600); {
	case err == nil:
		r.Changes = append(r.Changes, path+": written")
	case !errors.Is(err, fs.ErrExist):
		return unwritable(dir, err)
	}
	old, err := readIn(root, FileLoopd)
	if err != nil {
		return unwritable(root.Name(), err)
	}
	text, was := setKey(old, "prompt", "system", literal(path))
	if text == old {
		return nil
	}
	r.Changes = append(r.Changes, fmt.Sprintf("%s: prompt.system: %s -> %s", FileLoopd, was, literal(path)))
	if err := durable.WriteFile(root, FileLoopd, []byte(text), 0o600); err != nil {
		return unwritable(root.Name(), err)
	}
	return nil
}

func readIn(root *os.Root, name string) (string, error) {
	b, err := root.ReadFile(name)
	return string(b), err
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unwritable(dir, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	return &fault.Fault{
		What: "can't write to " + path, Err: err,
		Means: "Boxmaker keeps its files there",
		Do:    "make it writable for this user, or choose another folder with --home or BOXMAKER_HOME", Key: "home-unwritable",
	}
}
