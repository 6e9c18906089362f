// Package strict is the one JSON form that Boxmaker's own programs exchange.
//
// A document is accepted only in the form that [Marshal] gives it: no unknown,
// duplicate, missing or reordered keys, no null, no white space between tokens,
// no other escape of the same text. So one value has exactly one encoding, and
// a hash of the bytes is a hash of the value: nobody can smuggle a second
// reading of a request past a check that saw the first.
package strict

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// ErrForm reports a document that decodes but is not in canonical form.
var ErrForm = errors.New("strict: not in canonical form")

// A Value is checked before it is encoded and after it is decoded.
type Value interface{ Validate() error }

// Marshal validates v and encodes it in canonical form.
func Marshal(v Value) ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("strict: %w", err)
	}
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("strict: %w", err)
	}
	return b, nil
}

// Unmarshal decodes b into v, which must be a pointer to a zero value, and
// validates it. It refuses b unless Marshal would give the same bytes back.
func Unmarshal(b []byte, v Value) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("strict: %w", err)
	}
	again, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("strict: %w", err)
	}
	if !bytes.Equal(b, again) {
		return ErrForm
	}
	if err := v.Validate(); err != nil {
		return fmt.Errorf("strict: %w", err)
	}
	return nil
}
