package loopdconf

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/config"

	"github.com/google/go-cmp/cmp"
)

// keys lists the tags of a struct type as the source text has them: "key type".
func keys(t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		out = append(out, f.Tag.Get("toml")+" "+strings.ReplaceAll(f.Type.String(), "loopdconf.", ""))
		if f.Type.Kind() == reflect.Struct {
			out = append(out, keys(f.Type)...)
		}
	}
	slices.Sort(out)
	return out
}

// The keys and types are those of loopd's own package, whose source is read
// here because it can't be imported.
func TestKeysAreThoseOfLoopd(t *testing.T) {
	src, err := os.ReadFile("../../../loopd/internal/settings/settings.go")
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, m := range regexp.MustCompile("(?m)^\\s+\\w+\\s+(\\S+)\\s+`toml:\"([a-z_]+)\"").FindAllStringSubmatch(string(src), -1) {
		theirs = append(theirs, m[2]+" "+m[1])
	}
	slices.Sort(theirs)
	if len(theirs) < 20 {
		t.Fatalf("only %d keys found in loopd's source", len(theirs))
	}
	if d := cmp.Diff(theirs, keys(reflect.TypeFor[Settings]())); d != "" {
		t.Errorf("loopd's settings (-) and these (+) differ:\n%s", d)
	}
}

// The file that bxctl init writes says what the defaults are.
func TestDefaultsAreThoseOfTheFile(t *testing.T) {
	s := Settings{}
	if err := config.Load("../setup/files/loopd.toml", &s); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.SelfTest.Skip, want.Neutral.Tokens = []string{}, []string{}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"same slot", "[slots]\nmain = 1\n", "the same slot"},
		{"slot", "[slots]\nmain = -1\n", "out of range"},
		{"thinking over all", "[sampling]\nthinking_tokens = 9000\n", "sampling.thinking_tokens"},
		{"zone", "[prompt]\nzone = \"Europe/Nowhere\"\n", "prompt.zone"},
		{"key", "[slots]\nmian = 1\n", "mian"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "loopd.toml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(config.Layout{Config: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
