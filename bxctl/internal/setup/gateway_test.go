package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/config"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	idA = "kq3w9tn8ztdgzbuh1jr4xe7mfo"
	idB = "eji4ey4tm7dtpdwgzdu9bfg57c"
)

func chat() Gateway {
	return Gateway{URL: "https://chat.example.com", Owners: []string{idA}, Channels: []string{}}
}

// The keys and types are those of gatewayd's own package, whose source is read here
// because it can't be imported, and so are the names of the token.
func TestGatewayKeysAreThoseOfGatewayd(t *testing.T) {
	src, err := os.ReadFile("../../../gatewayd/internal/settings/settings.go")
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, m := range regexp.MustCompile("(?m)^\\s+\\w+\\s+(\\S+)\\s+`toml:\"([a-z_]+)\"").FindAllStringSubmatch(string(src), -1) {
		theirs = append(theirs, m[2]+" "+m[1])
	}
	slices.Sort(theirs)
	if len(theirs) < 8 {
		t.Fatalf("only %d keys found in gatewayd's source", len(theirs))
	}
	if d := cmp.Diff(theirs, gatewayKeys(reflect.TypeFor[Gateway]())); d != "" {
		t.Errorf("gatewayd's settings (-) and these (+) differ:\n%s", d)
	}
	for _, name := range []string{`StoreName = "` + GatewayStore + `"`, `TokenName = "` + GatewayToken + `"`} {
		if !strings.Contains(string(src), name) {
			t.Errorf("gatewayd's source has no %s", name)
		}
	}
}

func gatewayKeys(t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		out = append(out, f.Tag.Get("toml")+" "+strings.NewReplacer("setup.", "", "Gateway", "").Replace(f.Type.String()))
		if f.Type.Kind() == reflect.Struct {
			out = append(out, gatewayKeys(f.Type)...)
		}
	}
	slices.Sort(out)
	return out
}

func TestGatewayDefaultsAreThoseOfTheFile(t *testing.T) {
	text := chat().put(gatewayText)
	s := Gateway{}
	if _, err := config.Decode(FileGateway, []byte(text), &s); err != nil {
		t.Fatal(err)
	}
	want := DefaultGateway()
	want.URL, want.Owners, want.Channels = s.URL, s.Owners, []string{}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
}

func TestChangeGateway(t *testing.T) {
	mine := "# mine\nowners = [\"" + idA + "\"] # me\nurl = \"https://old.example.com\"\n[limits]\nparts = 9 # many\n"
	for _, c := range []struct {
		name    string
		old     string // "-" for none
		changes []string
		text    string // part of it
	}{
		{"new", "-", []string{`url: "" -> "https://chat.example.com"`, `owners: [] -> ["` + idA + `"]`}, "# config/gatewayd.toml"},
		{"another address", mine, []string{`url: "https://old.example.com" -> "https://chat.example.com"`}, "parts = 9 # many"},
		{"comments stay", mine, []string{`url: "https://old.example.com" -> "https://chat.example.com"`}, "# mine\n"},
		{"so already", strings.Replace(mine, "old.", "chat.", 1), nil, "# mine\n"},
		{"a list over lines", strings.Replace(mine, "[\"", "[\n  \"", 1), []string{`url: "https://old.example.com" -> "https://chat.example.com"`, "comments of yours are lost: the file is laid out in a way that can't be changed line by line"}, "parts    = 9"},
		{"nonsense", "url = ", []string{"the whole file is written anew: what is there can't be used", `url: "" -> "https://chat.example.com"`, `owners: [] -> ["` + idA + `"]`}, "parts    = 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := config.Layout{Config: t.TempDir()}
			path := filepath.Join(l.Config, FileGateway)
			if c.old != "-" {
				if err := os.WriteFile(path, []byte(c.old), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ChangeGateway(l, chat())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.changes, got.Changes); d != "" || got.Old != (c.old != "-") || !strings.Contains(squeeze(got.Text), squeeze(c.text)) {
				t.Errorf("%s\n%s", d, got.Text)
			}
			if now, err := os.ReadFile(path); string(now) != strings.TrimPrefix(c.old, "-") {
				t.Errorf("something was written: %q %v", now, err)
			}
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			kept, err := WriteGateway(l, got, at)
			if err != nil || (kept != "") != (got.Old && c.changes != nil) {
				t.Fatalf("kept %q, %v", kept, err)
			}
			if g, err := LoadGateway(l); err != nil || g.URL != chat().URL || !slices.Equal(g.Owners, chat().Owners) {
				t.Errorf("read back: %+v %v", g, err)
			}
			if kept != "" {
				if b, err := os.ReadFile(filepath.Join(l.Config, kept)); string(b) != c.old {
					t.Errorf("the former file is %q, %v", b, err)
				}
			}
			if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
				t.Errorf("mode %v, %v", fi.Mode(), err)
			}
			if again, err := ChangeGateway(l, chat()); err != nil || len(again.Changes) != 0 {
				t.Errorf("a second time: %q %v", again.Changes, err)
			}
		})
	}
}

// squeeze makes the layout of a table's columns one space.
func squeeze(s string) string { return regexp.MustCompile(` +`).ReplaceAllString(s, " ") }

// Whatever stood there: what is written says what was meant, or nothing is written.
func TestChangeGatewayMeansWhatItSays(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		l := config.Layout{Config: dir}
		old := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"", "# c", `url = "https://x.example"`, "owners = ['" + idB + "']", "owners = [", `"` + idA + `",`, "]", "channels = []", "[limits]", "open = 3", "[secrets]", `key = "/k"`, "plain = true", "url=", `"plain" = false`, "[owners]", "x",
		}), 0, 9).Draw(t, "lines"), "\n")
		if err := os.WriteFile(filepath.Join(dir, FileGateway), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		want := Gateway{
			URL: rapid.SampledFrom([]string{"https://a.example", `https://a"\b`}).Draw(t, "url"), Plain: rapid.Bool().Draw(t, "plain"),
			Owners: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{idA, idB}), 1, 2, rapid.ID).Draw(t, "owners"), Channels: rapid.SliceOfN(rapid.Just(idB), 0, 1).Draw(t, "channels"),
		}
		c, err := ChangeGateway(l, want)
		if err != nil {
			t.Fatal(err)
		}
		was := DefaultGateway()
		if _, err := config.Decode(FileGateway, []byte(old), &was); err != nil {
			was = DefaultGateway()
		}
		if !want.says(c.Text, was) {
			t.Fatalf("%q became\n%s", old, c.Text)
		}
	})
}

func TestLoadGateway(t *testing.T) {
	l := config.Layout{Config: t.TempDir()}
	if _, err := LoadGateway(l); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for text, part := range map[string]string{
		"url = \"https://x\"\n": "nobody would be heard", "owners = [\"" + idA + "\"]\n": "address of the Mattermost server", "owner = 1\n": "owner",
	} {
		if err := os.WriteFile(filepath.Join(l.Config, FileGateway), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadGateway(l); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestGatewaySecret(t *testing.T) {
	l := config.Layout{Secrets: "/s", Keys: "/k"}
	c := chat().Secret(l, false, DefaultSettings())
	if c.Dir != "/s" || c.File != GatewayStore || c.Key.File != "/k/gatewayd.key" || c.Owner != 0 {
		t.Errorf("%+v", c)
	}
	g := chat()
	g.Secrets.Key = "/elsewhere/key"
	if c := g.Secret(l, true, DefaultSettings()); c.Key.File != "/elsewhere/key" || c.Owner != UIDBase+5 {
		t.Errorf("%+v", c)
	}
}
