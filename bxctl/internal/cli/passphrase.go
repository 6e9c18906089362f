package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/secret"

	"github.com/spf13/cobra"
)

// askPassphrase asks on the terminal, wherever the standard streams go.
func askPassphrase() (string, error) {
	return askHidden("Passphrase of the secrets' key (it is not shown): ")
}

func askHidden(question string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", &fault.Fault{
			Code: fault.Usage, What: "there is no terminal to ask for the passphrase of the secrets' key", Means: "nothing was done",
			Do: "run it in a terminal; bxctl up also takes --passphrase-file FILE", Key: "secret-passphrase",
		}
	}
	defer tty.Close()
	return hidden(tty, tty, question)
}

// passphraseFile reads the first line of a file that only its owner can read.
func passphraseFile(path string) func() (string, error) {
	return func() (string, error) {
		no := func(what string, err error, do string) (string, error) {
			return "", &fault.Fault{Code: fault.Usage, What: what, Err: err, Means: "nothing was started", Do: do, Key: "secret-passphrase"}
		}
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return no("the file with the passphrase can't be opened", err, "name a file that you can read")
		}
		defer f.Close()
		st, err := f.Stat()
		if err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
			return no("others can read the file with the passphrase, "+path, nil, "chmod 600 "+path+"; and choose another passphrase if somebody may have: bxctl secret passphrase")
		}
		line, err := bufio.NewReader(io.LimitReader(f, 4<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return no("the file with the passphrase can't be read", err, "name a file that you can read")
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
}

func (a *app) secretPassphrase(key *string) *cobra.Command {
	c := &cobra.Command{
		Use: "passphrase", Short: "encrypt the key with a passphrase, or with none", Args: exactly(0),
		Long: `Encrypts the key file with a passphrase that is asked for on the terminal, twice; an
empty one takes the encryption away. From then on bxctl up asks for it, and so does each
bxctl secret. Nobody can open the store without it: keep it where you find it again.`,
	}
	c.RunE = func(*cobra.Command, []string) error {
		s, err := a.openSecrets(*key)
		if err != nil {
			return err
		}
		first, err := askHidden("New passphrase (it is not shown; empty for none): ")
		if err != nil {
			return err
		}
		second, err := askHidden("Once more: ")
		if err != nil {
			return err
		}
		if first != second {
			return &fault.Fault{Code: fault.Usage, What: "the two are not the same", Means: "nothing was changed", Do: "try again", Key: "secret-passphrase"}
		}
		if err := s.SetPassphrase(secret.NewText(first)); err != nil {
			return secretFault(err)
		}
		if first == "" {
			fmt.Fprintln(a.env.Stdout, "the key has no passphrase now")
			return nil
		}
		fmt.Fprintln(a.env.Stdout, "the key is encrypted; bxctl up asks for the passphrase from now on")
		return nil
	}
	return c
}
