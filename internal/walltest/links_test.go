package walltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A listed package is what go list says of it.
type listed struct {
	ImportPath, Name string
	Standard         bool
	Deps             []string
	Module           *struct {
		Path string
		Main bool
	}
	Error *struct{ Err string }
}

// list asks the go command for the packages of the module in dir and all that
// they need.
func list(dir string) (map[string]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Name,Standard,Deps,Module,Error", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
}

// place is the package's folder in its own module: "" for the root, or for a
// package of another module.
func (p listed) place() string {
	if p.Module == nil || !p.Module.Main {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

func top(place string) string {
	t, _, _ := strings.Cut(place, "/")
	return t
}

// checkLinks: each program links what its row allows, and has a row.
func checkLinks(all map[string]listed, table map[string]rule) (bad []string) {
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		if p.Error != nil {
			bad = append(bad, fmt.Sprintf("%s does not load: %s", path, p.Error.Err))
		}
		if p.Name != "main" || p.place() == "" {
			continue
		}
		row, ok := table[p.place()]
		if !ok {
			bad = append(bad, fmt.Sprintf("program %s has no row in the table of what programs may link", p.place()))
			continue
		}
		for _, dep := range p.Deps {
			if d := all[dep]; !d.Standard && !row.allows(d, p.place()) {
				bad = append(bad, fmt.Sprintf("program %s links %s", p.place(), dep))
			}
		}
	}
	return bad
}

func (r rule) allows(d listed, role string) bool {
	if d.Module == nil {
		return false
	}
	if !d.Module.Main {
		return slices.Contains(r.modules, d.Module.Path)
	}
	if shared, ok := strings.CutPrefix(d.place(), "internal/"); ok {
		return slices.Contains(r.shared, shared)
	}
	return strings.HasPrefix(d.place(), role+"/")
}

// checkTable: a row lists nothing that its program does not link, so that the
// table stays the truth and no permission lies about.
func checkTable(all map[string]listed, table map[string]rule) (bad []string) {
	for _, role := range slices.Sorted(maps.Keys(table)) {
		var program *listed
		linked := map[string]bool{}
		for _, p := range all {
			if p.Name == "main" && p.place() == role {
				program = &p
			}
		}
		if program == nil {
			bad = append(bad, fmt.Sprintf("the row %s has no program", role))
			continue
		}
		for _, dep := range program.Deps {
			d := all[dep]
			if shared, ok := strings.CutPrefix(d.place(), "internal/"); ok {
				linked[shared] = true
			} else if d.Module != nil {
				linked[d.Module.Path] = true
			}
		}
		for _, allowed := range slices.Concat(table[role].modules, table[role].shared) {
			if !linked[allowed] {
				bad = append(bad, fmt.Sprintf("the row %s allows %s, which is not linked", role, allowed))
			}
		}
	}
	return bad
}

// checkShape: a role is main.go's package and internal ones, so that nothing
// in it can be imported from outside; other top-level folders are known.
func checkShape(all map[string]listed, table map[string]rule, supports []string) (bad []string) {
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		if p.Module == nil || !p.Module.Main {
			continue
		}
		place := p.place()
		_, role := table[top(place)]
		switch {
		case place == "":
			bad = append(bad, "there is a package in the module's root folder")
		case !role && p.Name == "main" && top(place) == place:
			// checkLinks names it.
		case !role && !slices.Contains(supports, top(place)):
			bad = append(bad, fmt.Sprintf("%s: %s is no program, and no folder for anything else", place, top(place)))
		case role && place != top(place) && !strings.HasPrefix(place, top(place)+"/internal/"):
			bad = append(bad, fmt.Sprintf("%s: a role is its main package and internal/, nothing else", place))
		case role && place == top(place) && p.Name != "main":
			bad = append(bad, fmt.Sprintf("%s is package %s, which others could import; a role is a program", place, p.Name))
		}
	}
	return bad
}
