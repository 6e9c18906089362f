// Command toolkit is the program inside a tool's container: its only one, or
// the first beside a userland. It reads what to do from standard input, does it
// and writes what came of it to standard output, as package tool says.
//
//	toolkit -check PATH=DEV:INO … ENTRY
//
// ENTRY is the name of a tool. Each -check names a mounted path and the device
// and inode that must stand there; if another does, nothing runs and the exit
// status is 126. The entry "probe" is no tool: it prints one line about the
// container and needs no input. A tool that fails is no failure of toolkit: status 0 and a
// code in the output. Status 2 is a use that makes no sense.
//
// http_fetch is not among them: the libraries that read web pages would double
// the start of every other tool, so they are in toolfetch, which is the same in
// all else.
//
// It is made to be process 1 of a PID namespace: it reaps what is left to it,
// ends everything when its tool has ended, and cannot be read or traced by what
// it starts. It holds nothing that the call was not granted.
package main

import (
	"context"
	"fmt"
	"os"

	"boxmaker/internal/tool"
	"boxmaker/internal/toolinit"
	"boxmaker/toolkit/internal/files"
	"boxmaker/toolkit/internal/forward"
	"boxmaker/toolkit/internal/program"
	"boxmaker/toolkit/internal/tree"
)

func main() { os.Exit(toolinit.Main(perform)) }

// perform runs the tool of the call.
func perform(ctx context.Context, in tool.Input, call *tool.Call, secrets map[string]string) tool.Output {
	w := files.Work{Tree: tree.Set{Read: in.Read, Write: in.Write}, Limit: in.Output, Preview: in.Preview, Seen: in.Seen}
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
	default:
		return toolinit.Internal(fmt.Sprintf("%s is not built into toolkit", call.Tool.Name))
	}
}

// start runs a program, with the way out if there is one.
func start(ctx context.Context, in tool.Input, argv []string, dir string, secrets map[string]string) tool.Output {
	ctx, stop := toolinit.Withstand(ctx)
	defer stop()
	job := program.Job{Argv: argv, Dir: dir, Trees: tree.Set{Read: in.Read, Write: in.Write}, Secrets: secrets, Limit: in.Output}
	if in.Proxy {
		stop, err := forward.Start(ctx, forward.Address, forward.Door)
		if err != nil {
			return toolinit.Internal("the way out could not be opened")
		}
		defer stop()
		job.Env, job.NoUnix = forward.Env(), true
	}
	return program.Run(ctx, job)
}
