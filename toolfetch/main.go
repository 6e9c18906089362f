// Command toolfetch is the program inside the container of an http_fetch: what
// toolkit is to the other tools, and a program of its own because of what it
// costs to start. See toolkit for its arguments and what it guarantees.
package main

import (
	"context"
	"fmt"
	"os"

	"boxmaker/internal/tool"
	"boxmaker/internal/toolinit"
	"boxmaker/toolfetch/internal/fetch"
)

// Places in the container: the way out, and the authorities that the machine trusts.
const (
	door         = "/run/egress.sock"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
)

func main() { os.Exit(toolinit.Main(perform)) }

func perform(ctx context.Context, in tool.Input, call *tool.Call, _ map[string]string) tool.Output {
	a, ok := call.Args.(*tool.HTTPFetch)
	switch {
	case !ok:
		return toolinit.Internal(fmt.Sprintf("%s is not built into toolfetch", call.Tool.Name))
	case in.Preview:
		return tool.Output{Note: "this tool has no preview"}
	}
	return fetch.Do(ctx, fetch.Work{Door: door, CA: certificates, Plain: in.Plain, Limit: in.Output}, a)
}
