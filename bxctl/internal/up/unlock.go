package up

import (
	"errors"
	"fmt"
	"os"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
	"boxmaker/internal/secret"

	"golang.org/x/sys/unix"
)

// tries is how often the owner may mistype.
const tries = 3

// unlock gives brokerd's key, opened, if its file is encrypted with a
// passphrase; nil if brokerd can open it by itself. The file is memory that
// nobody can write any more, and each start of brokerd reads it from the front.
func (o Options) unlock(s setup.Settings) (*os.File, error) {
	if o.Key != nil || !s.Tools.Enabled {
		return o.Key, nil
	}
	c := secret.Config{Dir: o.Layout.Secrets, Key: secret.Key{File: setup.KeyFile(o.Layout), Passphrase: o.Passphrase}}
	if os.Geteuid() == 0 {
		c.Owner = int(s.UID(roleBroker))
	}
	if !c.Locked() {
		return nil, nil
	}
	if o.Passphrase == nil {
		return nil, locked()
	}
	for n := 1; ; n++ {
		plain, err := secret.Unlock(c)
		if err == nil {
			return sealed(plain)
		}
		var e *config.Error
		if !o.Retry || n == tries || !errors.Is(err, secret.ErrPassphrase) {
			if errors.As(err, &e) {
				return nil, &fault.Fault{Code: fault.Usage, What: e.What, Means: "nothing was started", Do: e.Do, Key: e.Runbook}
			}
			return nil, err
		}
		fmt.Fprintln(o.Out.W, "That is not the passphrase.")
	}
}

func locked() error {
	return &fault.Fault{
		Code: fault.Usage, What: "the key of the secrets is encrypted with a passphrase, and there is nobody to ask for it", Means: "nothing was started",
		Do: "run it in a terminal, or name a file with --passphrase-file FILE", Key: "secret-passphrase",
	}
}

// unlockBefore is unlock for the up that will be started in the background,
// which has no terminal.
func (o Options) unlockBefore() (*os.File, error) {
	s, _, err := setup.Load(o.Layout)
	if err != nil {
		return nil, nil //nolint:nilerr // the up that is started says it
	}
	return o.unlock(s)
}

// sealed puts a key into memory that is handed over as a descriptor.
func sealed(plain secret.Text) (*os.File, error) {
	fd, err := unix.MemfdCreate("key", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, broken("make memory for the key", err)
	}
	f := os.NewFile(uintptr(fd), "key")
	_, err = f.WriteString(plain.Reveal())
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return nil, errors.Join(broken("make memory for the key", err), f.Close())
	}
	return f, nil
}

func closeKey(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}
