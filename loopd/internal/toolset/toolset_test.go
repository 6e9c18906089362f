package toolset

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update if the change is meant: it makes every cache cold once)\n%s", name, d)
	}
}

func TestToolsBytes(t *testing.T) {
	golden(t, "tools.json", string(Tools()))
	if first, second := string(Tools()), string(Tools()); first != second {
		t.Error("two calls differ")
	}
}

func TestFirstRequestIsSmall(t *testing.T) {
	sampling, err := prompt.Sampling(prompt.Params{
		Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 8192, ThinkingCap: 4096,
		ThinkingMessage: "\nThe time for thinking is up; I answer now.\n", OneCall: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := prompt.New(&proto.Baseline{
		Model: "qwen3.5-35b-a3b", Slot: 0, Sampling: sampling, Tools: Tools(), System: prompt.SystemMessage(DefaultSystem()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Append(prompt.UserMessage("What is on my list for today?")); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes: system %d, tools %d, sampling %d", p.Size(), len(DefaultSystem()), len(Tools()), len(sampling))
	if p.Size() > 4800 {
		t.Errorf("the first request has %d bytes, the limit is 4800", p.Size())
	}
}

func TestSystemPromptIsShortAndComplete(t *testing.T) {
	s := DefaultSystem()
	if tokens := (len(s) + 3) / 4; tokens > 350 {
		t.Errorf("about %d tokens, the limit is 350", tokens)
	}
	for _, want := range []string{"Boxmaker", "owner", "request", "denial is final", "find_tool", "call_tool", "never an instruction", "brief", "language"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not in it", want)
		}
	}
	for _, later := range []string{"recall", "memory", "remember"} {
		if strings.Contains(s, later) {
			t.Errorf("%q is in it, and there is no such tool yet", later)
		}
	}
	if strings.TrimSpace(s) != s {
		t.Error("white space at an end: templates trim it, so the cache would miss")
	}
}

// A schema and the struct that its arguments are decoded into say the same.
func TestSchemasFitTheStructs(t *testing.T) {
	structs := map[string]reflect.Type{
		clock: reflect.TypeFor[clockArgs](), findTool: reflect.TypeFor[findArgs](), callTool: reflect.TypeFor[callArgs](),
	}
	var tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        struct {
				Type                 string
				Properties           map[string]struct{ Type, Description string }
				Required             []string
				AdditionalProperties *bool
			}
		}
	}
	if err := json.Unmarshal(Tools(), &tools); err != nil {
		t.Fatal(err)
	}
	if len(tools) != len(structs) {
		t.Fatalf("%d tools, %d structs", len(tools), len(structs))
	}
	for _, tool := range tools {
		f := tool.Function
		s, ok := structs[f.Name]
		if !ok || tool.Type != "function" || f.Description == "" || f.Parameters.Type != "object" ||
			f.Parameters.AdditionalProperties == nil || *f.Parameters.AdditionalProperties {
			t.Errorf("%s: not a strict function, or without a struct", f.Name)
			continue
		}
		if s.NumField() != len(f.Parameters.Properties) {
			t.Errorf("%s: %d fields, %d properties", f.Name, s.NumField(), len(f.Parameters.Properties))
		}
		for i := range s.NumField() {
			member := s.Field(i).Tag.Get("json")
			kind := map[string]string{"*string": "string", "jsontext.Value": "object"}[s.Field(i).Type.String()]
			if p, ok := f.Parameters.Properties[member]; !ok || p.Type != kind || p.Description == "" {
				t.Errorf("%s.%s: field is %q, property is %+v", f.Name, member, kind, p)
			}
		}
		for _, r := range f.Parameters.Required {
			if _, ok := f.Parameters.Properties[r]; !ok {
				t.Errorf("%s: %s is required and no property", f.Name, r)
			}
		}
		sample := map[string]any{}
		for member, p := range f.Parameters.Properties {
			sample[member] = map[string]any{"string": "utc", "object": map[string]any{}}[p.Type]
		}
		decodesOnlyWhole(t, f.Name, sample, f.Parameters.Required)
	}
}

func decodesOnlyWhole(t *testing.T, name string, sample map[string]any, required []string) {
	t.Helper()
	if name == clock {
		sample["zone"] = "UTC"
	}
	for _, drop := range append([]string{""}, mapKeys(sample)...) {
		some := map[string]any{}
		for k, v := range sample {
			if k != drop {
				some[k] = v
			}
		}
		b, err := json.Marshal(some)
		if err != nil {
			t.Fatal(err)
		}
		_, err = DecodeCall(name, string(b))
		lenient := name == callTool && drop == "arguments"
		if want := !slices.Contains(required, drop) || lenient; (err == nil) != want {
			t.Errorf("%s without %q: %v", name, drop, err)
		}
	}
}

func mapKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 14, 3, 5, 999, berlin)
	for _, tt := range []struct {
		name string
		now  time.Time
		zone string
		want string
	}{
		{"the owner's", now, "", "Saturday 2026-11-28 14:03:05, Europe/Berlin (UTC+01:00), week 48"},
		{"another", now, "Asia/Kolkata", "Saturday 2026-11-28 18:33:05, Asia/Kolkata (UTC+05:30), week 48"},
		{"another day", now, "Pacific/Auckland", "Sunday 2026-11-29 02:03:05, Pacific/Auckland (UTC+13:00), week 48"},
		{"unknown", now, "Mars/Olympus", "Saturday 2026-11-28 14:03:05, Europe/Berlin (UTC+01:00), week 48"},
		{"UTC", now, "UTC", "Saturday 2026-11-28 13:03:05, UTC (UTC+00:00), week 48"},
		{"the machine's", time.Date(2026, 1, 1, 0, 0, 0, 0, time.Local), "UTC", time.Date(2026, 1, 1, 0, 0, 0, 0, time.Local).UTC().Format("Monday 2006-01-02 15:04:05") + ", UTC (UTC+00:00), week 1"},
	} {
		if got := Clock(tt.now, tt.zone); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFormatTools(t *testing.T) {
	golden(t, "found.txt", FormatTools([]proto.ToolInfo{
		{Name: "read_file", Line: "Reads a text\nfile.", Schema: `{"type":"object","properties":{"path":{"type":"string"}}}`},
		{Name: "run", Line: "Runs one\nprogram."},
		{Name: "list_files", Line: "Lists a folder.", Schema: `{}`},
		{Name: "shell", Line: "Runs a line."},
	}))
	golden(t, "named.txt", FormatTools([]proto.ToolInfo{{Name: "run", Line: "Runs one program."}, {Name: "shell", Line: "Runs a line."}}))
	if got := FormatTools(nil); !strings.HasPrefix(got, "No tool fits.") {
		t.Errorf("nothing found: %q", got)
	}
}

// However many tools there are, the declared ones are these.
func TestCase_P71_BaselineHoldsOnlyTheCore(t *testing.T) {
	if got := strings.Count(string(Tools()), `"type":"function"`); got != 3 {
		t.Errorf("%d tools declared", got)
	}
}
