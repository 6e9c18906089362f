package grant

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Within reports whether the path p is tree or lies below it. Both are clean
// and absolute. It goes by whole names: /a/notes2 is not in /a/notes.
func Within(p, tree string) bool {
	return p == tree || tree == "/" && strings.HasPrefix(p, "/") || strings.HasPrefix(p, tree+"/")
}

// touches reports whether one of the paths lies in the other.
func touches(a, b string) bool { return Within(a, b) || Within(b, a) }

// clean reports whether p is absolute and in its shortest form: what a call's
// paths must be to be compared with granted ones.
func clean(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p && utf8.ValidString(p) && !strings.ContainsRune(p, 0)
}

// systemTrees hold no files of the owner, but ways to the kernel, to other
// processes and to other programs' sockets.
func systemTrees() []string { return []string{"/proc", "/sys", "/dev", "/run", "/var/run"} }

// CheckPath says what is wrong with a path that is to be granted, and how to
// mend it; "" if nothing is. own are Boxmaker's own folders.
func CheckPath(p string, own []string) (what, do string) {
	switch {
	case p == "":
		return "an empty path", "write the folder or file as an absolute path, or remove the entry"
	case !utf8.ValidString(p) || strings.IndexFunc(p, unicode.IsControl) >= 0:
		return "a path with control characters", "rename the file, or grant the folder that it is in"
	case strings.HasPrefix(p, "~"):
		return fmt.Sprintf("the path %q starts with ~, which only a shell understands", p), "write the home folder out, such as /home/me"
	case !strings.HasPrefix(p, "/"):
		return fmt.Sprintf("the path %q is relative", p), "write it from the root, such as /home/me/notes"
	case strings.ContainsAny(p, "*?["):
		return fmt.Sprintf("the path %q has a wildcard, and paths have none", p), "grant the folder: it stands for all that is in it"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return fmt.Sprintf(`the path %q has ".." in it`, p), "write where it really leads"
		}
	}
	c := path.Clean(p)
	if c == "/" {
		return `the path "/" would grant the whole machine`, "name the folders that the tool needs"
	}
	for _, t := range systemTrees() {
		if touches(c, t) {
			return fmt.Sprintf("%s is not a folder of files, but the system's own", t), "name folders with files of yours"
		}
	}
	for _, o := range own {
		switch {
		case o == "" || !touches(c, o):
		case Within(c, o):
			return fmt.Sprintf("%s is in Boxmaker's own folder %s", c, o), "a tool that reaches Boxmaker's own files could change its rights or its records; move what it needs to a folder of yours"
		default:
			return fmt.Sprintf("%s has Boxmaker's own folder %s in it", c, o), "a tool that reaches Boxmaker's own files could change its rights or its records; name the folders below it that the tool needs"
		}
	}
	return "", ""
}
