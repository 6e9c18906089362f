package grant

import (
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/proto"
)

// file is a grant as it is written.
type file struct {
	Tool          string      `toml:"tool"`
	Mode          Mode        `toml:"mode"`
	ModeUntrusted Mode        `toml:"mode_untrusted"`
	Expires       time.Time   `toml:"expires"`
	Reason        string      `toml:"reason" config:"public"`
	MaxTaint      proto.Class `toml:"max_taint"`
	ResultClass   proto.Class `toml:"result_class"`
	Untrusted     bool        `toml:"untrusted"`
	Paths         struct {
		Read  []string `toml:"read" config:"public"`
		Write []string `toml:"write" config:"public"`
	} `toml:"paths"`
	Net struct {
		Hosts []string `toml:"hosts" config:"public"`
		Local []string `toml:"local" config:"public"`
	} `toml:"net"`
	Args     map[string]*constraint `toml:"args"`
	Limits   limits                 `toml:"limits"`
	Secrets  secrets                `toml:"secrets"`
	Userland userland               `toml:"userland"`

	own      []string // Boxmaker's own folders
	warnings []Problem
}

// constraint has pointers where a value could not be told from none.
type constraint struct {
	First    []string `toml:"first" config:"public"`
	OneOf    []string `toml:"one_of" config:"public"`
	Pattern  *string  `toml:"pattern" config:"public"`
	MaxBytes *int64   `toml:"max_bytes"`
	MaxItems *int64   `toml:"max_items"`
}

type limits struct {
	CallsPerHour *int64           `toml:"calls_per_hour"`
	Time         *config.Duration `toml:"time"`
	Memory       *config.Size     `toml:"memory"`
	Output       *config.Size     `toml:"output"`
	PIDs         *int64           `toml:"pids"`
}

type secrets struct {
	Names  []string `toml:"names"`
	Inject []inject `toml:"inject"`
}

type inject struct {
	Name   string `toml:"name"`
	Host   string `toml:"host" config:"public"`
	Header string `toml:"header"`
	Prefix string `toml:"prefix"`
}

type userland struct {
	Kind proto.Userland `toml:"kind"`
	Root string         `toml:"root" config:"public"`
}
