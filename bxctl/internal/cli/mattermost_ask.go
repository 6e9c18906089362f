package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// fromFlags fills what is wanted: a flag, or what is set.
func (s *chatSetup) fromFlags() {
	s.want = s.was
	if s.o.url != "" {
		s.want.URL, s.want.Plain = s.o.url, s.o.plain
	}
	if s.given("plain") {
		s.want.Plain = s.o.plain
	}
	if len(s.o.owners) > 0 {
		s.want.Owners = s.o.owners
	}
	if s.given("channel") {
		s.want.Channels = slices.DeleteFunc(slices.Clone(s.o.channels), func(c string) bool { return c == "" })
	}
	s.address()
}

// address makes a whole one of what people write.
func (s *chatSetup) address() {
	if u := s.want.URL; u != "" && !strings.Contains(u, "://") {
		s.want.URL = "https://" + u
	}
	s.want.URL = strings.TrimRight(s.want.URL, "/")
	s.want.Plain = s.want.Plain && !strings.HasPrefix(s.want.URL, "https:")
}

// readToken takes the token from --token-file, or the one that is kept.
func (s *chatSetup) readToken() error {
	s.token = s.stored
	if s.o.tokenFile == "" {
		return nil
	}
	in := io.Reader(s.a.env.Stdin)
	if s.o.tokenFile != "-" {
		f, err := openPrivate(s.o.tokenFile)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	} else if s.talk {
		return s.askToken()
	}
	b, err := io.ReadAll(bufio.NewReader(io.LimitReader(in, 4<<10)))
	if err != nil {
		return &fault.Fault{Code: fault.Usage, What: "the token can't be read", Err: err, Means: "nothing was changed", Key: "mattermost-token"}
	}
	return s.setToken(strings.TrimRight(string(b), "\r\n"))
}

func (s *chatSetup) setToken(t string) error {
	if err := mattermost.CheckToken(t); err != nil {
		return err
	}
	s.token = secret.NewText(t)
	return nil
}

// openPrivate opens a file that only its owner can read.
func openPrivate(path string) (*os.File, error) {
	no := func(what string, err error, do string) (*os.File, error) {
		return nil, &fault.Fault{Code: fault.Usage, What: what, Err: err, Means: "nothing was changed", Do: do, Key: "mattermost-token"}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return no("the file with the token can't be opened", err, "name a file that you can read; the token itself is never an argument")
	}
	if st, err := f.Stat(); err != nil || st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
		_ = f.Close() // nothing was written
		return no("others can read the file with the token, "+path, err, "chmod 600 "+path+"; and make a new token on the server if somebody may have read it")
	}
	return f, nil
}

// dialogue asks for one thing after the other, and again for what is wrong.
func (s *chatSetup) dialogue(ctx context.Context) error {
	s.fromFlags()
	s.say("%s", s.a.out.Bold("Boxmaker in your Mattermost chat"))
	s.say("%s\n", s.a.out.Fold(0, "You need a server, an account of yours on it, and a bot with its token (docs/mattermost.md)."))
	for _, part := range []func(first bool) error{
		func(first bool) error { return s.askAddress(ctx, first) },
		func(first bool) error { return s.askBot(ctx, first) },
		func(first bool) error { return s.askOwners(ctx, first) },
		func(first bool) error { return s.askChannels(ctx, first) },
	} {
		if err := s.again(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *chatSetup) askAddress(ctx context.Context, first bool) error {
	if !first {
		s.want.URL = s.was.URL // what is offered is what was good
	}
	if !first || s.o.url == "" {
		if err := s.line("Address of the server, such as https://chat.example.com", s.want.URL, &s.want.URL); err != nil {
			return err
		}
		s.address()
	}
	return s.look(ctx, &proto.Probe{URL: s.want.URL, Plain: s.want.Plain}, secret.Text{})
}

func (s *chatSetup) askBot(ctx context.Context, first bool) error {
	read := s.askToken
	if first && s.o.tokenFile != "" {
		read = s.readToken
	}
	if err := read(); err != nil {
		return err
	}
	return s.look(ctx, &proto.Probe{URL: s.want.URL, Plain: s.want.Plain}, s.token)
}

func (s *chatSetup) askOwners(ctx context.Context, first bool) error {
	if !first {
		s.want.Owners = s.was.Owners
	}
	if !first || len(s.o.owners) == 0 {
		if err := s.list("Your user name there (more: whoever else may use all that you may)", &s.want.Owners); err != nil {
			return err
		}
	}
	ask := s.probe()
	ask.Channels = []string{} // they come next
	return only("owner", s.look(ctx, ask, s.token))
}

func (s *chatSetup) askChannels(ctx context.Context, first bool) error {
	if !first {
		s.want.Channels = s.was.Channels
	}
	if !first || !s.given("channel") {
		if err := s.list("Channels where you may name the bot, direct messages aside (- for none)", &s.want.Channels); err != nil {
			return err
		}
	}
	return only("channel", s.look(ctx, s.probe(), s.token))
}

// only makes the failure of any other step final: no other answer to this question
// would help.
func only(step string, err error) error {
	var st *stepError
	if errors.As(err, &st) && st.Name != step {
		return stepFault(st.ProbeStep)
	}
	return err
}

// tries is how often something is asked for.
const tries = 5

// again repeats a question while its answer is of no use.
func (s *chatSetup) again(ask func(first bool) error) error {
	var err error
	for i := range tries {
		seen := len(s.rep.Steps)
		err = ask(i == 0)
		var st *stepError
		var f *fault.Fault
		mistake := errors.As(err, &f) && f.Key == "mattermost-token" && f.Code == fault.Usage
		if !errors.As(err, &st) && !mistake {
			return err
		}
		s.a.tell(err)
		s.rep.Steps = s.rep.Steps[:seen]
	}
	return &fault.Fault{What: "there was no answer that is of use", Means: "nothing was changed", Do: "see what stands above, and run it again", Key: "mattermost-setup"}
}

// line asks for a text; Enter keeps what is set.
func (s *chatSetup) line(question, is string, into *string) error {
	if is != "" {
		question += " [" + term.Line(is) + "]"
	}
	text, err := prompt.Line(s.a.env.Stdin, s.a.env.Stderr, question+": ")
	if err != nil {
		return &fault.Fault{What: "the questions were not answered to the end", Means: "nothing was changed", Do: "run it again, or give everything by flags: bxctl mattermost setup --help", Key: "terminal"}
	}
	if text != "" {
		*into = text
	}
	return nil
}

// list asks for several texts; Enter keeps what is set, - empties it.
func (s *chatSetup) list(question string, into *[]string) error {
	text := ""
	if err := s.line(question, strings.Join(*into, " "), &text); err != nil {
		return err
	}
	switch fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }); {
	case text == "-":
		*into = nil
	case len(fields) > 0:
		*into = fields
	}
	return nil
}

// askToken asks without echo; Enter keeps the one that is stored.
func (s *chatSetup) askToken() error {
	question := "Token of the bot (it is not shown): "
	if s.stored.Reveal() != "" {
		question = "Token of the bot (it is not shown; Enter keeps the one that is stored): "
	}
	t, err := hidden(s.a.env.Stdin, s.a.env.Stderr, question)
	if err != nil {
		return err
	}
	if t = strings.TrimSpace(t); t == "" && s.stored.Reveal() != "" {
		s.token = s.stored
		return nil
	}
	return s.setToken(t)
}
