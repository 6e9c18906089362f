package main

import (
	"context"
	"fmt"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/toolkit/internal/fetch"
	"boxmaker/toolkit/internal/files"
	"boxmaker/toolkit/internal/forward"
	"boxmaker/toolkit/internal/program"
	"boxmaker/toolkit/internal/tree"
)

// certificates is where the runner mounts the authorities that the machine trusts.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// perform runs the tool of the call within its time. A little of that is kept,
// so that a result that is not complete still gets out.
func perform(ctx context.Context, in tool.Input, call *tool.Call, secrets map[string]string) tool.Output {
	if in.MS > 0 {
		d := time.Duration(in.MS) * time.Millisecond
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d-min(d/10, 500*time.Millisecond))
		defer cancel()
	}
	w := files.Work{Tree: tree.Set{Read: in.Read, Write: in.Write}, Limit: in.Output, Preview: in.Preview}
	switch a := call.Args.(type) {
	case *tool.ListFiles:
		return files.List(ctx, w, a)
	case *tool.ReadFile:
		return files.Read(ctx, w, a)
	case *tool.SearchFiles:
		return files.Search(ctx, w, a)
	case *tool.WriteFile:
		return files.Write(ctx, w, a)
	case *tool.EditFile:
		return files.Edit(ctx, w, a)
	}
	if in.Preview {
		return tool.Output{Note: "this tool has no preview"}
	}
	switch a := call.Args.(type) {
	case *tool.Run:
		return start(ctx, in, a.Argv, a.Dir, secrets)
	case *tool.Shell:
		return start(ctx, in, []string{"/bin/sh", "-c", a.Command}, a.Dir, secrets)
	case *tool.HTTPFetch:
		return fetch.Do(ctx, fetch.Work{Door: forward.Door, CA: certificates, Plain: in.Plain, Limit: in.Output}, a)
	default:
		return internal(fmt.Sprintf("%s is not built into toolkit", call.Tool.Name))
	}
}

// start runs a program, with the way out if there is one.
func start(ctx context.Context, in tool.Input, argv []string, dir string, secrets map[string]string) tool.Output {
	job := program.Job{Argv: argv, Dir: dir, Trees: tree.Set{Read: in.Read, Write: in.Write}, Secrets: secrets, Limit: in.Output}
	if in.Proxy {
		stop, err := forward.Start(ctx, forward.Address, forward.Door)
		if err != nil {
			return internal("the way out could not be opened")
		}
		defer stop()
		job.Env = forward.Env()
	}
	return program.Run(ctx, job)
}

func internal(why string) tool.Output {
	return tool.Output{Code: proto.CodeInternal, Text: string(proto.CodeInternal) + ": " + why + "."}
}
