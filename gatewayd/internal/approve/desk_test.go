package approve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

func TestFromTheQuestionToTheOutcome(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(r *rig, card mattermost.Post)
		want proto.Verdict
	}{
		{"by reaction", func(r *rig, p mattermost.Post) {
			r.s.by(stranger, p.ID, EmojiNo)
			r.desk.Event(mattermost.Reacted{Reaction: mattermost.Reaction{User: stranger, Post: p.ID, Emoji: EmojiNo}})
			r.s.by(owner, p.ID, EmojiYes)
			r.desk.Event(mattermost.Reacted{Reaction: mattermost.Reaction{User: owner, Post: p.ID, Emoji: EmojiYes}})
		}, proto.VerdictApproved},
		{"by reply", func(r *rig, p mattermost.Post) {
			say, ok, err := r.desk.Reply(mattermost.Post{ID: otherID, User: owner, Channel: home, Root: p.ID, Message: "deny k7m4px", CreateAt: p.CreateAt + 9}, true)
			if say != "" || !ok || err != nil {
				r.t.Errorf("%q %v %v", say, ok, err)
			}
		}, proto.VerdictDenied},
		{"by a reaction whose event was lost", func(r *rig, p mattermost.Post) {
			r.s.by(owner, p.ID, EmojiNo)
			r.desk.Event(mattermost.Up{Fresh: true})
		}, proto.VerdictDenied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			stop := r.start()
			events, _ := r.ask(question())
			get[*proto.Shown](t, events)
			card := r.s.all(home)[0]
			tc.act(r, card)
			if m := get[*proto.ChatAnswer](t, events); m.Verdict != tc.want || m.Digest != hash || m.By != owner {
				t.Errorf("%+v", m)
			}
			r.once(&proto.Retract{Approval: "a1", Verdict: tc.want, By: owner, Channel: "mattermost"})
			stop()
			defer r.open().Close()
			r.drain()
			if p := r.s.all(home); len(p) != 1 || !strings.Contains(p[0].Message, "**"+string(tc.want)+"** here, by the owner") {
				t.Errorf("%+v", p)
			}
			if n, q := r.desk.Waiting(); n+q != 0 {
				t.Errorf("%d %d are left", n, q)
			}
		})
	}
}

// A restart at any step posts nothing twice and loses no answer, whether the
// step was done and not known, or not done.
func TestRestartAtEachStep(t *testing.T) {
	for _, what := range []string{"upload", "create", "find", "react", "reactions", "get", "patch"} {
		for _, done := range []bool{false, true} {
			t.Run(what+map[bool]string{true: " done and not known", false: " not done"}[done], func(t *testing.T) {
				r := newRig(t)
				breaks := once(what)
				if r.s.fail = breaks; done {
					r.s.fail, r.s.after = nil, breaks
				}
				if what == "find" { // which is only done after a post of unknown fate
					r.s.after = once("create")
					r.s.fail = breaks
				}
				answered, told := false, false
				for range 6 {
					answered, told = r.life(answered, told)
				}
				ps := r.s.all(home)
				if len(ps) != 1 || !told || !strings.Contains(ps[0].Message, "**approved**") || len(ps[0].Files) != 1 {
					t.Errorf("%d posts, told %v: %+v", len(ps), told, ps)
				}
				defer r.open().Close()
				if len(r.desk.items) != 0 {
					t.Errorf("left: %+v", r.desk.items)
				}
			})
		}
	}
}

// once is a fault that comes one time.
func once(what string) func(string) error {
	broke := false
	return func(w string) error {
		if w != what || broke {
			return nil
		}
		broke = true
		return &mattermost.Unsure{Err: errors.New("broken")}
	}
}

// life is a start from the disk, what can be done then, and an end.
func (r *rig) life(answered, told bool) (bool, bool) {
	r.t.Helper()
	defer r.open().Close()
	ask := question()
	ask.Fields[1].Value = strings.Repeat("long\n", 100)
	if !told {
		if _, err := r.desk.keep(&ask); err != nil {
			r.t.Fatal(err)
		}
	}
	r.drain()
	if ps := r.s.all(home); len(ps) == 1 && !answered {
		answered = true
		r.s.by(owner, ps[0].ID, EmojiYes)
	}
	if i := r.desk.items["a1"]; i != nil && i.Answer.Verdict == proto.VerdictApproved && !told {
		told = true
		if err := r.desk.retract(&proto.Retract{Approval: "a1", Verdict: proto.VerdictApproved, Channel: "mattermost"}); err != nil {
			r.t.Fatal(err)
		}
		r.drain()
	}
	return answered, told
}

