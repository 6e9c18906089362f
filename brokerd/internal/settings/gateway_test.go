package settings

import (
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

func TestWhatMayBeAnsweredInAChat(t *testing.T) {
	s, err := load(t, "[gateway]\napprove = false\nmax_taint = \"public\"\nnever = [\"shell\", \"run\"]\n")
	if err != nil || s.Gateway.Approve || s.Gateway.MaxTaint != proto.ClassPublic || !slices.Equal(s.Gateway.Never, []string{"shell", "run"}) {
		t.Errorf("%+v %v", s.Gateway, err)
	}
	if d := Default().Gateway; !d.Approve || d.MaxTaint != proto.ClassPrivate || len(d.Never) != 0 {
		t.Errorf("%+v", d)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no class", "max_taint = \"top\"", "gateway.max_taint"},
		{"an empty class", "max_taint = \"\"", "gateway.max_taint"},
		{"no tool", "never = [\"shell\", \"shel\"]", "gateway.never"},
		{"unknown key", "approved = true", "approved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := load(t, "[gateway]\n"+tc.text+"\n"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
