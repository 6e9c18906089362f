// Package checkpoint signs heads of the audit log and reads them again: signed
// notes whose text has the shape of a C2SP checkpoint (docs/formats/audit-log.md).
//
// A checkpoint that [Open] accepts was made with the private key that belongs
// to the verifier key, for this log's origin. It does not show that the head
// is that of the log on this machine; package chain does that. The hash in it
// is of the last line of a hash chain and not the root of a Merkle tree.
package checkpoint

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"boxmaker/internal/proto"

	"golang.org/x/mod/sumdb/note"
)

// Origin is the first line of each checkpoint, and the name of its key.
const Origin = "boxmaker/audit"

var (
	// ErrKey reports a text that is no key of this origin.
	ErrKey = errors.New("not a key of the audit log's checkpoints")
	// ErrCheckpoint reports a text that is no checkpoint by that key.
	ErrCheckpoint = errors.New("not a checkpoint that this key signed")
)

// NewKey makes a private key in the form of a signed note's signer.
func NewKey() (string, error) {
	private, _, err := note.GenerateKey(rand.Reader, Origin)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	return private, nil
}

// A Signer signs heads. It does not print its key.
type Signer struct {
	signer   note.Signer
	verifier string
}

// NewSigner takes what [NewKey] gave.
func NewSigner(private string) (*Signer, error) {
	private = strings.TrimSuffix(private, "\n")
	signer, err := note.NewSigner(private)
	if err != nil || signer.Name() != Origin {
		return nil, ErrKey // the reason may hold the key
	}
	// PRIVATE+KEY+<name>+<hash>+<base64 of the algorithm's number and the seed>
	seed, err := base64.StdEncoding.DecodeString(private[strings.Index(private, Origin)+len(Origin)+len("+00000000+"):])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, ErrKey
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return nil, ErrKey
	}
	verifier, err := note.NewEd25519VerifierKey(Origin, public)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return &Signer{signer, verifier}, nil
}

// Verifier gives the public key, for [Open].
func (s *Signer) Verifier() string { return s.verifier }

// Sign gives a signed note, and its signature line alone, without line break.
func (s *Signer) Sign(h proto.AuditHead) (checkpoint, signature string, err error) {
	if err := h.Validate(); err != nil {
		return "", "", fmt.Errorf("checkpoint: %w", err)
	}
	b, err := note.Sign(&note.Note{Text: text(h)}, s.signer)
	if err != nil {
		return "", "", fmt.Errorf("checkpoint: %w", err)
	}
	_, signature, _ = strings.Cut(string(b), "\n\n")
	return string(b), strings.TrimSuffix(signature, "\n"), nil
}

// text is the part that is signed. Precondition: h is valid.
func text(h proto.AuditHead) string {
	sum, _ := hex.DecodeString(h.Hash)
	return fmt.Sprintf("%s\n%d\n%s\n", Origin, h.N, base64.StdEncoding.EncodeToString(sum))
}

// Open checks the signature of a checkpoint and gives its head.
func Open(checkpoint, verifier string) (proto.AuditHead, error) {
	v, err := note.NewVerifier(strings.TrimSuffix(verifier, "\n"))
	if err != nil || v.Name() != Origin {
		return proto.AuditHead{}, ErrKey
	}
	n, err := note.Open([]byte(checkpoint), note.VerifierList(v))
	if err != nil {
		return proto.AuditHead{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return parse(n.Text)
}

// parse undoes text, and takes nothing else.
func parse(signed string) (proto.AuditHead, error) {
	lines := strings.Split(signed, "\n")
	if len(lines) != 4 || lines[0] != Origin || lines[3] != "" {
		return proto.AuditHead{}, fmt.Errorf("%w: not of this kind of log", ErrCheckpoint)
	}
	n, err := strconv.ParseInt(lines[1], 10, 64)
	sum, err2 := base64.StdEncoding.DecodeString(lines[2])
	h := proto.AuditHead{N: n, Hash: hex.EncodeToString(sum)}
	if err := errors.Join(err, err2, h.Validate()); err != nil {
		return proto.AuditHead{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if text(h) != signed {
		return proto.AuditHead{}, fmt.Errorf("%w: not in its one form", ErrCheckpoint)
	}
	return h, nil
}
