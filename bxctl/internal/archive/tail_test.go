package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

// turns makes the records of n turns with a call each.
func turns(session string, epoch, n int) []proto.Record {
	out := []proto.Record{&proto.Baseline{Model: "m", Sampling: raw(`{}`), Tools: raw(`[]`), System: raw(`{}`), Window: 4096}}
	for i := range n {
		call := fmt.Sprintf("%s/%d/%d/0", session, epoch, len(out)+1)
		out = append(out,
			&proto.User{Origin: fmt.Sprintf("o-%d-%d", epoch, i), Surface: proto.SurfaceChat, Message: raw(fmt.Sprintf(`{"role":"user","content":"question %d of %d"}`, i, epoch))},
			&proto.Assistant{Message: raw(`{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"c","function":{"name":"clock","arguments":"{}"}}]}`)},
			&proto.Completion{Finish: "tool_calls", CacheN: 10, PromptN: 20, PredictedN: 5},
			&proto.Tool{Call: call, Outcome: proto.CallOK, Class: proto.ClassPublic, MS: 7, Message: raw(`{"role":"tool","content":"noon"}`)},
			&proto.Assistant{Message: raw(fmt.Sprintf(`{"role":"assistant","content":"answer %d"}`, i))},
			&proto.Completion{Finish: "stop", CacheN: 100, PromptN: 20, PredictedN: int64(i)},
			&proto.TurnEnd{Origin: fmt.Sprintf("o-%d-%d", epoch, i), Outcome: proto.TurnAnswered},
		)
	}
	return out
}

