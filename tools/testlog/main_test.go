package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	const skip = `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: no tmux here\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	const fail = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	const build = `{"ImportPath":"p","Action":"build-output","Output":"p/x.go:1: undefined: y\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`
	tests := []struct {
		name, in string
		notes    []string
		ok       bool
		has, not []string
	}{
		{"pass", pass, nil, true, []string{"ok  \tp\t0.1s\n", "\n1 passed, 0 failed, 0 skipped\n"}, []string{"chatter", "NOT RUN"}},
		{"skip", pass + skip, nil, true, []string{"NOT RUN: p TestB: no tmux here\n", "1 passed, 0 failed, 1 skipped\n"}, nil},
		{
			"skips of one reason", pass + skip + strings.ReplaceAll(skip, "TestB", "TestD"), nil, true,
			[]string{"NOT RUN: p TestB, TestD: no tmux here\n", "1 passed, 0 failed, 2 skipped\n"},
			nil,
		},
		{"fail", pass + fail, nil, false, []string{"got 1, want 2", "FAIL\tp", "1 passed, 1 failed, 0 skipped\n"}, nil},
		{"build", pass + build, nil, false, []string{"undefined: y", "1 passed, 1 failed, 0 skipped"}, nil},
		{"note", pass, []string{"the moon"}, true, []string{"NOT RUN: the moon\n"}, nil},
		{"nothing ran", "", nil, false, []string{"0 passed"}, nil},
		{"other words", "go: no such thing\n" + pass, nil, true, []string{"go: no such thing\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			r := report{out: &out, output: map[string][]string{}, failedIn: map[string]bool{}}
			if err := r.read(strings.NewReader(tt.in)); err != nil {
				t.Fatal(err)
			}
			if ok := r.close(tt.notes); ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			for _, s := range tt.has {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output lacks %q:\n%s", s, out.String())
				}
			}
			for _, s := range tt.not {
				if strings.Contains(out.String(), s) {
					t.Errorf("output has %q:\n%s", s, out.String())
				}
			}
		})
	}
}
