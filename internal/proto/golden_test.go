package proto

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A golden is one message or record as it goes over the wire or into a log,
// followed by a line break that is not part of it. Goldens are never changed:
// what was written once must be readable for ever. So -update only adds. An
// optional field that is new changes the full example of its type, and -update
// then adds <tag>.full-2.json beside the old one.
var update = flag.Bool("update", false, "add golden files for examples that have none")

const (
	goldens = "testdata"
	sums    = "testdata/SHA256SUMS"
)

// A family is a folder of goldens and how its documents are read and written.
type family struct {
	dir      string
	tags     []string
	examples []goldenExample
	again    func(b []byte) (tag string, out []byte, err error) // decode and encode
}

type goldenExample struct {
	tag, variant string
	bytes        []byte
}

func families(t testing.TB) []family {
	t.Helper()
	var all []family
	for _, f := range unionFamilies() {
		fam := family{dir: f.dir, tags: f.union.Tags(), again: func(b []byte) (string, []byte, error) {
			m, err := f.union.Decode(b)
			if err != nil {
				return "", nil, err
			}
			out, err := Encode(m)
			return m.Tag(), out, err
		}}
		for _, ex := range f.examples {
			for i, m := range []Message{ex.full, ex.min} {
				b, err := Encode(m)
				if err != nil {
					t.Fatal(err)
				}
				fam.examples = append(fam.examples, goldenExample{m.Tag(), []string{"full", "min"}[i], b})
			}
		}
		all = append(all, fam)
	}
	return append(all, recordFamily(t), auditFamily(t))
}

type unionFamily struct {
	dir      string
	union    Union
	examples []example[Message]
}

func unionFamilies() []unionFamily {
	return []unionFamily{
		{"loop-request", LoopRequests, loopRequests()},
		{"loop-event", LoopEvents, loopEvents()},
		{"broker-request", BrokerRequests, brokerRequests()},
		{"broker-event", BrokerEvents, brokerEvents()},
		{"owner-request", OwnerRequests, ownerRequests()},
		{"owner-event", OwnerEvents, ownerEvents()},
		{"runner-request", RunnerRequests, runnerRequests()},
		{"runner-event", RunnerEvents, runnerEvents()},
		{"egress-request", EgressRequests, egressRequests()},
		{"egress-event", EgressEvents, egressEvents()},
		{"gateway-request", GatewayRequests, gatewayRequests()},
		{"gateway-event", GatewayEvents, gatewayEvents()},
		{"probe-request", ProbeRequests, probeRequests()},
		{"probe-event", ProbeEvents, probeEvents()},
	}
}

func recordFamily(t testing.TB) family {
	t.Helper()
	fam := family{dir: fmt.Sprintf("record/v%d", RecordVersion), tags: RecordKinds(), again: func(b []byte) (string, []byte, error) {
		h, r, err := DecodeRecord(b)
		if err != nil {
			return "", nil, err
		}
		out, err := EncodeRecord(h, r)
		return r.Kind(), out, err
	}}
	for _, ex := range recordExamples() {
		for i, r := range []Record{ex.full, ex.min} {
			b, err := EncodeRecord(exHeaders[i], r)
			if err != nil {
				t.Fatal(err)
			}
			fam.examples = append(fam.examples, goldenExample{r.Kind(), []string{"full", "min"}[i], b})
		}
	}
	return fam
}

func auditFamily(t testing.TB) family {
	t.Helper()
	fam := family{dir: fmt.Sprintf("audit/v%d", AuditVersion), tags: AuditKinds(), again: func(b []byte) (string, []byte, error) {
		h, r, err := DecodeAudit(b)
		if err != nil {
			return "", nil, err
		}
		out, err := EncodeAudit(h, r)
		return r.Kind(), out, err
	}}
	for _, ex := range auditExamples() {
		for i, r := range []AuditRecord{ex.full, ex.min} {
			b, err := EncodeAudit(AuditHeader{exHeaders[i].N, exHeaders[i].Time, []string{exHash, NoHash}[i]}, r)
			if err != nil {
				t.Fatal(err)
			}
			fam.examples = append(fam.examples, goldenExample{r.Kind(), []string{"full", "min"}[i], b})
		}
	}
	return fam
}