// TestBeforeGivesTheWhole: read piece by piece from the end, a session is the
// same as read at once, over its epochs.
func TestBeforeGivesTheWhole(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "chat-a", 1, turns("chat-a", 1, 30)...)
	write(t, dir, "chat-a", 2, turns("chat-a", 2, 7)...)
	f := Files{Dir: dir}
	read := func(n int) (all []Item, pieces int) {
		t.Helper()
		var at Mark
		for !at.AtStart() {
			items, next, err := f.Before(t.Context(), "chat-a", at, n)
			if err != nil {
				t.Fatal(err)
			}
			all, at = append(items, all...), next
			pieces++
		}
		return all, pieces
	}
	whole, pieces := read(100000)
	if len(whole) != 37*5 || pieces != 1 {
		t.Fatalf("%d items in %d pieces", len(whole), pieces)
	}
	if d := cmp.Diff([]Item{
		{Role: "user", Text: "question 0 of 1", Origin: "o-1-0", Surface: proto.SurfaceChat},
		{Role: "assistant", Thinking: "hm"},
		{Role: "call", Text: "noon", Call: &Call{ID: "chat-a/1/2/0", Tool: "clock", Args: "{}", Ended: true, Outcome: proto.CallOK, Class: proto.ClassPublic, MS: 7}},
		{Role: "assistant", Text: "answer 0"},
		{Role: "turn", Origin: "o-1-0"},
	}, whole[:5], cmp.FilterPath(func(p cmp.Path) bool {
		return slices.Contains([]string{".Time", ".Epoch", ".Record"}, p.Last().String())
	}, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	if it := whole[len(whole)-1]; it.Epoch != 2 || it.Record == 0 || whole[0].Epoch != 1 || whole[0].Record != 1 {
		t.Errorf("places: %+v and %+v", whole[0], it)
	}
	for _, n := range []int{1, 3, 12, 100} {
		got, pieces := read(n)
		if d := cmp.Diff(whole, got); d != "" || pieces < 2 {
			t.Errorf("%d at once: %d pieces, %s", n, pieces, d)
		}
	}
	context, window, err := f.Fill("chat-a")
	if err != nil || context != 126 || window != 4096 {
		t.Errorf("Fill gives %d of %d, %v", context, window, err)
	}
	if _, _, err := f.Before(t.Context(), "chat-none", Mark{}, 5); err == nil {
		t.Error("a session that is not there was read")
	}
}

func TestBeforeOfADamagedLog(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "chat-a", 1, turns("chat-a", 1, 3)...)
	damage(t, dir, "chat-a")
	if _, _, err := (Files{Dir: dir}).Before(t.Context(), "chat-a", Mark{}, 1000); !errors.Is(err, appendlog.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestJoinWithoutNames: what loopd tells has no ids, and still finds its call.
func TestJoinWithoutNames(t *testing.T) {
	var items []Item
	for _, p := range []*proto.Past{
		{Role: "user", Text: "q"},
		{Role: "assistant", Text: "I look", Tool: "a", Args: "{}"},
		{Role: "assistant", Tool: "b", Args: "{}"},
		{Role: "tool", Text: "of a"},
		{Role: "tool", Text: "of b"},
		{Role: "tool", Text: "of nothing", Call: "c/1/2/9", Outcome: proto.CallDenied, Code: proto.CodeNoGrant, Class: proto.ClassPublic, MS: 3},
		{Role: "assistant", Text: "so"},
		{Role: "turn", Text: "answered"},
		{Role: "turn", Text: "failed"},
	} {
		items = append(items, FromPast(p)...)
	}
	want := []Item{
		{Role: "user", Text: "q"},
		{Role: "assistant", Text: "I look"},
		{Role: "call", Text: "of a", Call: &Call{Tool: "a", Args: "{}"}},
		{Role: "call", Text: "of b", Call: &Call{Tool: "b", Args: "{}"}},
		{Role: "call", Text: "of nothing", Call: &Call{ID: "c/1/2/9", Tool: "a tool", Ended: true, Outcome: proto.CallDenied, Code: proto.CodeNoGrant, Class: proto.ClassPublic, MS: 3}},
		{Role: "assistant", Text: "so"},
		{Role: "turn"},
		{Role: "turn", Text: "failed"},
	}
	if d := cmp.Diff(want, Join(items)); d != "" {
		t.Error(d)
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "chat-a", 1, turns("chat-a", 1, 3)...)
	write(t, dir, "chat-b", 1, turns("chat-b", 1, 1)...)
	f := Files{Dir: dir}
	for _, c := range []struct {
		name string
		s    Search
		hits int
		more bool
	}{
		{"any case", Search{Text: "QUESTION", Limit: 50}, 4, false},
		{"a result", Search{Text: "noon", Limit: 50}, 4, false},
		{"an answer", Search{Text: "answer 2", Limit: 50}, 1, false},
		{"nothing", Search{Text: "no such text", Limit: 50}, 0, false},
		{"a name of JSON", Search{Text: "content", Limit: 50}, 0, false},
		{"limit", Search{Text: "question", Limit: 2}, 2, true},
		{"as many as the limit", Search{Text: "question", Limit: 4}, 4, false},
		{"before", Search{Text: "question", Limit: 50, Until: start}, 0, false},
		{"after", Search{Text: "question", Limit: 50, Since: start.Add(24 * time.Hour)}, 0, false},
		{"within", Search{Text: "question", Limit: 50, Since: start, Until: start.Add(24 * time.Hour)}, 4, false},
	} {
		got, err := f.Search(t.Context(), c.s)
		if err != nil || len(got.Hits) != c.hits || got.More != c.more || got.Unread != nil {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestSearchPastDamage: a damaged log and one that can't be entered are named, and
// hide no others.
func TestSearchPastDamage(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"chat-bad", "chat-fine", "chat-shut"} {
		write(t, dir, id, 1, turns(id, 1, 3)...)
	}
	write(t, dir, "chat-bad", 2, turns("chat-bad", 2, 3)...)
	damage(t, dir, "chat-bad")
	want := []string{"chat-bad/0001.jsonl"}
	if os.Geteuid() != 0 { // whom nothing is shut to
		if err := os.Chmod(filepath.Join(dir, "chat-shut"), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "chat-shut"), 0o700) })
		want = []string{"chat-shut", "chat-bad/0001.jsonl"}
	}
	got, err := (Files{Dir: dir}).Search(t.Context(), Search{Text: "question 2", Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, h := range got.Hits {
		seen[fmt.Sprint(h.Session, "/", h.Epoch)] = true
	}
	if !seen["chat-fine/1"] || !seen["chat-bad/2"] || seen["chat-bad/1"] {
		t.Errorf("found in %v", seen)
	}
	var files []string
	for _, u := range got.Unread {
		files = append(files, u.File)
		if !strings.Contains(u.Why, u.File) {
			t.Errorf("%q does not name the file", u.Why)
		}
	}
	if d := cmp.Diff(want, files); d != "" {
		t.Error(d)
	}
	var f *fault.Fault
	if err := Incomplete(got.Unread); !errors.As(err, &f) || fault.Code(err) != fault.Failed || !strings.Contains(err.Error(), "chat-bad/0001.jsonl") {
		t.Error(err)
	}
	if err := Incomplete(nil); err != nil {
		t.Error(err)
	}
}

func TestFindKeepsTheSurroundings(t *testing.T) {
	got, ok := find(strings.Repeat("é", 100)+" Needle "+strings.Repeat("x", 100), "needle")
	if want := "…" + strings.Repeat("é", 59) + " Needle " + strings.Repeat("x", 59) + "…"; !ok || got != want {
		t.Errorf("got %q", got)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("İstanbul é", "i̇s")
	f.Fuzz(func(t *testing.T, s, what string) { find(s, strings.ToLower(what)) })
}

// damage changes a byte in the middle of a session's first log.
func damage(t *testing.T, dir, id string) {
	t.Helper()
	path := filepath.Join(dir, id, fileName(1))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
