package approval

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"boxmaker/internal/proto"
)

// A Held is one approval as it stands on disk: what the owner is shown, and
// what is needed to go on after a restart.
type Held struct {
	V        int            `json:"v"`
	Approval proto.Approval `json:"approval"`
	Call     proto.Call     `json:"call"`
	Nonce    string         `json:"nonce"`
	Boot     string         `json:"boot"`  // of the machine, when it was asked
	Until    int64          `json:"until"` // milliseconds since that boot
	// Seen is the file that the diff was made from (tool.Output); empty: unknown.
	Seen string `json:"seen,omitzero"`
}

const heldVersion = 1

// Validate checks all parts.
func (h *Held) Validate() error {
	errs := []error{h.Approval.Validate(), h.Call.Validate(), proto.CheckToken(h.Nonce)}
	if h.V != heldVersion {
		errs = append(errs, fmt.Errorf("approval: a file of version %d", h.V))
	}
	if h.Approval.Call != h.Call.ID || h.Approval.Session != h.Call.Session || h.Approval.Tool != h.Call.Tool {
		errs = append(errs, errors.New("approval: the approval is of another call"))
	}
	return errors.Join(errs...)
}

// NewID gives 128 random bits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// alphabet has no two characters that look alike in any usual font.
const (
	alphabet   = "ABCDEFGHKMNPRTUVWXY346789"
	codeLength = 6
)

// newCode gives a code that taken does not know.
func newCode(taken func(string) bool) string {
	for {
		b := make([]byte, codeLength)
		for i := range b {
			n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet)))) // rand.Reader never fails
			b[i] = alphabet[n.Int64()]
		}
		if code := string(b); !taken(code) {
			return code
		}
	}
}

// Digest binds an approval to one call and one question: it is the SHA-256 of
// the call's canonical bytes and a nonce that is used once.
func Digest(canonical, nonce string) string {
	h := sha256.New()
	fmt.Fprintf(h, "boxmaker approval\n%d:%s,%d:%s", len(canonical), canonical, len(nonce), nonce)
	return hex.EncodeToString(h.Sum(nil))
}

// A Clock tells the time twice: as the owner's clock shows it, which may be
// set, and as time since the machine's boot, which also counts while it sleeps.
type Clock struct {
	Now  func() time.Time
	Boot func() (id string, since time.Duration)
}

// expiry is when an approval ends by each clock. The first of them counts.
type expiry struct {
	wall     time.Time
	boot     string
	until    time.Duration
	deadline time.Time // with a monotonic reading
}

// expiryOf continues a wait. floor is a time that has certainly passed, so that
// a clock that was set back extends nothing.
func expiryOf(h *Held, c Clock, floor time.Time) (expiry, error) {
	wall, err := proto.ParseTime(h.Approval.Expires)
	if err != nil {
		return expiry{}, err
	}
	asked, err := proto.ParseTime(h.Approval.Asked)
	if err != nil {
		return expiry{}, err
	}
	now := c.Now()
	passed := now.Round(0)
	for _, t := range []time.Time{asked, floor} {
		if t.After(passed) {
			passed = t
		}
	}
	return expiry{wall: wall, boot: h.Boot, until: time.Duration(h.Until) * time.Millisecond, deadline: now.Add(wall.Sub(passed))}, nil
}

// left is how long the wait still is, by the clock that is the furthest.
func (e expiry) left(c Clock) time.Duration {
	now := c.Now()
	left := min(e.wall.Sub(now.Round(0)), e.deadline.Sub(now))
	if id, since := c.Boot(); id == e.boot {
		left = min(left, e.until-since)
	}
	return left
}
