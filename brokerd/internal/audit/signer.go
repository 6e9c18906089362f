package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"boxmaker/internal/checkpoint"
	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
)

// Files of the signer, in brokerd's own folder.
const (
	KeyFile    = "audit.key" // private
	PublicFile = "audit.pub" // for whoever verifies
)

// A Signer signs heads of the log.
type Signer struct{ key *checkpoint.Signer }

// OpenSigner reads the key in root, or makes one, and sees to it that the
// public key stands beside it.
func OpenSigner(root *os.Root) (*Signer, error) {
	private, err := readKey(root)
	if errors.Is(err, fs.ErrNotExist) {
		private, err = makeKey(root)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: the key of the audit log's checkpoints: %w", err)
	}
	key, err := checkpoint.NewSigner(string(private))
	if err != nil {
		return nil, fmt.Errorf("audit: %s in brokerd's folder is %w; put it back from a backup, or remove it: "+
			"then a new key is made, and bxctl audit verify will say that the key changed (see runbook: audit-key)", KeyFile, err)
	}
	public := key.Verifier() + "\n"
	if there, err := root.ReadFile(PublicFile); err != nil || string(there) != public {
		if err := durable.WriteFile(root, PublicFile, []byte(public), 0o644); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	return &Signer{key}, nil
}

func readKey(root *os.Root) ([]byte, error) {
	info, err := root.Lstat(KeyFile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others (%v): make it 0600, and think about who read it (see runbook: audit-key)", KeyFile, info.Mode())
	}
	return root.ReadFile(KeyFile)
}

func makeKey(root *os.Root) ([]byte, error) {
	key, err := checkpoint.NewKey()
	if err != nil {
		return nil, err
	}
	private := []byte(key + "\n")
	return private, durable.Create(root, KeyFile, private, 0o600)
}

func (s *Signer) sign(h proto.AuditHead) (note, signature string, err error) {
	note, signature, err = s.key.Sign(h)
	if err != nil {
		return "", "", fmt.Errorf("audit: %w", err)
	}
	return note, signature, nil
}
