package strict_test

import (
	"errors"
	"testing"

	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json/jsontext"
)

type inner struct {
	A string `json:"a"`
}

type doc struct {
	Name string         `json:"name"`
	N    int64          `json:"n"`
	On   bool           `json:"on,omitzero"`
	List []inner        `json:"list"`
	More []string       `json:"more,omitempty"`
	Raw  jsontext.Value `json:"raw,omitzero"`
}

var errName = errors.New("a name is needed")

func (d *doc) Validate() error {
	if d.Name == "" {
		return errName
	}
	return nil
}

const form = `{"name":"é\n","n":-5,"on":true,"list":[{"a":"x"}],"more":["y"],"raw":{"z":1.50}}`

func TestCanonicalForm(t *testing.T) {
	for _, s := range []string{
		form,
		`{"name":"x","n":0,"list":[]}`,
		`{"name":"\"\\\b\f\n\r\t\u0000\u001f/<>&` + "\u2028\u007f😀" + `","n":9223372036854775807,"list":[]}`,
		`{"name":"x","n":-9223372036854775808,"list":[],"raw":null}`,
	} {
		var d doc
		if err := strict.Unmarshal([]byte(s), &d); err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if b, err := strict.Marshal(&d); err != nil || string(b) != s {
			t.Errorf("%s came back as %s, %v", s, b, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name, doc string
		form      bool // it decodes, and is refused for its form alone
	}{
		{"nothing", ``, false},
		{"null", `null`, true},
		{"array", `[]`, false},
		{"cut short", form[:len(form)-1], false},
		{"two documents", form + form, false},
		{"line break behind", form + "\n", true},
		{"space in front", " " + form, true},
		{"space inside", `{"name": "x","n":0,"list":[]}`, true},
		{"space in a raw member", `{"name":"x","n":0,"list":[],"raw":{"z": 1}}`, true},
		{"duplicate key", `{"name":"x","name":"x","n":0,"list":[]}`, false},
		{"duplicate key in another spelling", `{"name":"x","n\u0061me":"x","n":0,"list":[]}`, false},
		{"duplicate key in a raw member", `{"name":"x","n":0,"list":[],"raw":{"z":1,"z":1}}`, false},
		{"escaped key", `{"n\u0061me":"x","n":0,"list":[]}`, true},
		{"other case", `{"Name":"x","n":0,"list":[]}`, false},
		{"unknown key", `{"name":"x","n":0,"list":[],"zz":0}`, false},
		{"unknown key in a list", `{"name":"x","n":0,"list":[{"a":"","b":""}]}`, false},
		{"missing key", `{"name":"x","list":[]}`, true},
		{"missing list", `{"name":"x","n":0}`, true},
		{"missing what the check needs", `{"name":"","n":0,"list":[]}`, false},
		{"reordered", `{"n":0,"name":"x","list":[]}`, true},
		{"null for a string", `{"name":null,"n":0,"list":[]}`, true},
		{"null for a list", `{"name":"x","n":0,"list":null}`, true},
		{"null in a list", `{"name":"x","n":0,"list":[null]}`, true},
		{"zero for what is left out", `{"name":"x","n":0,"on":false,"list":[]}`, true},
		{"empty for what is left out", `{"name":"x","n":0,"list":[],"more":[]}`, true},
		{"float", `{"name":"x","n":1.5,"list":[]}`, false},
		{"float that is whole", `{"name":"x","n":1.0,"list":[]}`, false},
		{"exponent", `{"name":"x","n":1e2,"list":[]}`, false},
		{"minus zero", `{"name":"x","n":-0,"list":[]}`, true},
		{"leading zero", `{"name":"x","n":01,"list":[]}`, false},
		{"too big", `{"name":"x","n":9223372036854775808,"list":[]}`, false},
		{"number as a string", `{"name":"x","n":"1","list":[]}`, false},
		{"string as a number", `{"name":1,"n":1,"list":[]}`, false},
		{"escape that is not needed", `{"name":"\u0078","n":0,"list":[]}`, true},
		{"escaped slash", `{"name":"\/","n":0,"list":[]}`, true},
		{"upper-case escape", `{"name":"\u001F","n":0,"list":[]}`, true},
		{"escape with a shorter form", `{"name":"\u000a","n":0,"list":[]}`, true},
		{"half a surrogate pair", `{"name":"\ud800","n":0,"list":[]}`, false},
		{"invalid UTF-8", "{\"name\":\"\xff\",\"n\":0,\"list\":[]}", false},
		{"control character", "{\"name\":\"\x01\",\"n\":0,\"list\":[]}", false},
		{"byte order mark", "\ufeff" + form, false},
		{"comma too many", `{"name":"x","n":0,"list":[],}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := strict.Unmarshal([]byte(tc.doc), new(doc))
			if err == nil || errors.Is(err, strict.ErrForm) != tc.form {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		doc  doc
	}{
		{"what the check refuses", doc{}},
		{"invalid UTF-8", doc{Name: "\xff"}},
		{"raw bytes that are no JSON", doc{Name: "x", Raw: jsontext.Value("{")}},
		{"raw bytes with a duplicate key", doc{Name: "x", Raw: jsontext.Value(`{"a":1,"a":2}`)}},
	} {
		if b, err := strict.Marshal(&tc.doc); err == nil {
			t.Errorf("%s: %s", tc.name, b)
		}
	}
	if _, err := strict.Marshal(&doc{}); !errors.Is(err, errName) {
		t.Errorf("the check's error is lost: %v", err)
	}
}

// FuzzUnmarshal: what is accepted is the one form of its value.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(form))
	f.Add([]byte(`{"name":"x","n":0,"list":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d doc
		if strict.Unmarshal(b, &d) != nil {
			return
		}
		if out, err := strict.Marshal(&d); err != nil || string(out) != string(b) {
			t.Fatalf("%q came back as %q, %v", b, out, err)
		}
	})
}
