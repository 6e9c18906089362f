package redteam

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// auditEdits: whoever changes the log is found out by `bxctl audit verify`, and
// by the verifier that shares no code with it.
func auditEdits() family {
	return family{name: "edits of the audit log", apart: func(t *testing.T) (n int) {
		r := begin(t, func(r *rig) {
			r.grant("10-read", readGrant(r.granted))
			r.grant("20-shell", shellGrant(r.granted))
		})
		for i := range 4 {
			r.is(r.call("shell", r.counted("log")), "")
			r.is(r.call("read_file", obj{"path": filepath.Join(r.outside, fmt.Sprint(i))}), proto.CodeNoGrant)
		}
		r.Down() // keeps the head
		files, err := filepath.Glob(r.Layout.Audit + "/*.jsonl")
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		whole, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
		lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
		last := sha256.Sum256(bytes.TrimSuffix(lines[len(lines)-1], []byte("\n")))
		head := fmt.Sprintf("%d:%s", len(lines), hex.EncodeToString(last[:]))
		check := func(t *testing.T, what string, right bool) {
			t.Helper()
			sub := *r
			sub.TB = t
			if res := sub.Bxctl("", "audit", "verify"); (res.Code == 0) != right {
				t.Errorf("%s: audit verify: exit %d: %s%s", what, res.Code, res.Stdout, res.Stderr)
			}
			if python, err := exec.LookPath("python3"); err == nil {
				out, err := exec.Command(python, "../../docs/formats/verify_audit.py", r.Layout.Audit, head).CombinedOutput()
				if (err == nil) != right {
					t.Errorf("%s: verify_audit.py: %v: %s", what, err, out)
				}
			}
		}
		check(t, "control: as it is", true)
		for what, edit := range auditDamages() {
			n++
			t.Run(what, func(t *testing.T) {
				copied := make([][]byte, len(lines))
				for i := range lines {
					copied[i] = bytes.Clone(lines[i])
				}
				now := bytes.Join(edit(copied), nil)
				if bytes.Equal(now, whole) {
					t.Fatal("nothing was edited")
				}
				if err := os.WriteFile(files[0], now, 0o600); err != nil {
					t.Fatal(err)
				}
				check(t, what, false)
			})
		}
		if err := os.WriteFile(files[0], whole, 0o600); err != nil {
			t.Fatal(err)
		}
		for what, to := range map[string]string{"a file away": "x", "a file of another name": "2001-13.jsonl"} {
			n++
			t.Run(what, func(t *testing.T) {
				moved := filepath.Join(r.Layout.Audit, to)
				if err := os.Rename(files[0], moved); err != nil {
					t.Fatal(err)
				}
				check(t, what, false)
				if err := os.Rename(moved, files[0]); err != nil {
					t.Fatal(err)
				}
			})
		}
		check(t, "control: as it was", true)
		return n
	}}
}

// auditDamages are what somebody may do to the lines of the log.
func auditDamages() map[string]func(lines [][]byte) [][]byte {
	swap := func(old, to string) func(lines [][]byte) [][]byte {
		return func(lines [][]byte) [][]byte {
			for i := range lines {
				if bytes.Contains(lines[i], []byte(old)) {
					lines[i] = bytes.Replace(lines[i], []byte(old), []byte(to), 1)
					return lines
				}
			}
			return lines
		}
	}
	forge := func(edit func(lines [][]byte) [][]byte) func(lines [][]byte) [][]byte {
		return func(lines [][]byte) [][]byte { return rechained(edit(lines)) }
	}
	drop := func(i int) func(lines [][]byte) [][]byte {
		return func(lines [][]byte) [][]byte { return append(lines[:i:i], lines[i+1:]...) }
	}
	cut := func(k int) func(lines [][]byte) [][]byte {
		return func(lines [][]byte) [][]byte { return lines[:len(lines)-k] }
	}
	return map[string]func(lines [][]byte) [][]byte{
		"a verdict changed": swap(`"verdict":"deny"`, `"verdict":"ask"`), "a time changed": swap(`"time":"2`, `"time":"1`), "a checksum changed": swap(`"crc":"`, `"crc":"0`), "a space": swap(`,"kind"`, ` ,"kind"`),
		"a key twice": swap(`"kind":"decision"`, `"kind":"decision","kind":"decision"`), "the first line away": drop(0), "a line away": drop(3), "the last two away": cut(2), "the last five away": cut(5), "all away": func([][]byte) [][]byte { return nil },
		"two lines swapped": func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }, "a line twice": func(l [][]byte) [][]byte { return append(l[:4:4], l[3:]...) }, "a line of before at the end": func(l [][]byte) [][]byte { return append(l, l[2]) },
		"an empty line": func(l [][]byte) [][]byte { return append(l[:3:3], append([][]byte{[]byte("\n")}, l[3:]...)...) }, "a line break away": func(l [][]byte) [][]byte { l[3] = bytes.TrimSuffix(l[3], []byte("\n")); return l },
		"the last line break away": func(l [][]byte) [][]byte { k := len(l) - 1; l[k] = bytes.TrimSuffix(l[k], []byte("\n")); return l }, "half of the last line": func(l [][]byte) [][]byte { k := len(l) - 1; l[k] = l[k][:len(l[k])/2]; return l },
		"carriage returns": func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte("\n"), []byte("\r\n"), 1); return l }, "zeros at the end": func(l [][]byte) [][]byte { return append(l, make([]byte, 512)) },
		"the file twice": func(l [][]byte) [][]byte { return append(l, l...) }, "written anew with another verdict": forge(swap(`"code":"no-grant"`, `"code":"halted"`)), "written anew with other arguments": forge(swap(`echo ran`, `echo run`)),
		"written anew without a line": forge(drop(3)), "written anew without the end": forge(cut(4)), "written anew with a line twice": forge(func(l [][]byte) [][]byte { return append(l[:4:4], l[3:]...) }),
		"a fork of the last records": forge(func(l [][]byte) [][]byte {
			k := len(l) - 2
			return append(swap(`"code":"no-grant"`, `"code":"halted"`)(l[k:]), l[:0]...)
		}),
		"written anew in other order": forge(func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }),
	}
}

// rechained numbers the lines anew and gives them right links and checksums: the
// best that a forger can do.
func rechained(lines [][]byte) [][]byte {
	number, link := regexp.MustCompile(`"n":\d+`), regexp.MustCompile(`"prev":"[0-9a-f]*"`)
	prev := strings.Repeat("0", 64)
	first := func(re *regexp.Regexp, b []byte, to string) []byte {
		at := re.FindIndex(b)
		return append(append(bytes.Clone(b[:at[0]]), to...), b[at[1]:]...)
	}
	var out [][]byte
	for n, l := range lines {
		l = first(number, l, fmt.Sprintf(`"n":%d`, n))
		l = first(link, l, `"prev":"`+prev+`"`)
		body := l[:bytes.LastIndex(l, []byte(`,"crc":"`))]
		l = fmt.Appendf(bytes.Clone(body), `,"crc":"%08x"}`, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		sum := sha256.Sum256(l)
		prev = hex.EncodeToString(sum[:])
		out = append(out, append(l, '\n'))
	}
	return out
}
