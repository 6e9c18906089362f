package bridge

import (
	"log/slog"
	"os"
	"testing"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/queue"
)

// Which channels are read: those with a post near the mark or behind it, in which the
// owner can be heard.
func TestWhatIsReadAgain(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer root.Close()
	q, _, err := queue.Open(root)
	must(t, err)
	defer q.Close()
	const me, owner, town = "bbbbbbbbbbbbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "cccccccccccccccccccccccccc"
	must(t, q.Put(&queue.First{At: 1}, &queue.Mark{Channel: town, At: 100_000}))
	for _, c := range []struct {
		name string
		ch   mattermost.Channel
		want bool
	}{
		{"a newer post", mattermost.Channel{ID: town, Type: mattermost.Public, LastPostAt: 100_001}, true},
		{"one that came to light late", mattermost.Channel{ID: town, Type: mattermost.Public, LastPostAt: 97_000}, true},
		{"nothing new", mattermost.Channel{ID: town, Type: mattermost.Public, LastPostAt: 90_000}, false},
		{"archived", mattermost.Channel{ID: town, Type: mattermost.Public, LastPostAt: 100_001, DeleteAt: 5}, false},
		{"a channel that is not listed", mattermost.Channel{ID: owner, Type: mattermost.Public, LastPostAt: 100_001}, false},
		{"the owner's direct channel, for the first time", mattermost.Channel{ID: me, Type: mattermost.Direct, Name: owner + "__" + me, LastPostAt: 2}, true},
		{"a stranger's direct channel", mattermost.Channel{ID: me, Type: mattermost.Direct, Name: town + "__" + me, LastPostAt: 2}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBot(BotConfig{Queue: q, Rules: allow.Rules{Owners: []string{owner}, Channels: []string{town}}, Log: slog.New(slog.DiscardHandler)})
			b.self.ID = me
			b.listed([]mattermost.Channel{c.ch})
			if got := len(b.wants()) == 1; got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}
