package up

import (
	"os"
	"testing"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
)

// A client that is started before the one who listens finds the key all the same.
func TestKeysAreThereFirst(t *testing.T) {
	home := t.TempDir()
	l, err := config.Locate(func(k string) string { return map[string]string{"BOXMAKER_HOME": home}[k] })
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		role string
		root bool
		want bool
	}{{"runnerd", false, true}, {roleLoopd, false, true}, {roleProxy, false, false}, {rolePractice, false, false}} {
		r := Role{Name: tc.role, Sockets: []Socket{{Name: "x", Client: "c", File: "x"}}}
		o, err := listen(l, r, setup.DefaultSettings(), tc.root)
		if err != nil {
			if os.MkdirAll(l.Run+"/"+tc.role+"/c", 0o700) != nil {
				t.Fatal(err)
			}
			if o, err = listen(l, r, setup.DefaultSettings(), tc.root); err != nil {
				t.Fatal(err)
			}
		}
		o.close()
		if _, err := os.Stat(l.Socket(tc.role, "c", "x") + ".key"); (err == nil) != tc.want {
			t.Errorf("%s: the key is there: %v", tc.role, err == nil)
		}
	}
}