// find gives the golden with these bytes, or a free name for it.
func (f family) find(t *testing.T, ex goldenExample) (path string, there bool) {
	t.Helper()
	for i := 1; ; i++ {
		path = fmt.Sprintf("%s/%s/%s.%s.json", goldens, f.dir, ex.tag, ex.variant)
		if i > 1 {
			path = fmt.Sprintf("%s/%s/%s.%s-%d.json", goldens, f.dir, ex.tag, ex.variant, i)
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return path, false
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(bytes.TrimSuffix(b, []byte("\n")), ex.bytes) {
			return path, true
		}
	}
}

func TestEveryTypeHasGoldens(t *testing.T) {
	for _, f := range families(t) {
		missing := slices.Clone(f.tags)
		for _, ex := range f.examples {
			missing = slices.DeleteFunc(missing, func(tag string) bool { return tag == ex.tag })
			path, there := f.find(t, ex)
			if there {
				continue
			}
			if !*update {
				t.Errorf("no golden %s with %s: run go test ./internal/proto -update", path, ex.bytes)
				continue
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(ex.bytes, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			addSum(t, path)
		}
		if len(missing) > 0 {
			t.Errorf("%s: no example of %q", f.dir, missing)
		}
	}
}

func addSum(t *testing.T, path string) {
	t.Helper()
	s, err := os.OpenFile(sums, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fmt.Fprintln(s, sumLine(t, path))
}

func sumLine(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rel, _ := filepath.Rel(goldens, path)
	return fmt.Sprintf("%x  %s", sha256.Sum256(b), rel)
}

// TestGoldensAreUnchanged: the list of sums and the files agree. sha256sum -c
// in testdata does the same.
func TestGoldensAreUnchanged(t *testing.T) {
	b, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	var have []string
	for _, path := range goldenFiles(t, "") {
		have = append(have, sumLine(t, path))
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("goldens are never changed or removed; add one instead.\nlisted:\n%s\nthere:\n%s", strings.Join(want, "\n"), strings.Join(have, "\n"))
	}
}

// goldenFiles lists the goldens below a folder of testdata; "" means all.
func goldenFiles(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.json", "*/*.json", "*/*/*.json"} {
		m, err := filepath.Glob(filepath.Join(goldens, dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	return files
}

// TestGoldensStayReadable: every golden, old ones too, decodes, and encodes to
// the same bytes.
func TestGoldensStayReadable(t *testing.T) {
	for _, f := range families(t) {
		// Of records every version that there ever was.
		dir, versioned := f.dir, false
		if parent, _, ok := strings.Cut(f.dir, "/v"); ok {
			dir, versioned = parent, true
		}
		files := goldenFiles(t, dir)
		if len(files) < len(f.tags) {
			t.Errorf("%s: %d files for %d tags", f.dir, len(files), len(f.tags))
		}
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b, _ = bytes.CutSuffix(b, []byte("\n"))
			tag, out, err := f.again(b)
			current := strings.HasPrefix(path, filepath.Join(goldens, f.dir))
			if err != nil || current && !bytes.Equal(out, b) {
				t.Errorf("%s: %v\n in: %s\nout: %s", path, err, b, out)
			}
			if !strings.HasPrefix(filepath.Base(path), tag+".") {
				t.Errorf("%s holds a %s", path, tag)
			}
			switch {
			case dir == "record":
				checkTrusted(t, b)
			case versioned:
				checkTrustedAudit(t, b)
			}
		}
	}
}

// TestExamples: a full example leaves no field empty, a minimal one fills no
// field that may be left out. So a field that is added is in a golden.
func TestExamples(t *testing.T) {
	check := func(name string, full, minimal any) {
		t.Helper()
		for _, f := range unset(reflect.ValueOf(full).Elem(), "") {
			t.Errorf("%s: the full example does not set %s", name, f)
		}
		for _, f := range optionalSet(reflect.ValueOf(minimal).Elem(), "") {
			t.Errorf("%s: the minimal example sets %s", name, f)
		}
	}
	for _, f := range unionFamilies() {
		for _, ex := range f.examples {
			check(f.dir+": "+ex.full.Tag(), ex.full, ex.min)
		}
	}
	for _, ex := range auditExamples() {
		check("audit: "+ex.full.Kind(), ex.full, ex.min)
	}
	for _, ex := range recordExamples() {
		check(ex.full.Kind(), ex.full, ex.min)
	}
}

func unset(v reflect.Value, path string) []string {
	switch {
	case v.IsZero() && (v.Kind() != reflect.Struct || v.NumField() > 0):
		return []string{path}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		return unset(v.Index(0), path+"[0]")
	case v.Kind() == reflect.Struct:
		var all []string
		for i := range v.NumField() {
			all = append(all, unset(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
		return all
	}
	return nil
}

func optionalSet(v reflect.Value, path string) []string {
	if v.Kind() != reflect.Struct {
		return nil
	}
	var all []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if strings.Contains(f.Tag.Get("json"), ",omit") && !v.Field(i).IsZero() {
			all = append(all, path+"."+f.Name)
		}
		all = append(all, optionalSet(v.Field(i), path+"."+f.Name)...)
	}
	return all
}
