package cli

import (
	"fmt"
	"io"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/config"

	"github.com/spf13/cobra"
)

// maxOffered is how many sessions are offered, newest first.
const maxOffered = 50

func (a *app) completion(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "print a script that completes commands in your shell", Args: exactly(1),
		Long: `Prints a script for your shell. With it, the shell completes commands, flags, session
ids, roles and topics. bash also needs its package bash-completion.`,
		Example: "  source <(bxctl completion bash)                                    # in ~/.bashrc\n  bxctl completion zsh > \"${fpath[1]}/_bxctl\"\n  bxctl completion fish > ~/.config/fish/completions/bxctl.fish",
	}
	c.ValidArgsFunction = fixed("bash", "zsh", "fish")
	c.RunE = func(_ *cobra.Command, args []string) error {
		write, ok := map[string]func(io.Writer) error{
			"bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
			"zsh":  root.GenZshCompletion,
			"fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		}[args[0]]
		if !ok {
			return usage(fmt.Errorf("there is no completion for %q", args[0]), "it must be bash, zsh or fish")
		}
		return write(a.env.Stdout)
	}
	return c
}

// completer offers values of an argument or a flag.
type completer = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete gives each command what its arguments and flags can be.
func (a *app) complete(root *cobra.Command) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = a.arguments(c)
		}
		for flag, f := range map[string]completer{
			"session": a.sessionIDs, "prefix": a.sessionIDs, "format": fixed("md", "json"), "taint": fixed("public", "private", "secret"), "mode": fixed("auto", "ask", "deny"), "mode-untrusted": fixed("auto", "ask", "deny"), "since": fixed("15m", "2h", "1d"), "lines": fixed("20", "100", "all"),
		} {
			if c.LocalNonPersistentFlags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, f) // twice is its only error
			}
		}
		for _, dir := range []string{"out", "home"} {
			if c.Flags().Lookup(dir) != nil {
				_ = c.MarkFlagDirname(dir)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	_ = root.MarkPersistentFlagDirname("home")
}

// arguments tells by the usage line what the first argument is.
func (a *app) arguments(c *cobra.Command) completer {
	_, args, _ := strings.Cut(c.Use, " ")
	switch {
	case args == "ID":
		return a.sessionIDs
	case args == "CODE|ID":
		return a.waiting
	case args == "TOOL", args == "TOOL ARGS":
		return fixed(toolNames()...)
	case args == "[FILE…]":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"toml"}, cobra.ShellCompDirectiveFilterFileExt
		}
	case args == "[ROLE…]":
		return a.roles
	case args == "DIR":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	case c.HasAvailableSubCommands():
		return nil // cobra offers those
	default:
		return fixed()
	}
}

// fixed offers the same values always, and no file names.
func fixed(values ...string) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// located finds the files for a completion, whose --home cobra has read by now.
func (a *app) located() bool {
	l, err := config.Locate(a.getenv)
	a.layout = l
	return err == nil
}

func (a *app) sessionIDs(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if begun != "" && archive.CheckID(begun) != nil || !a.located() {
		return nil, none
	}
	if _, id, _ := strings.Cut(c.Use, " "); id == "ID" && len(args) > 0 {
		return nil, none
	}
	list, err := a.source(c.Context()).Sessions(c.Context(), begun, maxOffered)
	if err != nil {
		return nil, none
	}
	var out []cobra.Completion
	for _, s := range list.Sessions {
		out = append(out, cobra.CompletionWithDesc(string(s.Session), term.Clip(term.Line(s.Title), 60)))
	}
	return out, none | cobra.ShellCompDirectiveKeepOrder
}

func (a *app) roles(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := up.Names()
	if a.located() {
		if there, err := logs.Roles(a.layout.Log); err == nil && len(there) > 0 {
			names = there
		}
	}
	var out []cobra.Completion
	for _, n := range names {
		taken := false
		for _, given := range args {
			taken = taken || given == n
		}
		if !taken {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
