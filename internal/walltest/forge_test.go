package walltest

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestForge compiles each snippet as a package of brokerd, with the go
// command's -overlay. All but the controls must fail, each with the error that
// it names, so that a typo in a snippet is no pass.
func TestForge(t *testing.T) {
	root, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	const (
		pol  = "boxmaker/brokerd/internal/policy"
		aud  = "boxmaker/brokerd/internal/audit"
		inBr = "brokerd/internal/zzforge"
	)
	for _, tc := range []struct {
		name, place string
		imports     []string
		src, want   string
	}{
		{"control: the zero value compiles", inBr, []string{pol}, "var _ = policy.Decision{}", ""},
		{"control: a decision passes through", inBr, []string{pol}, "func F(d policy.Decision) (policy.Spec, error) { return d.Spend() }", ""},
		{"control: a spec is data", inBr, []string{pol}, "var _ = policy.Spec{Call: \"x\"}", ""},
		{"control: the zero reference compiles", inBr, []string{aud}, "var _ = audit.Ref{}", ""},
		{"keyed literal", inBr, []string{pol}, "var _ = policy.Decision{p: nil}", "cannot refer to unexported field p"},
		{"positional literal", inBr, []string{pol}, "var _ = policy.Decision{[0]func(){}, nil}", "implicit assignment to unexported field"},
		{"write to the field", inBr, []string{pol}, "func F() { var d policy.Decision; d.p = nil }", "d.p undefined"},
		{"name the permit", inBr, []string{pol}, "var _ *policy.permit", "not exported by package policy"},
		{"call the maker", inBr, []string{pol, aud}, "var _ = policy.permits(audit.Ref{}, policy.Spec{})", "undefined: policy.permits"},
		{"convert a look-alike", inBr, []string{pol}, "type permit struct{}\nvar _ = policy.Decision(struct{ _ [0]func(); p *permit }{})", "cannot convert"},
		{"compare two", inBr, []string{pol}, "func F(a, b policy.Decision) bool { return a == b }", "cannot be compared"},
		{"use as a key", inBr, []string{pol}, "var _ map[policy.Decision]bool", "invalid map key type"},
		{"a spec for a decision", inBr, []string{pol}, "func F(d policy.Decision) {}\nfunc G() { F(policy.Spec{}) }", "cannot use"},
		{"a foreign ruling", inBr, []string{pol}, "type mine struct{}\nfunc (mine) ruling() {}\nvar _ policy.Ruling = mine{}", "unexported method ruling"},
		{"forge a reference", inBr, []string{aud}, "var _ = audit.Ref{head: struct{}{}}", "cannot refer to unexported field head"},
		{"a reference by position", inBr, []string{aud}, "var _ = audit.Ref{nil}", "implicit assignment to unexported field"},
		{"from another program", "loopd/internal/zzforge", []string{pol}, "var _ = policy.Decision{}", "use of internal package"},
		{"from the runner's program", "runnerd/internal/zzforge", []string{pol}, "var _ = policy.Decision{}", "use of internal package"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var head strings.Builder
			head.WriteString("package zzforge\n\n")
			for _, i := range tc.imports {
				fmt.Fprintf(&head, "import %q\n", i)
			}
			out, err := overlaid(t, root, tc.place, head.String()+"\n"+tc.src+"\n")
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("does not compile: %s", out)
			case tc.want != "" && err == nil:
				t.Errorf("compiles, want an error with %q", tc.want)
			case tc.want != "" && !strings.Contains(out, tc.want):
				t.Errorf("got %s, want %q", out, tc.want)
			}
		})
	}
}

// overlaid builds a package that is not there.
func overlaid(t *testing.T, root, place, text string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	src, overlay := filepath.Join(dir, "forge.go"), filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, place, "forge.go"): src}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{src: []byte(text), overlay: b} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "./"+place)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPermits: inside package policy, where the compiler forbids nothing, a
// permit is made in one place, for a reference that was asked whether it is OK,
// and that place is called only where a record was just appended.
func TestPermits(t *testing.T) {
	all, bad := parse(module, testFolders)
	report(t, bad)
	report(t, checkPermits(all))
}

// permitCallers are the functions that may let something run: each has just
// put a record in the audit log.
var permitCallers = []string{"Decide", "Settle"}

func checkPermits(all []source) (bad []string) {
	makers, callers := 0, 0
	for _, s := range all {
		if !strings.HasPrefix(s.name, "brokerd/internal/policy/") || s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR && named(d, "permit") > 0 {
					bad = append(bad, fmt.Sprintf("%s: a permit outside of a function", s.name))
				}
				continue
			}
			if f.Name.Name == "permits" {
				makers++
				continue
			}
			if named(f, "permit") > 0 {
				bad = append(bad, fmt.Sprintf("%s: %s makes or takes a permit; only permits may", s.name, f.Name.Name))
			}
			n := named(f, "permits")
			if n > 0 && !slices.Contains(permitCallers, f.Name.Name) {
				bad = append(bad, fmt.Sprintf("%s: %s lets something run, and is not in the table", s.name, f.Name.Name))
			}
			callers += n
		}
	}
	if makers != 1 || callers == 0 {
		bad = append(bad, fmt.Sprintf("package policy has %d makers of permits and %d calls of them: has it been renamed?", makers, callers))
	}
	return bad
}

// named counts the uses of an identifier.
func named(n ast.Node, name string) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && i.Name == name {
			count++
		}
		return true
	})
	return count
}

// The check itself is tried on sources that break it.
func TestPermitsCheckCanFail(t *testing.T) {
	const good = "package policy\n\ntype permit struct{}\n\ntype Decision struct{ p *permit }\n\nfunc permits() Decision { return Decision{&permit{}} }\n\nfunc Decide() { permits() }\n"
	for _, tc := range []struct{ name, text, want string }{
		{"in order", good, ""},
		{"another maker", good + "func Other() Decision { return Decision{&permit{}} }\n", "Other makes or takes a permit"},
		{"another caller", good + "func Rule() { permits() }\n", "Rule lets something run"},
		{"a caller as a value", good + "func Hand() func() Decision { return permits }\n", "Hand lets something run"},
		{"a permit for all", good + "var all = &permit{}\n", "outside of a function"},
		{"renamed", strings.ReplaceAll(good, "permits", "allows"), "has it been renamed?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "brokerd/internal/policy")
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, "x.go"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			all, bad := parse(dir, nil)
			bad = append(bad, checkPermits(all)...)
			if got := strings.Join(bad, "\n"); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
