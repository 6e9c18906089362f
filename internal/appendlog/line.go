package appendlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

const (
	crcKey = `,"crc":"`
	crcLen = len(crcKey) + 8 + len(`"}`) // what replaces a line's closing brace
)

// castagnoli gives CRC-32C, which amd64 and arm64 compute in hardware. The
// call is cheap: the standard library keeps one table.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func appendHex(dst []byte, sum uint32) []byte {
	return hex.AppendEncode(dst, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// checkLine does not parse: what is inside the braces is the caller's.
func checkLine(line []byte) error {
	switch {
	case len(line) > MaxRecord:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrRecord, len(line), MaxRecord)
	case len(line) < 3 || line[0] != '{' || line[1] != '"' || line[len(line)-1] != '}':
		return fmt.Errorf("%w: not a JSON object with a member", ErrRecord)
	case bytes.IndexByte(line, '\n') >= 0:
		return fmt.Errorf("%w: a line break inside", ErrRecord)
	}
	return nil
}

// appendSealed appends line as it stands on disk, checksum and line break included.
func appendSealed(dst, line []byte) []byte {
	body := line[:len(line)-1]
	dst = append(dst, body...)
	dst = append(dst, crcKey...)
	dst = appendHex(dst, crc32.Checksum(body, castagnoli()))
	return append(dst, "\"}\n"...)
}

// Hash gives the SHA-256 of a line, as Append gets it and Visit gives it, in the
// form that it has on disk, as [Log.Last] does: for hash chains.
//
// Precondition: line is one that Append takes.
func Hash(line []byte) [sha256.Size]byte {
	body := line[:len(line)-1]
	var end [crcLen]byte
	tail := appendHex(append(end[:0], crcKey...), crc32.Checksum(body, castagnoli()))
	h := sha256.New()
	h.Write(body)
	h.Write(append(tail, `"}`...))
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// OnDisk gives the length of a line, as Append gets it, on disk.
func OnDisk(line []byte) int64 { return int64(len(line) - 1 + crcLen + 1) }

// unsealWhole checks raw, a line with its line break, and gives the line back
// as Append got it. If it is good, raw is changed: the crc member gives way to
// the closing brace.
func unsealWhole(raw []byte) (line []byte, ok bool) {
	raw, ok = bytes.CutSuffix(raw, []byte("\n"))
	if !ok {
		return nil, false
	}
	n := len(raw) - crcLen
	if n < 1 || n >= MaxRecord || raw[0] != '{' || string(raw[n:n+len(crcKey)]) != crcKey || string(raw[len(raw)-2:]) != `"}` {
		return nil, false
	}
	var sum [8]byte
	appendHex(sum[:0], crc32.Checksum(raw[:n], castagnoli()))
	if string(raw[n+len(crcKey):len(raw)-2]) != string(sum[:]) {
		return nil, false
	}
	raw[n] = '}'
	return raw[:n+1], true
}

// holdsWhole reports whether tail, which is no good line, begins with one that
// is followed by something other than a line break. No crash does that, as it
// leaves a beginning of what was written or bytes that are zero: here a line
// break was damaged after it was written.
func holdsWhole(tail []byte) bool {
	var sum uint32
	done := 0
	for {
		i := bytes.Index(tail[done:], []byte(crcKey))
		if i < 0 || done+i+crcLen >= len(tail) {
			return false
		}
		sum = crc32.Update(sum, castagnoli(), tail[done:done+i])
		at := done + i
		want := append(appendHex([]byte(crcKey), sum), `"}`...)
		if bytes.HasPrefix(tail[at:], want) && tail[at+crcLen] != 0 {
			return true
		}
		sum = crc32.Update(sum, castagnoli(), tail[at:at+1])
		done = at + 1
	}
}
