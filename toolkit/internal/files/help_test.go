package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
	"boxmaker/toolkit/internal/tree"

	"github.com/go-json-experiment/json"
)

// kit calls tools on a folder as a model does: by their JSON.
type kit struct {
	seen  string // by the preview that was approved
	t     *testing.T
	dir   string
	limit int64
	ctx   context.Context
}

func newKit(t *testing.T) *kit {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &kit{t: t, dir: dir, limit: tool.DefaultOutput, ctx: t.Context()}
}

func (k *kit) file(name, text string) string {
	k.t.Helper()
	at := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
	return at
}

func (k *kit) text(name string) string {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(b)
}

type args = map[string]any

// call decodes the arguments and runs the tool. A path is taken from the folder.
func (k *kit) call(name string, preview bool, a args) tool.Output {
	k.t.Helper()
	a["path"] = filepath.Join(k.dir, a["path"].(string))
	b, err := json.Marshal(a)
	if err != nil {
		k.t.Fatal(err)
	}
	c, err := tool.Find(name).Decode(string(b))
	if err != nil {
		k.t.Fatal(err)
	}
	w := Work{Tree: tree.Set{Write: []string{k.dir}}, Limit: k.limit, Preview: preview, Seen: k.seen}
	var out tool.Output
	switch a := c.Args.(type) {
	case *tool.ListFiles:
		out = List(k.ctx, w, a)
	case *tool.ReadFile:
		out = Read(k.ctx, w, a)
	case *tool.SearchFiles:
		out = Search(k.ctx, w, a)
	case *tool.WriteFile:
		out = Write(k.ctx, w, a)
	case *tool.EditFile:
		out = Edit(k.ctx, w, a)
	}
	if _, err := tool.EncodeOutput(out); err != nil {
		k.t.Fatalf("%s: no output: %v", name, err)
	}
	if tooltext.Cost(out.Text) > 2*k.limit {
		k.t.Fatalf("%s: %d bytes, limit %d", name, len(out.Text), k.limit)
	}
	if out.Code != "" && (!strings.HasPrefix(out.Text, string(out.Code)+": ") || !strings.HasSuffix(out.Text, ".")) {
		k.t.Errorf("%s: no sentence: %q", name, out.Text)
	}
	return out
}

func (k *kit) do(name string, a args) tool.Output { k.t.Helper(); return k.call(name, false, a) }

// want checks for a text, after the folder's name is taken out.
func (k *kit) want(out tool.Output, want string) {
	k.t.Helper()
	if got := strings.ReplaceAll(out.Text, k.dir, "DIR"); got != want {
		k.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func (k *kit) has(out tool.Output, want string) {
	k.t.Helper()
	if got := strings.ReplaceAll(out.Text, k.dir, "DIR"); !strings.Contains(got, want) {
		k.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
