package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/prompt"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"
	"boxmaker/internal/secret"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) secrets() *cobra.Command {
	c := &cobra.Command{
		Use: "secret", Short: "keep secrets for tools: set, list, rm, rotate, passphrase", Args: cobra.ArbitraryArgs,
		Long: `Keeps passwords and tokens that tools may use, encrypted, in a store that only brokerd
opens. A grant names the secrets of its calls ([secrets] names), and says whether the
tool gets the value or brokerd adds it to a request outside of the container. What a
tool gives back is searched for all values before the model or a log sees it.

The key of the store lies in another folder (keep a copy of it apart), may itself be
encrypted with a passphrase (bxctl secret passphrase), or is a systemd credential of brokerd. A value is
never shown again.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("there is no command %q", args[0]), "bxctl secret --help lists the commands")
			}
			return c.Help()
		},
	}
	key := c.PersistentFlags().String("key", "", "`file` of the key (default: brokerd.key in the folder of the keys)")
	c.AddCommand(a.secretSet(key), a.secretList(key), a.secretRemove(key), a.secretRotate(key), a.secretPassphrase(key))
	return c
}

func (a *app) secretSet(key *string) *cobra.Command {
	c := &cobra.Command{
		Use: "set NAME", Short: "keep a value under a name", Args: cobra.ArbitraryArgs,
		Long: `Keeps a value under a name, in place of the one before. The value is typed without
echo, or read from standard input (one line end at its end is not part of it). It is
never an argument: others could see it in the list of processes.

A value has 6 bytes at least: results of tools are searched for it, and a shorter one
would be found in honest text. Calls use it at once.`,
		Example: "  bxctl secret set weather-token\n  pass show weather | bxctl secret set weather-token",
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 { // the others are not repeated: they may be the value
			return usage(fmt.Errorf("bxctl secret set takes one argument, the name, and not %d", len(args)), "give the value on standard input, never as an argument; if it was a secret, it is in your shell's history now")
		}
		if err := secret.CheckName(args[0]); err != nil {
			return secretFault(err)
		}
		s, err := a.openSecrets(*key)
		if err != nil {
			return err
		}
		value, err := a.secretValue(args[0])
		if err != nil {
			return err
		}
		if err := s.Set(args[0], secret.NewText(value)); err != nil {
			return secretFault(err)
		}
		fmt.Fprintf(a.env.Stdout, "%s is kept (%s)\n", args[0], term.Bytes(int64(len(value))))
		return nil
	}
	return c
}

// secretValue reads a value, from a prompt or standard input.
func (a *app) secretValue(name string) (string, error) {
	if term.IsTerminal(a.env.Stdin) {
		return hidden(a.env.Stdin, a.env.Stderr, "Value of "+name+" (it is not shown): ")
	}
	b, err := io.ReadAll(io.LimitReader(a.env.Stdin, secret.MaxValue+3))
	if err != nil {
		return "", &fault.Fault{What: "standard input can't be read", Err: err, Key: "message-unreadable"}
	}
	v := strings.TrimSuffix(string(b), "\n")
	return strings.TrimSuffix(v, "\r"), nil
}

func hidden(in *os.File, out io.Writer, question string) (string, error) {
	v, err := prompt.Hidden(in, out, question)
	if errors.Is(err, prompt.ErrInterrupted) {
		return "", &fault.Fault{What: "interrupted", Means: "nothing was changed"}
	}
	if err != nil {
		return "", &fault.Fault{What: "the terminal can't be read", Err: err, Do: "give the value on standard input", Key: "terminal"}
	}
	return v, nil
}

func (a *app) secretList(key *string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "list", Short: "list the names", Args: exactly(0), Long: "Lists the names of the secrets. Values are never shown."}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		s, err := a.openSecrets(*key)
		if err != nil {
			return err
		}
		names, err := s.Names()
		if err != nil {
			return secretFault(err)
		}
		if asJSON {
			b, err := json.Marshal(append([]string{}, names...))
			if err == nil {
				_, err = fmt.Fprintln(a.env.Stdout, string(b))
			}
			return err
		}
		if len(names) == 0 {
			fmt.Fprintln(a.env.Stderr, "there are no secrets yet; bxctl secret set NAME keeps one")
		}
		for _, n := range names {
			fmt.Fprintln(a.env.Stdout, n)
		}
		return nil
	}
	return c
}

func (a *app) secretRemove(key *string) *cobra.Command {
	c := &cobra.Command{Use: "rm NAME", Short: "remove a value", Args: exactly(1), Long: "Removes a secret. Calls whose grant names it are denied from then on."}
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := secret.CheckName(args[0]); err != nil {
			return secretFault(err)
		}
		s, err := a.openSecrets(*key)
		if err == nil {
			err = secretFault(s.Remove(args[0]))
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(a.env.Stdout, args[0]+" is removed")
		return nil
	}
	return c
}

func (a *app) secretRotate(key *string) *cobra.Command {
	c := &cobra.Command{
		Use: "rotate", Short: "encrypt all with a new key", Args: exactly(0),
		Long: `Makes a new key and encrypts the store with it; the old key opens it no more. A
running brokerd takes the new one at once, or, if the key has a passphrase, at the next
bxctl up. If somebody may have read both the key and
the store, the values themselves must be replaced where they were issued: a new key
does not help there.`,
	}
	c.RunE = func(*cobra.Command, []string) error {
		s, err := a.openSecrets(*key)
		if err == nil {
			err = secretFault(s.Rotate())
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(a.env.Stdout, "the secrets have a new key; replace the copy of it that you keep")
		if strings.HasSuffix(s.Source(), "passphrase") {
			fmt.Fprintln(a.env.Stdout, "if Boxmaker runs, start it again, since it can't open the new one by itself: bxctl down, then bxctl up")
		}
		return nil
	}
	return c
}

// openSecrets opens the store of brokerd. For root, the files belong to the user
// that brokerd runs as.
func (a *app) openSecrets(key string) (*secret.Store, error) {
	c := secretConfig(a.layout)
	if key != "" {
		c.Key.File = key
	}
	if os.Geteuid() == 0 {
		s, _, err := setup.Load(a.layout)
		if err != nil {
			return nil, &fault.Fault{Code: fault.Usage, What: "it is not known as which user brokerd runs", Err: err, Do: "bxctl init sets Boxmaker up", Key: "not-set-up"}
		}
		c.Owner = int(s.UID("brokerd"))
	}
	c.Key.Passphrase = askPassphrase
	s, err := secret.Open(c)
	return s, secretFault(err)
}

// secretConfig says where the secrets of an installation are.
func secretConfig(l config.Layout) secret.Config {
	return secret.Config{Dir: l.Secrets, Key: secret.Key{File: filepath.Join(l.Keys, "brokerd.key")}}
}

// secretFault makes a fault of an error of package secret.
func secretFault(err error) error {
	var f *fault.Fault
	var e *config.Error
	if err == nil || errors.As(err, &f) || !errors.As(err, &e) {
		return err
	}
	f = &fault.Fault{What: e.What, Do: e.Do, Key: e.Runbook}
	if e.Runbook == "secret-name" || e.Runbook == "secret-value" || e.Runbook == "secret-unknown" {
		f.Code = fault.Usage
	}
	return f
}
