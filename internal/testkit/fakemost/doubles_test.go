package fakemost

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// pending_post_id: the same post for whoever asks again, and a no meanwhile.
func TestPendingID(t *testing.T) {
	s := New(t)
	owner, bot := s.AddUser("owner"), s.AddBot("boxmaker")
	dm := s.Direct(owner, bot)
	d := draft{ChannelID: dm, Message: "once", PendingID: "x"}
	a, err := s.post(bot, d)
	b, err2 := s.post(owner, d)
	if err != nil || err2 != nil || a.ID != b.ID {
		t.Error(a.ID, b.ID, err, err2)
	}
	s.Slow(100 * time.Millisecond)
	d.PendingID = "y"
	var all sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range 8 {
		all.Go(func() {
			_, err := s.post(bot, d)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case err.Status == 500 && strings.HasSuffix(err.ID, ".pending"):
				refused++
			}
		})
	}
	all.Wait()
	if made+refused != 8 || len(s.Posts(dm)) != 2 {
		t.Error(made, refused, s.Posts(dm))
	}
}
