package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		text string
		code int
	}{
		{"plain error", errors.New("no\x1b[2J"), "bxctl: no␛[2J\n", Failed},
		{
			"whole", &Fault{Code: NotRunning, What: "it is away", Means: "nothing runs", Do: "start it", Key: "k"},
			"bxctl: it is away\n  nothing runs\n  start it\n  (see runbook: k)\n", NotRunning,
		},
		{"cause with a key of its own", &Fault{What: "a", Err: errors.New("b (see runbook: x); c"), Key: "k"}, "bxctl: a: b; c\n  (see runbook: k)\n", Failed},
		{"only the cause has a key", &Fault{What: "a", Err: errors.New("b (see runbook: x)")}, "bxctl: a: b (see runbook: x)\n", Failed},
		{"wrapped", fmt.Errorf("x: %w", &Fault{Code: Usage, What: "a", Tail: []string{"l1\x1b", "l2"}}), "bxctl: a\n  last lines:\n    l1␛\n    l2\n", Usage},
		{"text of a server", &Fault{What: "a", Means: "one\ntwo\x1b]0;x\a"}, "bxctl: a\n  one\n  two␛]0;x␇\n", Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Text(c.err); got != c.text {
				t.Errorf("text %q, want %q", got, c.text)
			}
			if got := Code(c.err); got != c.code {
				t.Errorf("code %d, want %d", got, c.code)
			}
		})
	}
	if Code(nil) != OK {
		t.Error("nil has a code")
	}
	if f := (&Fault{What: "a", Err: io.EOF, Means: "b", Do: "c", Key: "k"}); f.Error() != "a: EOF; b; c (see runbook: k)" || !errors.Is(f, io.EOF) {
		t.Errorf("%q", f.Error())
	}
}
