package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/man"
	"boxmaker/bxctl/internal/topics"
	"boxmaker/internal/daemon"
	"boxmaker/internal/durable"

	"github.com/spf13/cobra"
)

// extras adds what is made from the other commands: help on concepts, the
// manual, completion.
func (a *app) extras(root *cobra.Command) {
	root.Long += "\n\nConcepts are explained by bxctl help TOPIC: " + strings.Join(topics.Names(), ", ") + "."
	root.SetHelpCommand(a.help(root))
	root.AddCommand(a.man(root), a.completion(root))
	// A shell that completes asks by a command of cobra's own; nobody else needs the answers.
	if slices.ContainsFunc(a.env.Args, func(arg string) bool { return strings.HasPrefix(arg, cobra.ShellCompRequestCmd) }) {
		a.complete(root)
	}
}

func (a *app) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [TOPIC|COMMAND]", Short: "explain a concept, or a command",
		Long: "Explains a concept: " + strings.Join(topics.Names(), ", ") + ". With the name of a command it is\nthe same as COMMAND --help.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			c, rest, err := root.Find(args)
			known := err == nil && c != root && len(rest) == 0
			if t, ok := topics.Get(args[0]); ok && len(args) == 1 {
				text := t.Render(a.out)
				if known {
					text += "\nThe command: " + c.CommandPath() + " --help\n"
				}
				_, err := fmt.Fprint(a.env.Stdout, text)
				return err
			}
			if !known {
				return usage(fmt.Errorf("there is no help on %q", strings.Join(args, " ")), "the topics are "+strings.Join(topics.Names(), ", ")+"; bxctl --help lists the commands")
			}
			return c.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []cobra.Completion
			for _, n := range topics.Names() {
				t, _ := topics.Get(n)
				out = append(out, cobra.CompletionWithDesc(n, t.Title))
			}
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func (a *app) man(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write the manual pages", Args: exactly(1),
		Long: `Writes a manual page for each command (section 1) and for each topic of bxctl help
(section 7) into a folder, which is made if it is not there. To read them from there:`,
		Example: "  bxctl man ~/.local/share/man\n  man bxctl-ask\n  man 7 boxmaker-slots",
		RunE: func(_ *cobra.Command, args []string) error {
			pages := man.Pages(root, daemon.Version)
			for _, p := range pages {
				if err := writePage(args[0], p); err != nil {
					return &fault.Fault{What: "the manual pages can't be written to " + args[0], Err: err, Do: "name a folder that you can write to", Key: "man-unwritable"}
				}
			}
			_, err := fmt.Fprintf(a.env.Stdout, "%d pages in %s\n", len(pages), args[0])
			return err
		},
	}
}

// writePage puts a page where man(1) looks for it below a folder.
func writePage(dir string, p man.Page) error {
	dir = filepath.Join(dir, "man"+p.Name[len(p.Name)-1:])
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manual pages are for everybody
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.WriteFile(root, p.Name, p.Text, 0o644)
}
