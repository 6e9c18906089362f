// Package config reads the owner's config files, strictly, and knows where
// Boxmaker's files live.
//
// A file that [Load] accepts has no key that the program does not know, no key
// twice, no key in another case, and no value of another type than the program
// expects; so a typing mistake is an error with a line number and never a
// setting that silently does nothing. A value that looks like a secret is
// refused, because config files are read by many programs and end up in
// backups and bug reports; the value itself is never part of an error.
//
// The secret check is a guess by form (known prefixes, PEM, long random
// strings, keys named like "password"). It catches the mistake of pasting a
// key; it proves nothing about the values it lets through.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"
)

// MaxFile is the largest config file that is read, in bytes.
const MaxFile = 1 << 20

// Load reads the TOML file into the struct that into points to. The caller
// presets the defaults: a key that is not in the file leaves its field as it
// is, a list in the file replaces the whole list. If into has a method
// Validate() error, it is called last, and its errors get the file name (and
// the line, see [Invalid]).
//
// A field takes its key from its `toml:"key"` tag. A field that is also tagged
// `config:"public"` may hold long random text, such as a hash or an account id.
//
// Errors are *[Error] (several joined, if Validate gives several). After an
// error the struct's content is undefined.
func Load(path string, into any) error {
	data, err := read(path)
	if err != nil {
		return err
	}
	return decode(path, data, into)
}

// Decode is [Load] for a file that the caller has read; name is what errors call
// it. It also gives the line of each key (dotted), for what the caller has to
// say about values that are no errors.
func Decode(name string, data []byte, into any) (lines map[string]int, err error) {
	d, err := decodeLines(name, data, into)
	if d != nil {
		lines = d.lines
	}
	return lines, err
}

// read gets the whole file. Only a regular file is read: a FIFO or a device
// could block or never end.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{File: path, What: "there is no such config file", Do: "make one with bxctl init, or correct the path", Runbook: "config-missing", Err: err}
	case err != nil:
		return nil, unreadable(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, unreadable(path, err)
	case info.IsDir():
		return nil, &Error{File: path, What: "this is a folder, not a config file", Do: "give the path of the file in it", Runbook: "config-unreadable", Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &Error{File: path, What: "this is not a regular file", Do: "put the config into a plain text file", Runbook: "config-unreadable"}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(data) > MaxFile {
		return nil, &Error{File: path, What: "the file is larger than 1 MiB", Do: "check that it is the file you mean; no config needs that much", Runbook: "config-not-text"}
	}
	return data, nil
}

func unreadable(path string, err error) *Error {
	var p *fs.PathError
	cause := err
	if errors.As(err, &p) {
		cause = p.Err
	}
	return &Error{
		File: path, What: fmt.Sprintf("the config file cannot be read: %v", cause), Runbook: "config-unreadable", Err: err,
		Do: fmt.Sprintf("make it readable for the user that runs this program (uid %d)", os.Geteuid()),
	}
}

// decode is Load without the file.
func decode(name string, data []byte, into any) error {
	_, err := decodeLines(name, data, into)
	return err
}

func decodeLines(name string, data []byte, into any) (*document, error) {
	if err := checkText(data); err != nil {
		err.File = name
		return nil, err
	}
	doc, err := walk(data, into)
	if err == nil {
		err = fill(data, into)
	}
	if err != nil {
		err.File = name
		return doc, err
	}
	v, ok := into.(interface{ Validate() error })
	if !ok {
		return doc, nil
	}
	return doc, doc.place(name, v.Validate())
}

// checkText refuses what no text file has, and secrets that show in the raw
// text, wherever they stand: a comment leaks as well as a value does.
func checkText(data []byte) *Error {
	if !utf8.Valid(data) {
		at := 0
		for at < len(data) {
			r, n := utf8.DecodeRune(data[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &Error{Line: lineAt(data, at), What: "the file is not UTF-8 text", Do: "save it as UTF-8", Runbook: "config-not-text"}
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return &Error{Line: 1, What: "the file starts with a byte order mark", Do: "save it as UTF-8 without a byte order mark", Runbook: "config-not-text"}
	}
	if at, what := findSecret(data); at >= 0 {
		return secretError(lineAt(data, at), "", "there is "+what+" in the file")
	}
	return nil
}

func secretError(line int, key, what string) *Error {
	return &Error{
		Line: line, Key: key, What: what, Runbook: "config-secret",
		Do: "take it out of this file, and replace it where it was issued if others could read the file",
	}
}

func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// place adds the file, and the line of the key, to the errors of a Validate.
func (d *document) place(name string, err error) error {
	switch e := err.(type) { //nolint:errorlint // the shape of the error itself matters, not what it wraps
	case nil:
		return nil
	case *Error:
		e.File = name
		if e.Line == 0 && e.Key != "" {
			e.Line = d.lines[e.Key]
		}
		return e
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, d.place(name, one))
		}
		return errors.Join(all...)
	default:
		return &Error{File: name, What: err.Error(), Runbook: "config-bad-value", Err: err}
	}
}
