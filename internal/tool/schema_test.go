package tool

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// property is what a schema says of one argument.
type property struct {
	Type                 string
	Minimum, Maximum     *float64
	MinItems, MaxItems   *int
	Default              any
	Description          string
	Items                *struct{ Type string }
	AdditionalProperties *struct{ Type string }
}

type document struct {
	Type, Description    string
	Properties           map[string]property
	Required             []string
	AdditionalProperties *bool
	Examples             []json.RawMessage
}

func parse(t *testing.T, tool *Tool) document {
	t.Helper()
	var doc document
	if err := json.Unmarshal(tool.Schema(), &doc); err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	return doc
}

// order gives the names of the properties as they stand in the schema.
func order(t *testing.T, tool *Tool) []string {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(string(tool.Schema())))
	var names []string
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return names
		}
		p := strings.Split(string(d.StackPointer()), "/")
		if len(p) == 3 && p[1] == "properties" && tok.Kind() == '"' && tok.String() == p[2] {
			names = append(names, p[2])
			if err := d.SkipValue(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSchemaAndStruct: each property is a field of the struct, bound to the
// struct's member of that name, and the other way round; types, bounds,
// defaults and what is required agree.
func TestSchemaAndStruct(t *testing.T) {
	for _, tool := range All() {
		t.Run(tool.Name, func(t *testing.T) {
			doc, args := parse(t, tool), tool.fresh()
			if doc.Type != "object" || doc.AdditionalProperties == nil || *doc.AdditionalProperties {
				t.Error("the schema lets other members in")
			}
			fields := args.fields()
			var names, required []string
			for _, f := range fields {
				names = append(names, f.name)
				if f.required {
					required = append(required, f.name)
				}
				checkField(t, f, doc.Properties[f.name])
			}
			if got := order(t, tool); !slices.Equal(got, names) || len(doc.Properties) != len(names) {
				t.Errorf("schema has %q, fields %q", got, names)
			}
			if !slices.Equal(doc.Required, required) {
				t.Errorf("schema requires %q, fields %q", doc.Required, required)
			}
			checkMembers(t, reflect.ValueOf(args).Elem(), fields)
			if !slices.Equal(tool.Arguments(), names) {
				t.Errorf("Arguments: %q", tool.Arguments())
			}
		})
	}
}

func checkField(t *testing.T, f field, p property) {
	t.Helper()
	if p.Type != f.value.schemaType() || p.Description == "" {
		t.Errorf("%s: schema type %q, field %q, description %q", f.name, p.Type, f.value.schemaType(), p.Description)
	}
	var def any
	switch v := f.value.(type) {
	case number:
		def = float64(v.def)
		if p.Minimum == nil || *p.Minimum != 0 || p.Maximum == nil || *p.Maximum != float64(v.max) || *v.p != v.def {
			t.Errorf("%s: other bounds or default than the schema's", f.name)
		}
	case flag:
		def = false
	case text:
		if v.def != "" {
			def = v.def
		}
	case list:
		if p.Items == nil || p.Items.Type != "string" || *p.MinItems != 1 || *p.MaxItems != v.max {
			t.Errorf("%s: the schema says something else of the elements", f.name)
		}
	case pairs:
		if p.AdditionalProperties == nil || p.AdditionalProperties.Type != "string" {
			t.Errorf("%s: the schema says something else of the members", f.name)
		}
	}
	if p.Default != def {
		t.Errorf("%s: schema default %v, field %v", f.name, p.Default, def)
	}
}

// checkMembers writes through each field and looks which member has changed.
func checkMembers(t *testing.T, s reflect.Value, fields []field) {
	t.Helper()
	if s.NumField() != len(fields) {
		t.Fatalf("the struct has %d members, %d are fields", s.NumField(), len(fields))
	}
	for i, f := range fields {
		name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
		if name != f.name {
			t.Errorf("member %s is %q, field %q", s.Type().Field(i).Name, name, f.name)
		}
		member := s.Field(i).Addr().Interface()
		var bound any
		switch v := f.value.(type) {
		case number:
			bound = v.p
		case flag:
			bound = v.p
		case text:
			bound = v.p
		case list:
			bound = v.p
		case pairs:
			bound = v.p
		}
		if member != bound {
			t.Errorf("field %s is not bound to the member %s", f.name, s.Type().Field(i).Name)
		}
	}
}

// TestExamples: the examples fit the schema, decode, and are shown in full.
func TestExamples(t *testing.T) {
	for _, tool := range All() {
		var schema jsonschema.Schema
		if err := json.Unmarshal(tool.Schema(), &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		for _, example := range parse(t, tool).Examples {
			var v any
			if err := json.Unmarshal(example, &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); err != nil {
				t.Errorf("%s: example %s: %v", tool.Name, example, err)
			}
			call, err := tool.Decode(string(example))
			if err != nil {
				t.Errorf("%s: example %s: %v", tool.Name, example, err)
				continue
			}
			var again any
			if err := json.Unmarshal([]byte(call.Canonical), &again); err != nil {
				t.Error(err)
			}
			if err := resolved.Validate(again); err != nil {
				t.Errorf("%s: canonical form %s: %v", tool.Name, call.Canonical, err)
			}
		}
	}
}

// TestShort: a small model reads line and schema with every find_tool.
func TestShort(t *testing.T) {
	for _, tool := range All() {
		if len(tool.Line) > 80 || strings.ContainsAny(tool.Line, "\n") || len(tool.Schema()) > 1600 {
			t.Errorf("%s: line of %d, schema of %d bytes", tool.Name, len(tool.Line), len(tool.Schema()))
		}
		if d := parse(t, tool).Description; len(d) < 100 || !strings.HasSuffix(d, ".") {
			t.Errorf("%s: description %q", tool.Name, d)
		}
		if Find(tool.Name) != tool {
			t.Errorf("%s is not found", tool.Name)
		}
	}
	if Find("Run") != nil || Find("") != nil {
		t.Error("a tool that is none was found")
	}
}
