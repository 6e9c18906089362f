package secret

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestTextNeverPrints tries every way out that Go has for a value, also inside
// of other values, in unexported members, maps and pointers.
func TestTextNeverPrints(t *testing.T) {
	const canary = "canary-value-1234"
	v := NewText(canary)
	type inner struct{ hidden, Shown Text }
	for _, x := range []any{v, &v, inner{v, v}, &inner{v, v}, []Text{v}, map[string]Text{"a": v}, []any{v}, fmt.Errorf("bad: %v", v), Named{"a", v}, struct{ e any }{v}} {
		var all strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%p", "%c"} {
			fmt.Fprintf(&all, verb+"\n", x)
		}
		all.WriteString(fmt.Sprint(x))
		for _, marshal := range []func(any) ([]byte, error){func(a any) ([]byte, error) { return json.Marshal(a) }, stdjson.Marshal} {
			b, err := marshal(x)
			fmt.Fprintf(&all, "%s %v\n", b, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "x", x)
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "x", x)
		all.Write(log.Bytes())
		if s := all.String(); strings.Contains(s, canary) || strings.Contains(s, fmt.Sprintf("%x", canary)) || strings.Contains(s, fmt.Sprintf("%X", canary)) {
			t.Errorf("%T printed it:\n%s", x, s)
		}
	}
	if v.Reveal() != canary || (Text{}).Reveal() != "" {
		t.Error("Reveal gives another value")
	}
	if got := fmt.Sprintf("%v %s %#v", v, v, v); got != "[secret] [secret] [secret]" {
		t.Errorf("prints as %s", got)
	}
}
