package secret

import (
	"errors"
	"fmt"
	"slices"

	"boxmaker/internal/strict"
)

// Limits. A value shorter than MinValue can't be found in a tool's result
// without hitting honest text as well, so that it is not taken.
const (
	MinValue = 6
	MaxValue = 64 << 10
	MaxName  = 64
	MaxCount = 256

	maxPlain = 2 * MaxCount * MaxValue // base64 and names included
)

// payload is what the store's file holds, encrypted: canonical JSON.
type payload struct {
	V       int     `json:"v"`
	Secrets []entry `json:"secrets"` // in the order of the names
}

type entry struct {
	Name  string `json:"name"`
	Value []byte `json:"value"` // base64
}

// Validate checks version, names, order and sizes.
func (p *payload) Validate() error {
	if p.V != 1 {
		return fmt.Errorf("secret: version %d of the store is not known here", p.V)
	}
	if p.Secrets == nil || len(p.Secrets) > MaxCount {
		return errors.New("secret: too many secrets, or no list")
	}
	for i, e := range p.Secrets {
		if i > 0 && p.Secrets[i-1].Name >= e.Name {
			return errors.New("secret: names are not in order")
		}
		if err := errors.Join(CheckName(e.Name), CheckValue(string(e.Value))); err != nil {
			return err
		}
	}
	return nil
}

func decode(b []byte) (map[string]Text, error) {
	if len(b) > maxPlain {
		return nil, errors.New("secret: the store is too large")
	}
	var p payload
	if err := strict.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	m := map[string]Text{}
	for _, e := range p.Secrets {
		m[e.Name] = NewText(string(e.Value))
	}
	return m, nil
}

func encode(m map[string]Text) ([]byte, error) {
	p := payload{V: 1, Secrets: []entry{}}
	for name, v := range m {
		p.Secrets = append(p.Secrets, entry{name, []byte(v.Reveal())})
	}
	slices.SortFunc(p.Secrets, func(a, b entry) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return strict.Marshal(&p)
}

// CheckName reports whether name can name a secret: [a-z0-9-]{1,64}.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= MaxName
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return problem("secret-name", "that is no name of a secret", "a name has 1 to 64 characters out of a-z, 0-9 and '-'", nil)
	}
	return nil
}

// CheckValue reports whether a value can be kept.
func CheckValue(v string) error {
	switch {
	case v == "":
		return problem("secret-value", "there is no value", "type it when it is asked for, or give it on standard input", nil)
	case len(v) < MinValue:
		return problem("secret-value", fmt.Sprintf("the value has %d bytes, fewer than %d; results of tools are searched for every secret, and one this short would be found in honest text", len(v), MinValue), "have a longer one issued", nil)
	case len(v) > MaxValue:
		return problem("secret-value", fmt.Sprintf("the value has %d bytes; a secret has at most %d", len(v), MaxValue), "keep a large file elsewhere, and only its key here", nil)
	}
	return nil
}
