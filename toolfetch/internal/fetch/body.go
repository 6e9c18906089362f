package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"
)

// reserve is what is kept free for the words about what is missing.
const reserve = 200

// output makes the result of an answer: a first line with status, address and
// type, then the text.
func (w Work) output(a *tool.HTTPFetch, at *url.URL, resp *http.Response) (tool.Output, error) {
	declared := resp.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(declared)
	if err != nil || !strings.Contains(kind, "/") || len(kind) > 100 {
		kind = ""
	}
	most := int64(maxBody)
	if isHTML(kind) && !a.Raw {
		most = maxHTML
	}
	body, more, broken, err := unpack(resp, most)
	if err != nil {
		return tool.Output{}, err
	}
	if kind == "" || kind == "application/octet-stream" { // the server does not know
		declared = http.DetectContentType(body)
		kind, _, _ = mime.ParseMediaType(declared)
	}
	page := tooltext.NewPage(w.Limit - reserve)
	page.Addf("%d %s, %s, %s\n", resp.StatusCode, http.StatusText(resp.StatusCode), tooltext.Head(at.String(), 500), kind)
	if len(body) == 0 {
		page.Add("\n(no content)\n")
		return tool.Output{Text: page.String()}, nil
	}
	if !textual(kind) {
		return tool.Output{}, failed("%s is %s of %s, not text; it cannot be shown", shown(at), orUnknown(kind), size(len(body), more))
	}
	s := decode(body, declared, kind)
	if strings.IndexByte(s, 0) >= 0 && kind != "text/html" {
		return tool.Output{}, failed("%s says it is %s, but has binary content of %s; it cannot be shown", shown(at), kind, size(len(body), more))
	}
	if isHTML(kind) && !a.Raw {
		s = readable(s, at)
	} else {
		s, _ = tooltext.Clean([]byte(s))
	}
	page.Add("\n")
	n := page.Add(s)
	out := tool.Output{Text: page.String(), Dropped: int64(len(s) - n)}
	switch {
	case n < len(s):
		out.Text += fmt.Sprintf("\n[cut here: %d more bytes of text did not fit]", len(s)-n)
	case broken:
		out.Text += fmt.Sprintf("\n[cut here: the connection broke off after the first %s]", size(len(body), false))
	case more:
		out.Text += fmt.Sprintf("\n[cut here: only the first %s were read]", size(len(body), false))
	}
	return out, nil
}

func orUnknown(kind string) string {
	if kind == "" {
		return "data of an unknown type"
	}
	return kind
}

func size(n int, more bool) string {
	s := fmt.Sprintf("%d bytes", n)
	if n >= 10<<10 {
		s = fmt.Sprintf("%d KiB", n>>10)
	}
	if more {
		return "more than " + s
	}
	return s
}

// unpack reads up to most bytes of the body, without its compression, and says
// whether there are more, and whether that is because the answer broke off.
func unpack(resp *http.Response, most int64) (body []byte, more, broken bool, err error) {
	r := io.Reader(resp.Body)
	for _, coding := range codings(resp.Header.Values("Content-Encoding")) {
		switch coding {
		case "gzip", "x-gzip":
			if r, err = gzip.NewReader(r); err != nil {
				if errors.Is(err, io.EOF) {
					return nil, false, false, nil // an empty body is not compressed
				}
				return nil, false, false, failed("the answer is not the gzip that it says it is")
			}
		case "deflate":
			r = inflate(r)
		default:
			return nil, false, false, failed("the answer is packed in a way that is not known here")
		}
	}
	body, err = io.ReadAll(io.LimitReader(r, most+1))
	if int64(len(body)) > most {
		return body[:most], true, false, nil
	}
	if err != nil && len(body) == 0 {
		return nil, false, false, failed("the connection broke off before the answer was there")
	}
	return body, err != nil, err != nil, nil // what came of a broken answer is shown, and that there was more
}

// codings lists them in the order in which they are to be undone; at most two.
func codings(values []string) (all []string) {
	for c := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
			all = append([]string{c}, all...)
		}
	}
	if len(all) > 2 {
		return []string{"too many"}
	}
	return all
}

// inflate reads "deflate", which is zlib by the standard and bare by some.
func inflate(r io.Reader) io.Reader {
	var start [2]byte
	n, _ := io.ReadFull(r, start[:])
	whole := io.MultiReader(bytes.NewReader(start[:n]), r)
	if n == 2 && start[0]&0x0f == 8 && (uint(start[0])<<8|uint(start[1]))%31 == 0 {
		if z, err := zlib.NewReader(whole); err == nil {
			return z
		}
	}
	return flate.NewReader(whole)
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// textual reports whether a type is for reading.
func textual(kind string) bool {
	top, sub, _ := strings.Cut(kind, "/")
	if top == "text" || strings.HasSuffix(sub, "+json") || strings.HasSuffix(sub, "+xml") || strings.HasSuffix(sub, "+yaml") {
		return true
	}
	if top != "application" {
		return false
	}
	switch sub {
	case "json", "xml", "javascript", "x-javascript", "ecmascript", "x-ndjson", "ndjson", "jsonl", "json-seq", "yaml", "x-yaml", "toml", "graphql",
		"x-www-form-urlencoded", "sql", "x-sh", "x-httpd-php", "typescript", "x-tex", "rtf", "csv", "problem", "manifest":
		return true
	default:
		return false
	}
}

// decode makes UTF-8 of the body: by its byte order mark, the charset that the
// server or the page names, or else UTF-8 if it is that.
func decode(body []byte, declared, kind string) string {
	mark := bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) || bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff"))
	_, params, _ := mime.ParseMediaType(declared)
	if !mark && params["charset"] == "" {
		if name := inXML(body); name != "" && !isHTML(kind) {
			declared = kind + "; charset=" + name
		} else if utf8.Valid(body) || jsonKind(kind) {
			return string(body)
		}
	}
	e, _, _ := charset.DetermineEncoding(body, declared)
	s, _, err := transform.Bytes(e.NewDecoder(), body)
	if err != nil {
		return string(body)
	}
	return strings.TrimPrefix(string(s), "\ufeff")
}

func jsonKind(kind string) bool { return strings.Contains(kind, "json") }

// Patterns are compiled at their first use: every tool starts this program.
var xmlEncoding = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<\?xml[^>]{0,100}encoding=["']([A-Za-z0-9._-]{1,40})["']`)
})

// inXML finds the encoding that an XML document names in its first line.
func inXML(body []byte) string {
	if !bytes.HasPrefix(body, []byte("<?xml")) {
		return ""
	}
	m := xmlEncoding().FindSubmatch(body)
	if m == nil {
		return ""
	}
	return string(m[1])
}
