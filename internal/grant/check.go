package grant

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (f *file) checkPaths() error {
	const runbook = "grant-paths"
	does := abilities(f.Tool)
	var errs []error
	for _, list := range []struct {
		line  string
		paths []string
		takes bool
	}{{"paths.read", f.Paths.Read, does.reads}, {"paths.write", f.Paths.Write, does.writes}} {
		switch {
		case len(list.paths) == 0:
			continue
		case !list.takes && !does.reads && !does.writes:
			errs = append(errs, bad(list.line, f.Tool+" uses no files", "remove "+list.line, runbook))
		case !list.takes && list.line == "paths.write":
			errs = append(errs, bad(list.line, f.Tool+" only reads, so it takes no paths.write", "move the folders to paths.read, or grant write_file in a file of its own", runbook))
		case !list.takes:
			errs = append(errs, bad(list.line, f.Tool+" takes its folders from paths.write, which includes reading what is there", "move the folders to paths.write, or grant read_file in a file of its own", runbook))
		case f.denies() && does.programs:
			errs = append(errs, bad(list.line, f.Tool+" runs programs, which name no paths, so that a deny of paths would stop nothing", "remove the folder from the grant that allows "+f.Tool+", or deny "+f.Tool+" as a whole", runbook))
		}
		for _, p := range list.paths {
			what, do := CheckPath(p, f.own)
			if what == "" && list.line == "paths.write" {
				what, do = CheckPrograms(p)
			}
			if what != "" {
				errs = append(errs, bad(list.line, what, do, runbook))
			}
		}
	}
	if (does.reads || does.writes) && !does.programs && !f.denies() && len(f.Paths.Read)+len(f.Paths.Write) == 0 {
		list := "read"
		if does.writes {
			list = "write"
		}
		errs = append(errs, bad("tool", "no paths are granted, so no call could ever fit", fmt.Sprintf("add a line [paths] and below it %s = [\"/home/me/notes\"]", list), runbook))
	}
	return errors.Join(errs...)
}

func (f *file) checkNet() error {
	const runbook = "grant-hosts"
	does := abilities(f.Tool)
	if len(f.Net.Hosts)+len(f.Net.Local) > 0 && !does.fetches {
		return bad("net", f.Tool+" uses no network", "remove [net]; http_fetch, run and shell can have hosts", runbook)
	}
	var errs []error
	for _, h := range f.Net.Hosts {
		if what, do := CheckHost(h); what != "" {
			errs = append(errs, bad("net.hosts", what, do, runbook))
		} else if private(h) && !slices.Contains(f.Net.Local, h) && !f.denies() {
			f.warn("net.hosts", h+" is a private address, and those are refused", "add it to net.local as well if you mean it", runbook)
		}
	}
	for _, h := range f.Net.Local {
		if !slices.Contains(f.Net.Hosts, h) {
			errs = append(errs, bad("net.local", fmt.Sprintf("%q is in net.local and not in net.hosts", h), "net.local says which of net.hosts may have a private address; write it the same way in both", runbook))
		}
	}
	switch {
	case f.denies() && does.programs && len(f.Net.Hosts) > 0:
		errs = append(errs, bad("net.hosts", f.Tool+" runs programs, whose hosts nobody knows before, so that a deny of hosts would stop nothing", "remove the host from the grant that allows "+f.Tool+", or deny "+f.Tool+" as a whole", runbook))
	case does.fetches && !does.programs && !f.denies() && len(f.Net.Hosts) == 0:
		errs = append(errs, bad("tool", "no hosts are granted, so no call could ever fit", "add a line [net] and below it hosts = [\"api.example.com:443\"]", runbook))
	}
	return errors.Join(errs...)
}

func (f *file) checkArgs(t *tool.Tool) error {
	const runbook = "grant-args"
	var errs []error
	for _, name := range sortedKeys(f.Args) {
		line := "args." + name
		if !slices.Contains(t.Arguments(), name) {
			errs = append(errs, bad(line, fmt.Sprintf("%s has no argument %q", f.Tool, name), "its arguments are "+strings.Join(t.Arguments(), ", "), runbook))
			continue
		}
		errs = append(errs, f.checkArg(line, name, f.Args[name]))
	}
	return errors.Join(errs...)
}

