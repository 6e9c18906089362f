package config

import (
	"errors"
	"strings"
	"testing"
)

// Whatever the file: no panic, every error is an *Error with a runbook key, a
// line inside the file, and no more than a few letters of a text that the
// file has in quotes behind a key named like a secret.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "name = \"x\"\n[server]\nidle = \"1s\"\n", "[[jobs]]\nurl=\"a\"\n", "aliases = {a = \"b\"}", "skip = [\"a\",]", "a.b.c = 1",
		"Name = 1", "name = '''\nx'''", "until = 2027-06-30", "temperature = nan", "name = \"\\uD800\"", "[a]]", "x = [[[[[[", "bot_token = \"hunter2hunter2\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := decode("f", data, preset())
		checkErr(t, data, err)
		const planted = "Zk9mQ2xW8rTgY4bN1sVhL6pD"
		err = decode("f", append([]byte("bot_token = \""+planted+"\"\n"), data...), preset())
		if err == nil {
			t.Fatal("a planted secret was accepted")
		}
		if strings.Contains(err.Error(), planted[:6]) {
			t.Fatalf("a planted secret shows in %q", err)
		}
	})
}

func checkErr(t *testing.T, data []byte, err error) {
	if err == nil {
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Runbook == "" || e.File != "f" {
		t.Fatalf("not a full *Error: %#v", err)
	}
	if e.Line < 0 || e.Line > 1+strings.Count(string(data), "\n") {
		t.Fatalf("line %d of %d", e.Line, strings.Count(string(data), "\n"))
	}
	if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
		t.Fatalf("control characters in %q", e.Error())
	}
}
