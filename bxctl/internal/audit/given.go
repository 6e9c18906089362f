package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/chain"
	"boxmaker/internal/checkpoint"
	"boxmaker/internal/proto"
)

// A Given is a head that the owner kept elsewhere. [Log.Given] makes it.
type Given struct {
	from string
	head proto.AuditHead // if note is empty
	note string          // a checkpoint, to be opened with the keys that are known
}

// Given reads what the owner kept: heads as N:HASH, which [Verdict.Print] prints,
// or checkpoints as they are posted, with whatever stands around them. from says
// where the text is from, for people. A text that holds neither is an error.
func (Log) Given(from, text string) (all []Given, err error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for rest := "\n" + text; ; {
		_, after, ok := strings.Cut(rest, "\n"+checkpoint.Origin+"\n")
		if !ok {
			break
		}
		note := strings.SplitAfterN(checkpoint.Origin+"\n"+after, "\n", 6)
		if len(note) >= 5 && note[3] == "\n" {
			all = append(all, Given{from: from, note: strings.TrimSuffix(strings.Join(note[:5], ""), "\n") + "\n"})
		}
		rest = "\n" + after
	}
	for _, m := range regexp.MustCompile(`(?i)\b([0-9]{1,18}):([0-9a-f]{64})\b`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[1], 10, 64)
		h := proto.AuditHead{N: n, Hash: strings.ToLower(m[2])}
		if err = errors.Join(err, h.Validate()); err == nil {
			all = append(all, Given{from: from, head: h})
		}
	}
	if len(all) == 0 {
		return nil, &fault.Fault{
			Code: fault.Usage, What: fmt.Sprintf("there is no head of the audit log in %s", from), Do: "give N:HASH, or a file with a checkpoint as it was posted or printed", Key: "audit-given",
		}
	}
	return all, nil
}

// given opens what the owner kept. Problems are checkpoints that are none.
func (l Log) given(all []Given) (heads []chain.Anchor, problems []string, err error) {
	var keys []string
	for _, g := range all {
		if g.note != "" && keys == nil {
			if keys, err = l.known(); err != nil {
				return nil, nil, err
			}
		}
		if g.note != "" {
			if g.head, err = open(g.note, keys); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", g.from, err))
				continue
			}
		}
		heads = append(heads, chain.Anchor{AuditHead: g.head, From: g.from})
	}
	return heads, problems, nil
}

// known gives the keys seen first, or brokerd's present one where none was noted yet.
func (l Log) known() ([]string, error) {
	root, err := os.OpenRoot(l.Anchors)
	if err == nil {
		defer root.Close()
		var keys []string
		if keys, err = pinned(root); err == nil && len(keys) > 0 {
			return keys, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, anchorFault(err)
	}
	key, err := plainText(filepath.Join(l.State, publicFile))
	if err != nil {
		return nil, anchorFault(err)
	}
	return []string{key}, nil
}
