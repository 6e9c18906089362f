// Package mattermost is the owner's chat as bxctl sets it up: questions about the
// server, which gatewayd asks, and the bot's token in its store.
//
// It guarantees that bxctl opens no connection for it, and that the token leaves this
// process over a pipe to gatewayd and into the encrypted store only: it is in no
// argument, environment, file, log or error.
package mattermost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// patience is more than gatewayd takes for all of its requests.
const patience = 2 * time.Minute

// A Prober asks gatewayd, which is started for one question and ends.
type Prober struct {
	Program string   // path of gatewayd
	Env     []string // of it
	UID     uint32   // that it drops to, for root; 0: none

	Patience time.Duration // 2 min
}

// Ask gives what gatewayd found. An error is of gatewayd itself; what is wrong with
// the server is a step of the answer.
func (p Prober) Ask(ctx context.Context, ask *proto.Probe, token secret.Text) (*proto.Probed, error) {
	body, err := proto.Encode(ask)
	if err != nil {
		return nil, p.broken(err, "", token)
	}
	in, err := frame.Append(nil, body)
	if err != nil {
		return nil, p.broken(err, "", token)
	}
	in = append(in, token.Reveal()...)
	defer clear(in)
	asking, cancel := context.WithTimeout(ctx, cmp.Or(p.Patience, patience))
	defer cancel()
	args := []string{"probe"}
	if p.UID > 0 {
		args = append(args, "-uid", strconv.FormatUint(uint64(p.UID), 10))
	}
	cmd := exec.CommandContext(asking, p.Program, args...)
	var out, said bytes.Buffer
	cmd.Env, cmd.Dir = p.Env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil, &fault.Fault{
			What: "the program gatewayd can't be started: " + p.Program, Means: "it speaks to the chat's server, and lies beside bxctl",
			Do: "build all programs (make build) and keep them in one folder", Key: "program-missing",
		}
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case asking.Err() != nil:
		return nil, p.broken(context.Cause(asking), said.String(), token)
	case err != nil:
		return nil, p.broken(err, said.String(), token)
	}
	b, err := frame.Read(&out)
	if err != nil {
		return nil, p.broken(err, said.String(), token)
	}
	m, err := proto.ProbeEvents.Decode(b)
	if err != nil {
		return nil, p.broken(err, said.String(), token)
	}
	got, ok := m.(*proto.Probed)
	if !ok || len(got.Steps) == 0 {
		return nil, p.broken(fmt.Errorf("an answer %q that says nothing", m.Tag()), said.String(), token)
	}
	return got, nil
}

// broken is a gatewayd that does not do what it should. What it said is shown, and
// the token is taken out of that, though it never is in it.
func (p Prober) broken(err error, said string, token secret.Text) error {
	f := &fault.Fault{
		What: filepath.Base(p.Program) + " gave no answer", Err: err, Means: "nothing was changed",
		Do: "look that it is of the same build as bxctl (make build)", Key: "mattermost-probe",
	}
	if t := token.Reveal(); t != "" {
		said = strings.ReplaceAll(said, t, "[secret]")
	}
	for line := range strings.Lines(said) {
		if f.Tail = append(f.Tail, term.Line(strings.TrimSpace(line))); len(f.Tail) > 5 {
			f.Tail = f.Tail[1:]
		}
	}
	return f
}
