package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

// opening takes time and memory of loopd when a long session is asked for that
// is not in memory: until a message in it is on disk, which needs the whole log
// read and every check made.
func opening(t *testing.T) []row {
	s, _ := recorded(t)
	s.Say("chat-bench-model", "bench-model", "hello")
	s.Down()
	messages, size := pick(10_000, 20), pick(50<<20, 20<<10)
	var file int64
	runs := pick(3, 1) // each with a session of its own: the turn changes it
	for i := range runs {
		file = longSession(t, s, fmt.Sprintf("chat-bench-huge-%d", i), messages, size)
	}
	var took, work []time.Duration
	most := 0.0
	for i := range runs {
		s.Up()
		pid := s.PID("loopd")
		before, busy := memory(t, pid, "status", "VmRSS:"), cpu(t, pid)
		took = append(took, accepted(t, s, fmt.Sprintf("chat-bench-huge-%d", i), fmt.Sprintf("bench-huge-more-%d", i), func() {
			work = append(work, cpu(t, pid)-busy)
			most = max(most, memory(t, pid, "status", "VmHWM:")-before)
		}))
		s.Down()
	}
	d, mb := median(took), float64(file)/1e6
	return []row{
		{
			fmt.Sprintf("opening a session of %d messages, %.0f MB", messages, mb), fmt.Sprintf("%.2f s", d.Seconds()), "<= 0.5 s", d <= 500*time.Millisecond,
			fmt.Sprintf("until a message in it is on disk; %.2f s of processor time", median(work).Seconds()),
		},
		{"the same, memory at its highest", fmt.Sprintf("%.1f x file", most/mb), "<= 3 x", most <= 3*mb, fmt.Sprintf("%.0f MB", most)},
	}
}

// accepted submits a message, gives the time until it was on disk, calls then,
// and waits for the end of the turn, whatever that is.
func accepted(t *testing.T, s *stack.Stack, session, origin string, then func()) time.Duration {
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience)
	defer cancel()
	start := time.Now()
	var d time.Duration
	end, err := s.Submit(ctx, &proto.Submit{Session: session, Origin: origin, Text: "hello", Surface: proto.SurfaceAsk}, func(e proto.Message) {
		if _, ok := e.(*proto.Accepted); ok {
			d = time.Since(start)
			then()
		}
	})
	if err != nil || d == 0 {
		t.Fatalf("the session was not opened: %v %v", end, err)
	}
	return d
}

// longSession writes a session of question and answer beside that of the model
// session, with its baseline, and gives its size.
func longSession(t *testing.T, s *stack.Stack, id string, messages, size int) int64 {
	var base proto.Record
	for _, e := range must[[]stack.Epoch](t)(s.Epochs()) {
		if e.Session == "chat-bench-model" {
			base = e.Lines[0].Record
		}
	}
	root := must[*os.Root](t)(os.OpenRoot(s.Layout.Sessions))
	defer root.Close()
	model := must[os.FileInfo](t)(root.Stat("chat-bench-model"))
	if err := root.Mkdir(id, model.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: id + "/0001.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	var batch [][]byte
	add := func(r proto.Record) {
		line, err := proto.EncodeRecord(proto.Header{N: n, Time: time.Now()}, r)
		if err != nil {
			t.Fatal(err)
		}
		n++
		batch = append(batch, line)
	}
	add(base)
	text := strings.Repeat("It was a dark and stormy night. ", size/messages/32)
	for i := range messages / 2 {
		origin := fmt.Sprintf("old-%d", i)
		add(&proto.User{Origin: origin, Surface: proto.SurfaceAsk, Message: message(t, "user", text)})
		add(&proto.Completion{Finish: "stop", CacheN: 10, PromptN: 10, PredictedN: 10})
		add(&proto.Assistant{Message: message(t, "assistant", text)})
		add(&proto.TurnEnd{Origin: origin, Outcome: proto.TurnAnswered})
		if len(batch) > 1000 {
			if err := log.Append(batch...); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := log.Append(batch...); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	own(t, filepath.Join(s.Layout.Sessions, id), filepath.Join(s.Layout.Sessions, "chat-bench-model"))
	return must[os.FileInfo](t)(os.Stat(filepath.Join(s.Layout.Sessions, id, "0001.jsonl"))).Size()
}

func message(t *testing.T, role, text string) jsontext.Value {
	return must[[]byte](t)(json.Marshal(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{role, text}))
}
