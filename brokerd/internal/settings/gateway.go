package settings

import (
	"errors"
	"fmt"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// Gateway says which approvals the owner may answer in a chat. Who has taken
// over gatewayd, or the chat's server, can answer those; all others are told
// there as news without a word of the call's arguments.
type Gateway struct {
	Approve  bool        `toml:"approve"`   // any at all
	MaxTaint proto.Class `toml:"max_taint"` // of the session; what it has seen may stand in the arguments
	Never    []string    `toml:"never"`     // tools
}

func defaultGateway() Gateway {
	return Gateway{Approve: true, MaxTaint: proto.ClassPrivate, Never: []string{}}
}

// validate checks class and tools.
func (g *Gateway) validate() error {
	var errs []error
	if err := g.MaxTaint.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("gateway.max_taint is %q; it must be public, private or secret", g.MaxTaint))
	}
	for _, name := range g.Never {
		if tool.Find(name) == nil {
			errs = append(errs, fmt.Errorf("gateway.never names %q, which is no tool; `bxctl tools` lists them", name))
		}
	}
	return errors.Join(errs...)
}
