package turn

import "github.com/go-json-experiment/json/jsontext"

// verdict is what the runaway control says of one call.
type verdict int

const (
	pass   verdict = iota
	refuse         // the call is not run and the model is told why
	halt           // the turn ends
)

// Repeats of the same block of calls, in a row, at which judge steps in.
const (
	refuseAt  = 3
	haltAt    = 4
	maxPeriod = 3 // A,A,A · A,B,A,B,A,B · A,B,C,A,B,C,A,B,C
)

// judge looks at the newest call, the last of history, and tells whether it
// continues a block of one to three calls that repeats. Calls that differ in
// between start the count anew, so a program that is polled among other work is
// no runaway.
func judge(history []string) verdict {
	worst := pass
	for p := 1; p <= maxPeriod; p++ {
		switch n := repeats(history, p); {
		case n >= haltAt:
			return halt
		case n >= refuseAt:
			worst = refuse
		}
	}
	return worst
}

// repeats counts how often the last p entries stand in a row at the end.
func repeats(h []string, p int) int {
	if len(h) < p {
		return 0
	}
	n := 1
	for end := len(h) - p; end >= p; end -= p {
		for i := range p {
			if h[end-p+i] != h[len(h)-p+i] {
				return n
			}
		}
		n++
	}
	return n
}

// signature is equal for calls that mean the same: arguments are compared in
// canonical form, so that other white space or key order is no way around.
func signature(name, args string) string {
	v := jsontext.Value(args)
	if v.Canonicalize() != nil {
		v = jsontext.Value(args)
	}
	return name + "\x00" + string(v)
}
