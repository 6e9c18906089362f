package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as text with units: "30s", "10m",
// "1h30m". It is never negative.
type Duration time.Duration

// UnmarshalText reads a duration. A number without a unit is refused: 30 could
// be meant as seconds or milliseconds.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 || strings.TrimLeft(string(text), "+-0123456789.") == "" {
		return fmt.Errorf(`%s is not a duration; write a number and a unit, such as "30s", "10m" or "2h"`, quote(text))
	}
	*d = Duration(v)
	return nil
}

// MarshalText gives the form that [Duration.UnmarshalText] reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String gives the usual form, such as "1m30s".
func (d Duration) String() string { return time.Duration(d).String() }

// Size is a number of bytes, written as text with a unit: "512B", "64KiB",
// "256MiB", "2GiB". Units are powers of 1,024.
type Size int64

// units are in falling order, so that [Size.String] finds the largest that fits.
func units() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// UnmarshalText reads a size. Decimal units (KB) are refused rather than
// guessed at.
func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units() {
		digits, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(math.MaxInt64/u.bytes):
			return fmt.Errorf("%s is too large for a size", quote(text))
		case err != nil:
			return badSize(text)
		}
		*s = Size(int64(n) * u.bytes)
		return nil
	}
	return badSize(text)
}

func badSize(text []byte) error {
	return fmt.Errorf(`%s is not a size; write a whole number and B, KiB, MiB or GiB, such as "64KiB"`, quote(text))
}

// MarshalText gives the form that [Size.UnmarshalText] reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String gives the size in the largest unit that keeps it whole.
func (s Size) String() string {
	for _, u := range units() {
		if int64(s)%u.bytes == 0 && s != 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// quote shows a value that an error message is about, cut to a useful length.
func quote(text []byte) string {
	const most = 40
	if len(text) > most {
		return strconv.QuoteToASCII(strings.ToValidUTF8(string(text[:most]), "")) + "…"
	}
	return strconv.QuoteToASCII(string(text))
}
