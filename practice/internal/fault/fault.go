// Package fault holds the failures that a test has ordered: what goes wrong,
// with which requests, and after how much of the answer.
//
// It guarantees that an order is used as often as it says, in the order of
// ordering, whatever the number of requests at once. What a fault does is the
// business of package api.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Kind names a failure.
type Kind string

// The failures. Those marked [stream] come after Fault.After tokens of the
// answer; all others instead of it or in it.
const (
	Loading      Kind = "loading"       // 503 "Loading model" on every route
	Unauthorised Kind = "unauthorised"  // 401
	HTML         Kind = "html"          // a page instead of JSON
	Exceeded     Kind = "exceeded"      // 400 exceed_context_size_error
	ServerError  Kind = "server-error"  // 500 before the stream
	Evict        Kind = "evict"         // the slot is found empty
	Stall        Kind = "stall"         // [stream] no more bytes, no pings, until the client goes
	Cut          Kind = "cut"           // [stream] a clean end without [DONE]
	Disconnect   Kind = "disconnect"    // [stream] the connection breaks
	Error        Kind = "error"         // [stream] an error event, then the end
	KVFull       Kind = "kv-full"       // [stream] the error event "Context size has been exceeded."
	ContextFull  Kind = "context-full"  // [stream] length, the total at n_ctx
	Drip         Kind = "drip"          // [stream] from there one token every Fault.MS
	BadUTF8      Kind = "bad-utf8"      // [stream] an event with broken UTF-8
	BigEvent     Kind = "big-event"     // [stream] an event of Fault.Bytes bytes
	BadJSON      Kind = "bad-json"      // [stream] an event that is no JSON
	Empty        Kind = "empty"         // stop, and nothing said
	ThoughtOnly  Kind = "thought-only"  // stop, a thought and nothing said
	CutArguments Kind = "cut-arguments" // length in the middle of a call's arguments
	Markup       Kind = "markup"        // a tool call as text in the content
	Duplicate    Kind = "duplicate-index"
	UnknownTool  Kind = "unknown-tool"
	BadArguments Kind = "bad-json-args"
	LongThought  Kind = "long-thought" // the reasoning fills max_tokens, whatever the budget
	Clear        Kind = "clear"        // not a failure: forget all orders
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		Loading, Unauthorised, HTML, Exceeded, ServerError, Evict, Stall, Cut, Disconnect, Error, KVFull, ContextFull, Drip,
		BadUTF8, BigEvent, BadJSON, Empty, ThoughtOnly, CutArguments, Markup, Duplicate, UnknownTool, BadArguments, LongThought, Clear,
	}
}

// A Fault is one order. The zero values of Times, MS and Bytes stand for 1 time,
// 200 ms and 10 MiB.
type Fault struct {
	Kind  Kind `json:"kind"`
	After int  `json:"after,omitzero"` // tokens of the answer before it
	Times int  `json:"times,omitzero"` // how many requests; -1: all
	Skip  int  `json:"skip,omitzero"`  // how many matching requests go unharmed first
	Slot  *int `json:"slot,omitzero"`  // only requests that name this slot
	MS    int  `json:"ms,omitzero"`    // of drip
	Bytes int  `json:"bytes,omitzero"` // of big-event
}

// ErrKind reports a kind that there is not.
var ErrKind = errors.New("fault: unknown kind")

// Decode reads an order from JSON. Unknown members are an error: a test that
// misspells one should hear of it.
func Decode(b []byte) (Fault, error) {
	var f Fault
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return f, fmt.Errorf("fault: %w", err)
	}
	return f, f.check()
}

// Parse reads an order from a flag: KIND, or KIND,after=N,times=N,skip=N,slot=N,ms=N,bytes=N.
func Parse(s string) (Fault, error) {
	kind, rest, _ := strings.Cut(s, ",")
	f := Fault{Kind: Kind(kind)}
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, ",")
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return f, fmt.Errorf("fault: %q is not KEY=NUMBER", pair)
		}
		switch key {
		case "after":
			f.After = n
		case "times":
			f.Times = n
		case "skip":
			f.Skip = n
		case "slot":
			f.Slot = &n
		case "ms":
			f.MS = n
		case "bytes":
			f.Bytes = n
		default:
			return f, fmt.Errorf("fault: unknown key %q", key)
		}
	}
	return f, f.check()
}

func (f Fault) check() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("%w: %q (there are %v)", ErrKind, f.Kind, Kinds())
	}
	if f.After < 0 || f.Times < -1 || f.Skip < 0 || f.MS < 0 || f.Bytes < 0 || f.Bytes > 256<<20 {
		return errors.New("fault: a number is out of range")
	}
	return nil
}

// A Box holds the orders that are still to be carried out.
type Box struct {
	mu     sync.Mutex
	orders []Fault
}

// Put adds an order; [Clear] removes all.
func (b *Box) Put(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.MS == 0 {
		f.MS = 200
	}
	if f.Bytes == 0 {
		f.Bytes = 10 << 20
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Kind == Clear {
		b.orders = nil
		return
	}
	b.orders = append(b.orders, f)
}

// Chat takes the fault of a chat request that names this slot (-1: none), or
// the zero Fault. [Loading] is not its business.
func (b *Box) Chat(slot int) Fault {
	return b.take(func(f Fault) bool { return f.Kind != Loading && (f.Slot == nil || *f.Slot == slot) })
}

// Loading takes one use of a [Loading] order, and says whether there was one.
func (b *Box) Loading() bool {
	return b.take(func(f Fault) bool { return f.Kind == Loading }).Kind == Loading
}

func (b *Box) take(match func(Fault) bool) Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.orders {
		f := &b.orders[i]
		if !match(*f) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			return Fault{}
		}
		taken := *f
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 {
			b.orders = append(b.orders[:i], b.orders[i+1:]...)
		}
		return taken
	}
	return Fault{}
}

// Left are the orders that wait.
func (b *Box) Left() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.orders)
}
