package probe

import (
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/daemon"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// maxToken bounds what is read behind the question.
const maxToken = 4 << 10

// Main is `gatewayd probe`: one question on in, with the token behind it, and one
// answer on out. It gives up what a probe does not need before it connects. The
// result is an exit code; not 0 means that there is no answer.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	f := flag.NewFlagSet("gatewayd probe", flag.ContinueOnError)
	f.SetOutput(errs)
	uid := f.Uint64("uid", 0, "user `id` to drop to when started as root")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || f.NArg() > 0 || *uid > 1<<31 {
		_, _ = fmt.Fprintln(errs, "gatewayd: probe takes -uid and no more; bxctl mattermost setup starts it")
		return 2
	}
	d := daemon.New("gatewayd")
	defer d.Close()
	err := serve(d.Context(), in, out, func(ask *proto.Probe) {
		_, _ = x509.SystemCertPool() // it is read once, and out of reach later; what cannot be read trusts nobody
		d.Confine(daemon.Confinement{ReadOnly: daemon.ResolverFiles(), ConnectTCP: []uint16{mattermost.Port(ask.URL), 53}, UID: uint32(*uid), DieWithParent: true})
	})
	if err != nil {
		_, _ = fmt.Fprintln(errs, "gatewayd: probe:", err)
		return 1
	}
	return 0
}

// serve reads the question, confines itself, and answers.
func serve(ctx context.Context, in io.Reader, out io.Writer, confine func(*proto.Probe)) error {
	body, err := frame.Read(in)
	if err != nil {
		return fmt.Errorf("reading the question: %w", err)
	}
	m, err := proto.ProbeRequests.Decode(body)
	if err != nil {
		return err
	}
	ask, ok := m.(*proto.Probe)
	if !ok {
		return fmt.Errorf("unexpected question %q", m.Tag())
	}
	tok, err := io.ReadAll(io.LimitReader(in, maxToken+1))
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	if len(tok) > maxToken {
		return errors.New("a token of more than 4 KiB")
	}
	confine(ask)
	answer, err := proto.Encode(clean(Run(ctx, Config{}, ask, secret.NewText(string(tok))), string(tok)))
	if err != nil {
		return err
	}
	return frame.Write(out, answer)
}

// clean takes the token out of whatever the owner is shown: the client does so with
// what a server says, and here is the last place to be sure.
func clean(m *proto.Probed, token string) *proto.Probed {
	if token == "" {
		return m
	}
	wash := func(s *string) { *s = strings.ReplaceAll(*s, token, "[secret]") }
	for i := range m.Steps {
		wash(&m.Steps[i].Detail)
		wash(&m.Steps[i].Do)
	}
	for _, list := range [][]proto.Named{m.Owners, m.Channels} {
		for i := range list {
			wash(&list[i].Name)
			wash(&list[i].ID)
		}
	}
	wash(&m.Bot.Name)
	wash(&m.Version)
	return m
}
