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

func TestFoldersThroughDescriptors(t *testing.T) {
	h := newHouse(t)
	held, err := Hold(Folders{
		Audit: h.at("audit"), State: h.at("state"), Grants: h.at("grants"), Secrets: h.at("secrets"), Key: secret.Key{File: h.at("keys/brokerd.key")},
	}, os.Getuid()+1)
	h.try(err)
	defer held.Close()
	set, err := held.Grants().Read()
	if err != nil || len(set.Grants) != 3 {
		t.Errorf("%d grants, %v", len(set.Grants), err)
	}
	c := held.Secrets()
	if !strings.HasPrefix(c.Dir, "/proc/self/fd/") || !strings.HasPrefix(c.Key.File, "/proc/self/fd/") || c.Owner != os.Getuid()+1 {
		t.Errorf("%+v", c)
	}
	if got := held.Show("the key " + c.Key.File + " is not there"); got != "the key "+h.at("keys/brokerd.key")+" is not there" {
		t.Error(got)
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
