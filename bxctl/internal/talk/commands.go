package talk

import (
	"context"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// typed handles one line; false ends the chat.
func (s *chatState) typed(ctx context.Context, line string) bool {
	line = strings.TrimRight(line, "\r\n")
	if head, ok := strings.CutSuffix(line, "\\"); ok { // goes on in the next line
		s.pending += head + "\n"
		return true
	}
	line, s.pending = s.pending+line, ""
	switch {
	case strings.TrimSpace(line) == "":
	case strings.HasPrefix(line, "//"):
		s.send(ctx, line[1:])
	case strings.HasPrefix(line, "/") && !strings.Contains(line, "\n"):
		return s.command(ctx, strings.TrimSpace(line))
	default:
		s.send(ctx, line)
	}
	return true
}

const help = `/stop          end the running turn; messages that wait go on
/approvals     show again what waits for your approval, in other sessions too
/approve CODE  let the call with that code run, once
/deny CODE     refuse the call with that code
/new           begin a new session
/status        what runs, and the state of this session
/help          this list
/quit          leave (Ctrl-D does too); a turn that runs goes on
A line that ends in \ goes on in the next one. // at the start sends a slash.
Ctrl-C stops the turn; a second one leaves.`

func (s *chatState) command(ctx context.Context, line string) bool {
	name, arg, _ := strings.Cut(line, " ")
	switch name {
	case "/approve":
		s.answer(ctx, proto.VerdictApproved, strings.TrimSpace(arg))
		return true
	case "/deny":
		s.answer(ctx, proto.VerdictDenied, strings.TrimSpace(arg))
		return true
	}
	switch line {
	case "/approvals":
		s.approvals()
	case "/quit", "/exit":
		return false
	case "/help", "/?":
		s.line(help)
	case "/stop":
		s.stop(ctx)
	case "/status":
		session := s.Session
		s.aside(ctx, func(ctx context.Context) string { return s.statusOf(ctx, session) })
	case "/new":
		if s.ours() > 0 {
			s.line(s.Screen.Warn("! a turn runs in this session; wait for it, or /stop it first"))
			break
		}
		s.leaveOther()
		s.Session, s.used = loop.NewSession(s.Now()), false
		s.place()
		s.follow(ctx, loop.Place{})
	default:
		s.line(s.Screen.Warn("! there is no command " + term.Line(line) + "; /help lists them, and // at the start sends a slash"))
	}
	return true
}

func (s *chatState) statusOf(ctx context.Context, session string) string {
	st, err := s.Client.Status(ctx)
	if err != nil {
		return fault.Text(err)
	}
	return report.Brief(s.Screen, st, session)
}

// aside does a request on the side and shows its text.
func (s *chatState) aside(ctx context.Context, do func(context.Context) string) {
	s.running++
	go func() {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		s.says <- do(short)
	}()
}

func (s *chatState) stop(ctx context.Context) {
	session := s.Session
	s.aside(ctx, func(ctx context.Context) string {
		running, err := s.Client.Stop(ctx, session)
		switch {
		case err != nil:
			return fault.Text(err)
		case !running:
			return s.Screen.Dim("(no turn runs)")
		default:
			return s.Screen.Dim("(stopping)")
		}
	})
}

// interrupt handles Ctrl-C; false ends the chat.
func (s *chatState) interrupt(ctx context.Context) bool {
	if len(s.jobs) == 0 || s.stopping {
		s.unprompt()
		return false
	}
	s.stopping = true
	s.stop(ctx)
	return true
}
