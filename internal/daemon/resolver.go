package daemon

import (
	"errors"
	"os"
	"path/filepath"
)

// ResolverFiles are what Go's resolver reads, for the ReadOnly of a program that
// looks names up.
func ResolverFiles() []string {
	return []string{"/etc/hosts", "/etc/nsswitch.conf", resolvConf("/etc/resolv.conf")}
}

// resolvConf gives the file, or the folder that it really lies in if that holds
// nothing but such files: a service that manages names puts a new file in its
// place, which a rule for the old one would not cover.
func resolvConf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || errors.Is(err, os.ErrNotExist) || filepath.Dir(real) == filepath.Dir(path) {
		return path
	}
	return filepath.Dir(real)
}
