package audit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// notedFile says how long brokerd's log is, by its own word: "N:HASH", written
// over with each record. It tells of a log that others cut, the last record
// included, and nothing against whoever can write brokerd's folder.
const notedFile = "audit.head"

// noted reads it. A log of an earlier time, or one that nobody wrote to, has none.
func (l Log) noted() (all []chain.Anchor, problem error) {
	text, err := l.readNoted()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	count, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	h := proto.AuditHead{N: n, Hash: hash}
	if err = errors.Join(err, h.Validate()); err != nil {
		return nil, errors.New("it holds no N:HASH")
	}
	return []chain.Anchor{{AuditHead: h, From: "broker/" + notedFile, Own: true}}, nil
}

// readNoted reads until it reads the same twice: brokerd may be writing.
func (l Log) readNoted() (text string, err error) {
	for range 100 {
		again, err := plainText(filepath.Join(l.State, notedFile))
		if err != nil || again == text && text != "" {
			return again, err
		}
		text = again
	}
	return text, nil
}