func (f *file) checkArg(line, name string, c *constraint) error {
	const runbook = "grant-args"
	empty := func(sub string, l []string) error {
		if l != nil && len(l) == 0 {
			return bad(line+"."+sub, "an empty list: no value could ever fit", "name the values, or remove the line", runbook)
		}
		return nil
	}
	positive := func(sub string, n *int64) error {
		switch {
		case n == nil:
			return nil
		case *n <= 0:
			return bad(line+"."+sub, fmt.Sprintf("%s must be at least 1", sub), "correct the number, or remove the line", runbook)
		case f.denies():
			return bad(line+"."+sub, "a deny takes no "+sub+": it would deny what is small", "put the bound into the grant that allows", runbook)
		}
		return nil
	}
	errs := []error{empty("first", c.First), empty("one_of", c.OneOf), positive("max_bytes", c.MaxBytes), positive("max_items", c.MaxItems)}
	list := f.Tool == tool.NameRun && name == "argv"
	if (c.First != nil || c.MaxItems != nil) && !list {
		errs = append(errs, bad(line, "first and max_items are for a list, such as argv of run", "use one_of, pattern or max_bytes", runbook))
	}
	if c.Pattern != nil {
		switch {
		case f.Tool == tool.NameShell && name == "command":
			errs = append(errs, bad(line+".pattern",
				"a pattern is no boundary for a shell: `ls; rm -r x` matches \"ls.*\", and there is always another way to write it",
				"grant run instead, with its program fixed by [args.argv] first = [\"/usr/bin/ls\"]; or grant shell as a whole, bounded by its container: mode = \"ask\", few paths, no hosts", runbook))
		case *c.Pattern == "":
			errs = append(errs, bad(line+".pattern", "the pattern is empty: only an empty text would fit", "write a regular expression, or remove the line", runbook))
		default:
			if err := (&Constraint{Pattern: *c.Pattern}).compile(); err != nil {
				errs = append(errs, bad(line+".pattern", err.Error(), "see https://github.com/google/re2/wiki/Syntax; it is matched against the whole value; in 'single quotes' a \\ needs no second one", runbook))
			}
		}
	}
	if f.Tool == tool.NameShell && name == "command" && f.denies() && c.OneOf != nil {
		errs = append(errs, bad(line+".one_of", "there is always another way to write a command line, so that this denies nothing", "deny shell as a whole, or leave it ungranted", runbook))
	}
	if c.First == nil && c.OneOf == nil && c.Pattern == nil && c.MaxBytes == nil && c.MaxItems == nil {
		errs = append(errs, bad(line, "nothing is said about the argument", "add one_of, pattern or max_bytes below it, or remove the heading", runbook))
	}
	return errors.Join(errs...)
}

func (f *file) checkLimits() error {
	const runbook = "grant-limits"
	l := &f.Limits
	var errs []error
	check := func(name string, set bool, v, low, high int64, say string) {
		if set && (v < low || v > high) {
			errs = append(errs, bad("limits."+name, name+" is out of its range", "write "+say+", or remove the line", runbook))
		}
	}
	check("calls_per_hour", l.CallsPerHour != nil, value(l.CallsPerHour), 1, MaxPerHour, fmt.Sprintf("a number from 1 to %d (mode = \"deny\" for none)", MaxPerHour))
	check("time", l.Time != nil, int64(value(l.Time)), int64(100*time.Millisecond), int64(24*time.Hour), `100ms to 24h`)
	check("memory", l.Memory != nil, int64(value(l.Memory)), 16<<20, 1<<40, `16MiB to 1024GiB`)
	check("output", l.Output != nil, int64(value(l.Output)), 256, tool.MaxOutput, "256B to "+config.Size(tool.MaxOutput).String())
	check("pids", l.PIDs != nil, value(l.PIDs), 4, 1<<15, "a number from 4 to 32768")
	if f.denies() && *l != (limits{}) {
		errs = append(errs, bad("limits", "a deny runs nothing, so that limits have no meaning", "remove [limits], or put it into the grant that allows", runbook))
	}
	return errors.Join(errs...)
}

// MaxPerHour is the highest calls_per_hour.
const MaxPerHour = 100_000

func (f *file) checkSecrets() error {
	const runbook = "grant-secrets"
	does := abilities(f.Tool)
	s := &f.Secrets
	if len(s.Names)+len(s.Inject) == 0 {
		return nil
	}
	if !does.fetches || f.denies() {
		return bad("secrets", "a grant like this uses no secrets", "remove [secrets]; grants that allow http_fetch, run or shell can have it", runbook)
	}
	var errs []error
	for _, n := range s.Names {
		if err := checkSecretName(n); err != nil {
			errs = append(errs, bad("secrets.names", err.Error(), "it is the name under which `bxctl secret set NAME` keeps it", runbook))
		} else if !does.programs && !slices.ContainsFunc(s.Inject, func(in inject) bool { return in.Name == n }) {
			f.warn("secrets.names", f.Tool+" does nothing with "+n, "add [[secrets.inject]] with name, host and header, so that it is sent", runbook)
		}
	}
	for i, in := range s.Inject {
		for _, e := range f.checkInject(in) {
			errs = append(errs, bad("secrets.inject", e[0], e[1], runbook))
		}
		for _, other := range s.Inject[:i] {
			if other.Host == in.Host && strings.EqualFold(other.Header, in.Header) {
				errs = append(errs, bad("secrets.inject", fmt.Sprintf("the header %s for %s stands twice", in.Header, in.Host), "keep one of the two", runbook))
			}
		}
	}
	return errors.Join(errs...)
}

func (f *file) checkUserland() error {
	const runbook = "grant-userland"
	u := &f.Userland
	if *u == (userland{}) {
		return nil
	}
	switch {
	case !abilities(f.Tool).programs || f.denies():
		return bad("userland", "only grants that allow run or shell have programs", "remove [userland]", runbook)
	case u.Kind == "" && u.Root == "":
		return nil // an empty heading
	case u.Kind != "" && u.Kind.Validate() != nil:
		return bad("userland.kind", fmt.Sprintf("there is no userland %q", u.Kind), `write "usr" (this machine's /usr), "none", or "root" with root = "/path"`, runbook)
	case (u.Kind == proto.UserlandRoot) != (u.Root != ""):
		return bad("userland", `kind = "root" and root = "/path" go together`, "add the one that is missing, or remove the other", runbook)
	case u.Root != "" && path.Clean(u.Root) != u.Root:
		return bad("userland.root", "root is not in its shortest form", fmt.Sprintf("write it as %q", path.Clean(u.Root)), runbook)
	case u.Root != "":
		if what, do := CheckPath(u.Root, f.own); what != "" {
			return bad("userland.root", what, do, runbook)
		}
	}
	return nil
}
