package tool

import (
	"errors"
	"fmt"
	"path"

	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

// What brokerd and the entry point of a tool in its container say to each
// other: one [Input] on standard input, one [Output] on standard output, both
// in the canonical form of package strict.

// Bounds of Input.Output and Output.Diff, in bytes.
const (
	DefaultOutput = 64 << 10
	MaxOutput     = 1 << 20
	MaxDiff       = 48 << 10
)

// MaxDocument returns the length of the longest [Output] that toolkit writes
// for a limit: its encoded text is at most twice as long as the limit. It is
// what the runner must let through.
func MaxDocument(limit int64) int64 { return 2*limit + 2*MaxDiff + 4096 }

// Input tells an entry point what to do.
type Input struct {
	Args    string   `json:"args"`             // canonical
	Read    []string `json:"read"`             // granted trees and files that are mounted read-only, cleaned
	Write   []string `json:"write"`            // those mounted for writing
	Plain   []string `json:"plain"`            // host:port to which http_fetch sends in plain, absolute form: the door adds secrets and TLS
	Output  int64    `json:"output,omitzero"`  // longest text for the model, in bytes; 0: DefaultOutput
	MS      int64    `json:"ms,omitzero"`      // time that the call has; 0: no limit but the runner's
	Preview bool     `json:"preview,omitzero"` // change nothing, give the diff
	Proxy   bool     `json:"proxy,omitzero"`   // there is a way out: serve it to the children
	Seen    string   `json:"seen,omitzero"`    // what Output.Seen of the preview was: refuse if another file is there now
}

// Validate checks paths and signs.
func (in *Input) Validate() error {
	for _, list := range [][]string{in.Read, in.Write} {
		for _, p := range list {
			if !path.IsAbs(p) || path.Clean(p) != p {
				return fmt.Errorf("tool: input: %q is not an absolute, cleaned path", p)
			}
		}
	}
	if err := checkSeen(in.Seen); err != nil {
		return err
	}
	if in.Output < 0 || in.Output > MaxOutput || in.MS < 0 {
		return errors.New("tool: input: a limit is out of range")
	}
	return nil
}

// Output is what came of a call.
type Output struct {
	Code    proto.Code `json:"code,omitzero"`    // why it failed; empty: it went well
	Text    string     `json:"text"`             // for the model; of a failure one sentence that begins with the code, then what there is
	Dropped int64      `json:"dropped,omitzero"` // bytes of result that are not in Text
	Diff    string     `json:"diff,omitzero"`    // of a preview, unified
	Note    string     `json:"note,omitzero"`    // of a preview: why there is no diff, or only a part
	Seen    string     `json:"seen,omitzero"`    // of a preview: the file that it looked at, as SHA-256 of its bytes, or Absent
}

// Validate checks code and sign.
func (out *Output) Validate() error {
	if err := checkSeen(out.Seen); err != nil {
		return err
	}
	if out.Dropped < 0 {
		return errors.New("tool: output: negative size")
	}
	if out.Code != "" {
		return out.Code.Validate()
	}
	return nil
}

// Absent is what a preview saw where no file was.
const Absent = "absent"

func checkSeen(s string) error {
	if s == "" || s == Absent {
		return nil
	}
	return proto.CheckHash(s)
}

// EncodeInput gives the document for an entry point.
func EncodeInput(in Input) ([]byte, error) { return strict.Marshal(&in) }

// DecodeInput undoes [EncodeInput].
func DecodeInput(b []byte) (Input, error) {
	var in Input
	err := strict.Unmarshal(b, &in)
	return in, err
}

// EncodeOutput gives the document of an entry point.
func EncodeOutput(out Output) ([]byte, error) { return strict.Marshal(&out) }

// DecodeOutput undoes [EncodeOutput]. What it reads was written inside a
// container, where the tool's own program may have been taken over: it is
// data, and well-formed.
func DecodeOutput(b []byte) (Output, error) {
	var out Output
	err := strict.Unmarshal(b, &out)
	return out, err
}
