package grant

import (
	"boxmaker/internal/tool"
)

// An ability is what a grant of a tool can be about.
type ability struct {
	reads, writes bool // paths
	fetches       bool // hosts
	programs      bool // it runs programs, which see all of the grant
	named         bool // each call names its paths or hosts, and no more is given
}

// abilities of the tools. A tool that is not listed can do nothing, so that a
// new one must be thought about here before it can be granted.
func abilities(name string) ability {
	switch name {
	case tool.NameListFiles, tool.NameReadFile, tool.NameSearchFiles:
		return ability{reads: true, named: true}
	case tool.NameWriteFile, tool.NameEditFile:
		return ability{writes: true, named: true}
	case tool.NameRun, tool.NameShell:
		return ability{reads: true, writes: true, fetches: true, programs: true}
	case tool.NameHTTPFetch:
		return ability{fetches: true, named: true}
	default:
		return ability{}
	}
}
