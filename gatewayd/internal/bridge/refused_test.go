package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestCaseP37: an edit or a post that the server does not take is followed by others
// that it does.
func TestCaseP37(t *testing.T) {
	long := strings.Repeat("Lorem ipsum dolor sit amet.\n\n", 300) // 8700 runes: a file here
	for _, c := range []struct {
		name   string
		answer string
		limit  int
		refuse func(Do) bool
		check  func(t *testing.T, posts []Do)
	}{
		{"the edit is refused", "short", 1000, func(d Do) bool { return d.Kind == Patch }, func(t *testing.T, posts []Do) {
			if len(posts) != 2 || posts[1].Text != "short" {
				t.Errorf("%+v", posts)
			}
		}},
		{"a server that takes less than it says", long, 9000, func(d Do) bool { return len([]rune(d.Text)) > 4000 }, func(t *testing.T, posts []Do) {
			all := ""
			for _, p := range posts {
				if !strings.HasPrefix(p.Text, "⏳") {
					all += p.Text
				}
			}
			if strings.Count(all, "Lorem") != 300 {
				t.Errorf("%d of 300 paragraphs", strings.Count(all, "Lorem"))
			}
		}},
		{"a server without files", long, 1000, func(d Do) bool { return d.File != "" }, func(t *testing.T, posts []Do) {
			all := ""
			for _, p := range posts[1:] {
				all += p.Text
			}
			if strings.Count(all, "Lorem") != 300 {
				t.Errorf("%d of 300 paragraphs", strings.Count(all, "Lorem"))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSingle(t)
			s.m.cfg.Limit = c.limit
			s.takes(message("p"))
			s.takes(Did{Do: s.do(), ID: "s0"})
			posts := []Do{{Text: "⏳"}}
			s.takes(done(c.answer))
			for range 100 {
				if strings.HasSuffix(fmt.Sprintf("%T", append(s.out, nil)[0]), "Tell") {
					break
				}
				d := s.do()
				did := Did{Do: d, ID: "s0"}
				switch {
				case c.refuse(d):
					did.Fault = Refused
				case d.Kind == Create:
					did.ID = fmt.Sprint("s", len(posts))
					posts = append(posts, d)
				case d.Kind == Patch:
					posts[0] = d
				}
				if s.takes(did) == "" {
					s.wait(2 * time.Minute)
				}
			}
			s.want(s.takes(Told{"p", true}), "")
			if s.q.Len() != 0 {
				t.Error("it is not done with")
			}
			c.check(t, posts)
		})
	}
}

// A channel that takes nothing any more does not hold a message for ever.
func TestAnswerThatIsRefusedForGood(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	s.takes(done("hi"))
	s.takes(Did{Do: Do{Kind: Create, Post: "p", Key: "k1", Text: "x"}, Fault: Refused})
	began := s.now
	for s.q.Len() > 0 {
		if got, _ := s.wait(5 * time.Minute); got != "create!" {
			t.Fatalf("it wants %q", got)
		}
		s.takes(Did{Do: s.do(), Fault: Refused})
	}
	if took := s.now.Sub(began); took < 20*time.Minute || took > 2*time.Hour {
		t.Errorf("it is given up after %s", took)
	}
	if _, ok := s.out[0].(Warn); !ok {
		t.Errorf("%+v", s.out)
	}
}

// A search that the server refuses says nothing of the post that is looked for.
func TestASearchThatIsRefused(t *testing.T) {
	s := newSingle(t)
	s.takes(message("p"))
	s.takes(Did{Do: s.do(), ID: "s1"})
	s.want(s.takes(done(strings.Repeat("word ", 1000))), "patch!")
	s.want(s.takes(Did{Do: s.do(), ID: "s1"}), "create!")
	if s.do().File == "" {
		t.Fatalf("%+v", s.do())
	}
	s.takes(Did{Do: s.do(), Fault: Unsure})
	for range 3 {
		got, _ := s.wait(time.Minute)
		s.want(got, "find!")
		s.takes(Did{Do: s.do(), Fault: Refused})
	}
	if i, _ := s.q.Get("p"); len(i.Parts) != 2 || i.Parts[1].File == "" {
		t.Errorf("%+v", i.Parts)
	}
}
