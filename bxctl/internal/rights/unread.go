package rights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/grant"
)

// Unread names what brokerd does not read of what lies in the folder of grants,
// though it looks like a grant: the name is not quite one, or brokerd may not.
// may reports whether it may read a file; nil: it may read what this program may.
func Unread(dir string, uid uint32, may func(path string) error) (out []grant.Problem) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // told by whoever reads the grants
	}
	if may != nil && may(dir) != nil {
		may = nil // it is not the files' fault, and told elsewhere
	}
	for _, e := range entries {
		name, lower := e.Name(), strings.ToLower(e.Name())
		if strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, ".toml"):
			if !e.Type().IsRegular() || may == nil || may(path) == nil {
				continue
			}
			out = append(out, grant.Problem{
				File: name, Runbook: "grant-file", What: fmt.Sprintf("brokerd, which runs as uid %d, may not read the file", uid),
				Do: fmt.Sprintf("chgrp %d %s && chmod 640 %s", uid, path, path),
			})
		case strings.HasSuffix(lower, ".toml"), strings.HasSuffix(lower, ".toml.txt"):
			out = append(out, grant.Problem{File: name, Warning: true, Runbook: "grant-file", What: "the name does not end in .toml, so that the file is not read", Do: "rename it, or give it an ending such as .toml.off"})
		}
	}
	return out
}
