package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field finds the struct field that a key names.
func field(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if name := keyOf(f); name == key && name != "" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// keyOf is the key of a field: its tag, or its name in lower case. It is empty
// for a field that no key can reach.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	switch {
	case !f.IsExported() || name == "-" || f.Anonymous && name == "":
		return ""
	case name == "":
		return strings.ToLower(f.Name)
	default:
		return name
	}
}

// element strips pointers and lists, to what a table of the file fills.
func element(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !textual(t)) {
		t = t.Elem()
	}
	return t
}

// typeAt is the Go type at a path of keys, or nil if there is none.
func typeAt(root reflect.Type, path []string) reflect.Type {
	t := root
	for _, key := range path {
		t = element(t)
		switch {
		case t == nil:
			return nil
		case t.Kind() == reflect.Interface: // anything goes below it
			return t
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Struct:
			f, ok := field(t, key)
			if !ok {
				return nil
			}
			t = f.Type
		default:
			return nil
		}
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isPublic reports the tag `config:"public"` on the field at a path.
func isPublic(root reflect.Type, path []string) bool {
	t := element(typeAt(root, path[:len(path)-1]))
	if t == nil || t.Kind() != reflect.Struct {
		return false
	}
	f, ok := field(t, path[len(path)-1])
	return ok && f.Tag.Get("config") == "public"
}

// keysAt lists the keys that the table at a path may have.
func keysAt(root reflect.Type, path []string) []string {
	t := element(typeAt(root, path))
	if t == nil || t.Kind() != reflect.Struct || textual(t) {
		return nil
	}
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if k := keyOf(f); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// tableOf finds the one table that has a key, for a key under the wrong
// heading. It is empty if none or several have it.
func tableOf(root reflect.Type, key string) string {
	var found []string
	var search func(path []string)
	search = func(path []string) {
		for _, k := range keysAt(root, path) {
			at := append(slices.Clone(path), k)
			if k == key && len(path) > 0 {
				found = append(found, strings.Join(path, "."))
			}
			if len(at) < 6 { // a type may contain itself
				search(at)
			}
		}
	}
	search(nil)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// nearest is the known key that was probably meant, or empty.
func nearest(name string, known []string) string {
	best, at := "", 3
	for _, k := range known {
		if d := distance(name, k); d < at && d <= max(1, len(k)/2) {
			best, at = k, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, change, or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// describe says in words what a type takes.
func describe(t reflect.Type) string {
	switch t {
	case nil:
		return "another kind of value"
	case reflect.TypeFor[Duration]():
		return `a duration in quotes, such as "30s"`
	case reflect.TypeFor[Size]():
		return `a size in quotes, such as "64KiB"`
	case reflect.TypeFor[time.Time]():
		return "a date and time, such as 2027-06-30T00:00:00Z"
	}
	if textual(t) {
		return "a text in quotes"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		if element(t).Kind() == reflect.Struct && !textual(element(t)) {
			return "a list of tables"
		}
		return "a list in [ ], each " + describe(element(t))
	case reflect.Struct, reflect.Map:
		return "a table"
	default:
		return "another kind of value"
	}
}
