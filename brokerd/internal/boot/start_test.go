package boot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/secret"
)

func TestABadKeyIsRefusedAtTheStart(t *testing.T) {
	h := newHouse(t)
	h.try(os.WriteFile(h.at("secrets/"+secret.FileName), []byte("x"), 0o600))
	h.try(os.WriteFile(h.at("keys/brokerd.key"), []byte("x"), 0o640))
	held := h.hold()
	defer held.Close()
	_, err := Open(h.config(held))
	var no *Refused
	if !errors.As(err, &no) {
		t.Errorf("%v", err)
	}
}

func TestADamagedLogIsNoStart(t *testing.T) {
	h := newHouse(t)
	h.start()
	_, err := h.broker(call("s/1/1/0", "read_file", `{"path":"/data/x"}`))
	h.try(err)
	h.stop()
	files, err := filepath.Glob(h.at("audit/*.jsonl"))
	h.try(err)
	text, err := os.ReadFile(files[0])
	h.try(err)
	h.try(os.WriteFile(files[0], []byte(strings.Replace(string(text), "/data/x", "/data/y", 1)), 0o600))
	held := h.hold()
	defer held.Close()
	var no *Refused
	if _, err := Open(h.config(held)); !errors.As(err, &no) || !strings.Contains(err.Error(), "audit-damaged") {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	names := Names(0)
	if got := names(0); got != "root (uid 0)" {
		t.Error(got)
	}
	if got := names(4000000000); got != "uid 4000000000" {
		t.Error(got)
	}
}

func TestClockGoesOn(t *testing.T) {
	c, err := Clock()
	if err != nil {
		t.Fatal(err)
	}
	id, since := c.Boot()
	if len(id) != 36 || since <= 0 || since > time.Duration(1<<62) {
		t.Errorf("%q %v", id, since)
	}
}
