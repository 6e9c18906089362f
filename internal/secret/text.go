// Package secret keeps the owner's secrets encrypted on disk.
//
// It guarantees that no plaintext of a value or of a key touches the disk, that a
// store or key which someone else could have read, written or swapped is refused,
// that a change is whole or did not happen, whenever the power goes, and that a
// value which is printed, logged or encoded shows as "[secret]" unless somebody
// says Reveal. It does not protect a value from a program that runs as the same
// user, nor from who can read the memory of the process.
package secret

import (
	"fmt"
	"log/slog"
)

// hiddenText is what every way of printing a value gives.
const hiddenText = "[secret]"

// Text is a value that does not print. The zero value is empty. It holds a
// pointer, so that fmt, which reads unexported members of other types by
// reflection and past every method, finds an address only.
type Text struct{ v *string }

// NewText makes a value.
func NewText(s string) Text { return Text{&s} }

// Reveal gives the value itself. Whoever calls it answers for where it goes.
func (t Text) Reveal() string {
	if t.v == nil {
		return ""
	}
	return *t.v
}

// String gives "[secret]".
func (Text) String() string { return hiddenText }

// GoString gives "[secret]".
func (Text) GoString() string { return hiddenText }

// Format gives "[secret]" for every verb.
func (Text) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(hiddenText)) // fmt has no way to take an error
}

// MarshalText gives "[secret]"; JSON and TOML use it.
func (Text) MarshalText() ([]byte, error) { return []byte(hiddenText), nil }

// LogValue gives "[secret]".
func (Text) LogValue() slog.Value { return slog.StringValue(hiddenText) }