func TestAnAnswerWaitsForBrokerd(t *testing.T) {
	r := newRig(t)
	root := r.open()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	r.drain()
	r.s.by(owner, r.s.all(home)[0].ID, EmojiYes) // while brokerd is away
	r.desk.Event(mattermost.Up{Fresh: true})
	r.drain()
	root.Close() // and then gatewayd
	r.start()
	events, _ := r.ask(question())
	get[*proto.Shown](t, events)
	if m := get[*proto.ChatAnswer](t, events); m.Verdict != proto.VerdictApproved {
		t.Errorf("%+v", m)
	}
	if n := len(r.s.all(home)); n != 1 {
		t.Errorf("%d posts", n)
	}
}

func TestWhatEndedIsNotShown(t *testing.T) {
	r := newRig(t)
	r.start()
	r.once(&proto.Retract{Approval: "a1", Verdict: proto.VerdictExpired}) // ahead of its question
	events, _ := r.ask(question())
	if m := get[*proto.Error](t, events); m.Code != proto.ErrNoApproval || len(r.s.all(home)) != 0 {
		t.Errorf("%+v", m)
	}
	b := question()
	b.Approval = "b1"
	events, _ = r.ask(b)
	get[*proto.Shown](t, events)
	b.Digest = strings.Repeat("0", 64)
	events, _ = r.ask(b)
	if m := get[*proto.Error](t, events); m.Code != proto.ErrWrongDigest {
		t.Errorf("%+v", m)
	}
	if m := r.once(&proto.StillWaiting{Approvals: []string{"a1"}}).(*proto.Stale); len(m.Approvals) != 1 || m.Approvals[0] != "b1" {
		t.Errorf("%+v", m)
	}
	r.once(&proto.Retract{Approval: "b1", Verdict: proto.VerdictWithdrawn, Channel: "brokerd"})
	if m := r.once(&proto.StillWaiting{}).(*proto.Stale); len(m.Approvals) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestAChangedCardSaysSo(t *testing.T) {
	r := newRig(t)
	defer r.open().Close()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	r.drain()
	id := r.s.all(home)[0].ID
	r.s.posts[id].Message, r.s.posts[id].EditAt = "🔏 **read_file** wants to read a note", 9999 // an administrator
	r.s.by(owner, id, EmojiYes)
	r.desk.Event(mattermost.Edited{Post: mattermost.Post{ID: id}})
	r.drain()
	if p := r.s.all(home)[0]; !strings.Contains(p.Message, "Somebody changed this message") {
		t.Error(p.Message)
	}
	if i := r.desk.items["a1"]; i.Answer.Verdict != "" || !i.Mute {
		t.Errorf("%+v", i)
	}
	say, ok, err := r.desk.Reply(mattermost.Post{User: owner, Channel: home, Message: "approve K7M4PX", CreateAt: 99999}, true)
	if !ok || err != nil || !strings.Contains(say, "does not wait") {
		t.Errorf("%q %v %v", say, ok, err)
	}
}

// What comes while the server is asked is not lost with the answer of the server.
func TestAWordAndAnEndDuringALook(t *testing.T) {
	r := newRig(t)
	defer r.open().Close()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	did := false
	r.s.after = func(what string) error {
		if what == "get" && !did {
			did = true
			if _, ok, err := r.desk.Reply(mattermost.Post{User: owner, Channel: home, Message: "deny K7M4PX", CreateAt: 9999}, true); !ok || err != nil {
				t.Error(ok, err)
			}
		}
		return nil
	}
	r.drain()
	if i := r.desk.items["a1"]; i.Answer.Verdict != proto.VerdictDenied {
		t.Errorf("%+v", i)
	}
	b := question()
	b.Approval, b.Code = "b1", "K7M4PY"
	if _, err := r.desk.keep(&b); err != nil {
		t.Fatal(err)
	}
	r.s.after = func(what string) error {
		if what == "create" {
			return r.desk.retract(&proto.Retract{Approval: "b1", Verdict: proto.VerdictWithdrawn})
		}
		return nil
	}
	r.drain()
	if ps := r.s.all(home); len(ps) != 2 || !strings.Contains(ps[1].Message, "**withdrawn**") || r.desk.items["b1"] != nil {
		t.Errorf("%+v", ps)
	}
}

func TestMessagesThatAreNoAnswers(t *testing.T) {
	r := newRig(t)
	defer r.open().Close()
	for text, handled := range map[string]bool{
		"hello": false, "approve": false, "deny budget": false, "approve it now": false, "deny K7M4PX": true, "approve k7m4px": true, "approve ABCDEF": true,
	} {
		say, ok, err := r.desk.Reply(mattermost.Post{User: owner, Channel: home, Message: text}, true)
		if ok != handled || err != nil || handled != (say != "") {
			t.Errorf("%q: %q %v %v", text, say, ok, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	r := newRig(t)
	r.place = func(s string) (string, string, bool) { return home, rootID, s == "mm-x" }
	r.s.fail = func(what string) error {
		if what == "create" {
			r.s.fail = nil
			return &mattermost.Refused{Status: 400, Text: "the root is gone"}
		}
		return nil
	}
	defer r.open().Close()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	r.drain()
	if ps := r.s.all(home); len(ps) != 1 || ps[0].Root != "" { // and not lost
		t.Errorf("%+v", ps)
	}
	b := question()
	b.Approval = "b1"
	if _, err := r.desk.keep(&b); err != nil {
		t.Fatal(err)
	}
	r.drain()
	if ps := r.s.all(home); len(ps) != 2 || ps[1].Root != rootID {
		t.Errorf("%+v", ps)
	}
}

func TestNewsAndAnchorsArePostedOnce(t *testing.T) {
	r := newRig(t)
	r.known = false
	root := r.open()
	n := question()
	n.Digest, n.Code, n.Fields, n.Write = "", "", []proto.Field{}, []string{}
	if _, err := r.desk.keep(&n); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.desk.post(&proto.Anchor{Checkpoint: "boxmaker/audit\n7\nabc/pl/def=\n\n— boxmaker/audit x\n"}); err != nil {
			t.Fatal(err)
		}
	}
	r.drain() // the server has not said who we are
	if len(r.s.posts) != 0 {
		t.Fatal("posted to nobody")
	}
	root.Close()
	r.known = true
	defer r.open().Close()
	r.drain()
	r.drain()
	ps := r.s.all(home)
	if len(ps) != 2 || len(r.s.marks) != 0 || !strings.Contains(ps[0].Message+ps[1].Message, "\nabc/pl/def=\n") {
		t.Errorf("%+v", ps)
	}
	if len(r.desk.items) != 1 || !r.desk.items["a1"].Mute {
		t.Errorf("%+v", r.desk.items)
	}
}

func TestRefusedReactionsDoNotHoldTheCard(t *testing.T) {
	r := newRig(t)
	r.s.fail = func(what string) error {
		if what == "react" {
			return &mattermost.Refused{Status: 403}
		}
		return nil
	}
	defer r.open().Close()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	r.drain()
	if !r.desk.items["a1"].Marked {
		t.Error("it waits for reactions that never come")
	}
}

func TestADiskThatFailsEndsTheDesk(t *testing.T) {
	r := newRig(t)
	root := r.open()
	a := question()
	if _, err := r.desk.keep(&a); err != nil {
		t.Fatal(err)
	}
	root.Close()
	if _, err := r.desk.round(context.Background()); err == nil || len(r.s.posts) != 0 {
		t.Errorf("%v, %d posts", err, len(r.s.posts))
	}
	b := question()
	b.Approval = "b1"
	if _, err := r.desk.keep(&b); err == nil {
		t.Error("kept without a disk")
	}
	if _, ok, err := r.desk.Reply(mattermost.Post{User: owner, Channel: home, Message: "approve K7M4PX"}, true); !ok || err != nil { // not shown yet: nothing to keep
		t.Error(ok, err)
	}
}

// A disk that fails a question ends the desk as one that fails a step does: whoever
// asked is not answered, and a desk that is put away writes nothing more.
func TestADeskPromisesNothingAfterAFailure(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(r *rig)
		want error
	}{
		{"a question that cannot be kept", func(r *rig) {
			os.RemoveAll(filepath.Join(r.dir, folder))
			a := question()
			if _, err := r.desk.keep(&a); err == nil {
				t.Error("kept without a folder")
			}
			_ = os.Mkdir(filepath.Join(r.dir, folder), 0o700) // too late
		}, fs.ErrNotExist},
		{"it is put away", func(r *rig) { r.desk.Close() }, ErrClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			root := r.open()
			defer root.Close()
			tc.harm(r)
			if err := r.desk.Run(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("it ends with %v", err)
			}
			a := question()
			if _, err := r.desk.keep(&a); !errors.Is(err, tc.want) {
				t.Errorf("a question gives %v", err)
			}
			if err := r.desk.post(&proto.Anchor{Checkpoint: "x"}); !errors.Is(err, tc.want) {
				t.Errorf("an anchor gives %v", err)
			}
			if all, err := os.ReadDir(filepath.Join(r.dir, folder)); err != nil || len(all) != 0 {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}
