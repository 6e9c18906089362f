package grant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// Made when the first broken file is met: few programs ever meet one.
var (
	saysDeny = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?mi)^[\t ]*["']?mode(?:_untrusted)?["']?[\t ]*=[\t ]*["']*[\t ]*deny\b`)
	})
	saysTool = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?mi)^[\t ]*["']?tool["']?[\t ]*=[\t ]*["']*[\t ]*([a-z0-9_]+)`)
	})
)

// salvage gives what is left of a file with a mistake that was meant to deny: a
// deny for all calls of each tool that it names. What else the file says is not
// guessed at; a mistake in a deny must not open what it was to close.
func salvage(name string, data []byte) []*Grant {
	data = data[:min(len(data), MaxFile)]
	if !saysDeny().Match(data) {
		return nil
	}
	sum := sha256.Sum256(data)
	var all []*Grant
	for _, m := range saysTool().FindAllSubmatch(data, -1) {
		t := tool.Find(string(m[1]))
		if t == nil || slices.ContainsFunc(all, func(g *Grant) bool { return g.Tool == t.Name }) {
			continue
		}
		all = append(all, &Grant{
			ID: name, Hash: hex.EncodeToString(sum[:]), Tool: t.Name, Mode: Deny, ModeUntrusted: Deny, MaxTaint: proto.ClassPrivate, ResultClass: proto.ClassPrivate,
			Reason: "the file has a mistake; until it is mended it denies all calls",
		})
	}
	return all
}

// closed says in the first problem what the file does all the same.
func closed(problems []Problem, denies []*Grant) []Problem {
	if len(denies) == 0 || len(problems) == 0 {
		return problems
	}
	out := slices.Clone(problems)
	for _, g := range denies {
		out[0].What += fmt.Sprintf("; until it is mended, every call of %s is denied", g.Tool)
	}
	return out
}

// salvage keeps what is left of a file with a mistake.
func (k *kept) salvage(name string, data []byte) {
	k.denies = salvage(name, data)
	k.problems = closed(k.problems, k.denies)
}
