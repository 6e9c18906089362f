package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxmaker/gatewayd/internal/split"
	"boxmaker/internal/proto"
)

// commandNone marks a message that needs no answer, since a card shows what came of it.
const commandNone = "none"

// parse tells a command from a message for the agent. A command stands alone.
func parse(message string) (command, text string) {
	word := strings.ToLower(strings.TrimSpace(message))
	switch {
	case word == "":
		return "empty", ""
	case slices.Contains([]string{"stop", "new", "status", "context", "help"}, word):
		return word, ""
	}
	return "", message
}

const helpText = "Write to me, and I answer in the thread of your message. Each message outside of a thread begins a new conversation; " +
	"in its thread it goes on.\n\n" +
	"| alone in a message | |\n|---|---|\n" +
	"| `stop` | ends what is being worked on in this thread; outside of one, all of this channel |\n" +
	"| `new` | begins a new conversation |\n" +
	"| `status` | how the agent and its model are |\n" +
	"| `context` | how full this conversation's context is |\n" +
	"| `approve CODE`, `deny CODE` | answers a card; so does a reaction on it |\n\n" +
	"An edit of a message changes nothing: write a new one. Deleting the first message of a thread ends its conversation. Attached files are not read."

// command answers a command. text is what goes with it.
func (b *Bot) command(ctx context.Context, c Command, text string) Said {
	s := Said{Post: c.Post}
	switch c.Command {
	case "stop":
		s.Text = b.stop(ctx, c.Sessions)
	case "new":
		s.Text, s.Top = "A new conversation: write in the thread of this message.", true
	case "status":
		s.Text = b.status(ctx, c.Waiting)
	case "context":
		s.Text = b.context(ctx, c.Sessions)
	case "help":
		s.Text = helpText
	case "say":
		s.Text = text
	case "edited":
		s.Text = "This message was edited before I read it, and whoever may edit it writes under your name. So I did not take it: please write it again."
	case "empty":
		s.Text = "There is no text in this message, so there is nothing to answer. " + noFiles
	default:
		s.Text = "I do not know this command any more. Please write it again."
	}
	return s
}

// away is what to say when loopd does not answer.
func away(err error) string {
	var e *proto.Error
	if errors.As(err, &e) {
		return "That did not work. " + split.Harmless(sentence(e.Text, e.Runbook))
	}
	return "The agent is away, so that I cannot ask it. Messages are kept until it is back."
}

func (b *Bot) stop(ctx context.Context, sessions []string) string {
	stopped := 0
	for _, s := range sessions {
		running, err := b.cfg.Loop.Stop(ctx, s)
		if err != nil {
			return away(err)
		}
		if running {
			stopped++
		}
	}
	switch stopped {
	case 0:
		return "Nothing is being worked on here."
	case 1:
		return "Stopped."
	default:
		return fmt.Sprintf("Stopped, in %d conversations.", stopped)
	}
}

func (b *Bot) status(ctx context.Context, waiting int) string {
	st, err := b.cfg.Loop.Status(ctx)
	if err != nil {
		return away(err)
	}
	rows := []string{"Agent: " + st.State}
	if st.Detail != "" {
		rows[0] += " (" + st.Detail + ")"
	}
	if st.Server.Model != "" {
		model := "Model: " + st.Server.Model
		if st.Server.Practice {
			model += ", which is the practice model and no language model"
		}
		rows = append(rows, model)
	}
	rows = append(rows, fmt.Sprintf("At work: %s", count(st.OpenTurns, "conversation", "conversations")))
	rows = append(rows, fmt.Sprintf("Waiting for an answer here: %s", count(waiting, "message", "messages")))
	for _, c := range st.Checks {
		if c.State == "failed" {
			rows = append(rows, "Failed: "+c.Name+" "+sentence(c.Detail, c.Runbook))
		}
	}
	return split.Harmless("- " + strings.Join(rows, "\n- "))
}

func (b *Bot) context(ctx context.Context, sessions []string) string {
	if len(sessions) == 0 {
		return "Nothing is being worked on here. Write `context` in the thread of a conversation."
	}
	d, err := b.cfg.Loop.Session(ctx, sessions[0])
	var e *proto.Error
	if errors.As(err, &e) && e.Code == proto.ErrNoSession {
		return "This conversation has not begun yet, so that its context is empty."
	}
	if err != nil {
		return away(err)
	}
	text := fmt.Sprintf("%s in this conversation", count(d.Turns, "turn", "turns"))
	if d.Usage.Window > 0 {
		text = fmt.Sprintf("The context holds %d of %d tokens (%d %%), after %s.", d.Usage.Context, d.Usage.Window, d.Usage.Context*100/d.Usage.Window, count(d.Turns, "turn", "turns"))
	}
	return text
}
