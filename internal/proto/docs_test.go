package proto

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The tables of docs/formats are held to the code: the same tags, the same
// members in the same order, the same marks.

// tables gives the rows of each section of a page: first column to second.
func tables(t *testing.T, page string) map[string]map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/formats/" + page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	section := ""
	row := regexp.MustCompile("^\\| `([^`]+)`([^|]*)\\| *([^|]*?) *\\|")
	for line := range strings.Lines(string(b)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
			all[section] = map[string]string{}
		}
		if m := row.FindStringSubmatch(line); m != nil {
			key := m[1]
			if section == "Enums" { // `outcome` of a call: …
				key = strings.TrimSpace(strings.TrimSuffix(m[1]+strings.SplitN(m[2], ":", 2)[0], " "))
			}
			all[section][key] = m[3]
		}
	}
	return all
}

// members describes a struct as the tables do.
func members(v any) string {
	typ := reflect.TypeOf(v)
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	var list []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type == reflect.TypeFor[jsontext.Value]() || f.Type == reflect.TypeFor[[]jsontext.Value]() {
			name += "!"
		}
		if strings.HasPrefix(options, "omit") {
			name += "?"
		}
		list = append(list, "`"+name+"`")
	}
	return strings.Join(list, " ")
}

func TestDocsListEveryMember(t *testing.T) {
	wire := tables(t, "wire.md")
	check := func(section string, rows map[string]string, want map[string]any) {
		t.Helper()
		for tag, v := range want {
			if got, ok := rows[tag]; !ok || got != members(v) {
				t.Errorf("%s: %s: the page has %q, the code %s", section, tag, got, members(v))
			}
		}
		for tag := range rows {
			if want[tag] == nil {
				t.Errorf("%s: the page has %s, the code has not", section, tag)
			}
		}
	}
	for _, f := range unionFamilies() {
		peer, side, _ := strings.Cut(f.dir, "-")
		section, u := peer+".sock: "+side+"s", f.union
		if peer == "probe" { // standard input and output
			section = "gatewayd probe: " + side
		}
		want := map[string]any{}
		for _, tag := range u.Tags() {
			want[tag] = u.New(tag)
		}
		check(section, wire[section], want)
	}
	check("Parts", wire["Parts"], map[string]any{
		"usage": Usage{}, "session info": SessionInfo{}, "check": Check{},
		"slot state": SlotState{}, "server": Server{}, "tool info": ToolInfo{},
		"field": Field{}, "explain step": ExplainStep{}, "tool row": ToolRow{}, "audit head": AuditHead{},
		"mount": Mount{}, "launch secret": LaunchSecret{}, "limits": Limits{}, "connection": EgressConn{},
		"probe step": ProbeStep{}, "named": Named{},
	})
	want := map[string]any{}
	for kind, f := range records {
		want[kind] = f()
	}
	check("Records", tables(t, "session-log.md")["Records"], want)
	want = map[string]any{}
	for kind, f := range auditRecords {
		want[kind] = f()
	}
	check("audit Records", tables(t, "audit-log.md")["Records"], want)
}

// enumValues reads the constants of enum*.go, for the compiler keeps no list.
func enumValues(t *testing.T) map[string][]string {
	t.Helper()
	var src []byte
	for _, file := range []string{"enum.go", "enum_authority.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src = append(src, b...)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+\s+(\w+)\s+= "([^"]+)"`).FindAllStringSubmatch(string(src), -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

func TestEnums(t *testing.T) {
	page := tables(t, "wire.md")["Enums"]
	all := enumValues(t)
	for name, e := range map[string]struct {
		row      string
		validate func(string) error
	}{
		"Surface":     {"surface", func(s string) error { return Surface(s).Validate() }},
		"TurnOutcome": {"outcome of a turn", func(s string) error { return TurnOutcome(s).Validate() }},
		"CallOutcome": {"outcome of a call", func(s string) error { return CallOutcome(s).Validate() }},
		"Code":        {"code of a call", func(s string) error { return Code(s).Validate() }},
		"Class":       {"class", func(s string) error { return Class(s).Validate() }},
		"WaitReason":  {"reason", func(s string) error { return WaitReason(s).Validate() }},
		"NoticeKind":  {"kind of a notice", func(s string) error { return NoticeKind(s).Validate() }},
		"Why":         {"why", func(s string) error { return Why(s).Validate() }},
		"ErrCode":     {"code of an error", func(s string) error { return ErrCode(s).Validate() }},
		"Verdict":     {"verdict", func(s string) error { return Verdict(s).Validate() }},
		"Userland":    {"userland", func(s string) error { return Userland(s).Validate() }},
		"EndReason":   {"reason of an end", func(s string) error { return EndReason(s).Validate() }},

		"EgressVerdict": {"verdict of a connection", func(s string) error { return EgressVerdict(s).Validate() }},
	} {
		if len(all[name]) == 0 {
			t.Errorf("no constants of %s found", name)
		}
		for _, v := range all[name] {
			if err := e.validate(v); err != nil {
				t.Errorf("%s refuses its own %q: %v", name, v, err)
			}
		}
		for _, v := range []string{"", "x", strings.ToUpper(all[name][0]), all[name][0] + " "} {
			if e.validate(v) == nil {
				t.Errorf("%s takes %q", name, v)
			}
		}
		if got, want := page[e.row], "`"+strings.Join(all[name], "` `")+"`"; got != want {
			t.Errorf("wire.md, %q has %s\nthe code has %s", e.row, got, want)
		}
		delete(all, name)
	}
	for name := range all {
		if !slices.Contains([]string{"string"}, name) {
			t.Errorf("enum %s is in no test", name)
		}
	}
}
