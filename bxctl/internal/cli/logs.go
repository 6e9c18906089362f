package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/up"

	"github.com/spf13/cobra"
)

// followPeriod is how often a follower looks for new lines.
const followPeriod = 100 * time.Millisecond

func (a *app) logs() *cobra.Command {
	var follow, asJSON bool
	var last, since string
	c := &cobra.Command{
		Use: "logs [ROLE…]", Short: "show what the programs print", Args: cobra.ArbitraryArgs,
		Long: `Shows the last lines of the logs, merged by time over the roles, with times in your
zone. It reads the files, so that it works when nothing runs. The role up is bxctl up
itself: what it started, what ended and why.

A file is rotated when it is 8 MiB large, and four older ones are kept; all of them
are read, and --follow goes on across a rotation. Where systemd runs the programs,
their lines are read from its journal by journalctl, and look the same; the role
systemd is what systemd itself says of the units, and all that the role up has.`,
		Example: "  bxctl logs\n  bxctl logs loopd inferproxy -f\n  bxctl logs --since 2h -n 20\n  bxctl logs --json -n all | jq 'select(.level == \"ERROR\")'",
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	c.Flags().StringVarP(&last, "lines", "n", "100", "how many lines in all: a `number`, or all")
	c.Flags().StringVar(&since, "since", "", "only lines since then (all of them, unless -n says fewer): how long ago (15m, 2h, 3d), or a `time`")
	c.Flags().BoolVar(&asJSON, "json", false, "one line of JSON each: role, time, level, msg, and the attributes")
	c.RunE = func(c *cobra.Command, roles []string) error {
		q := logs.Query{Dir: a.layout.Log, Roles: roles, Follow: follow}
		var err error
		if q.Last, err = lastLines(last); err != nil {
			return usage(err, "see bxctl logs --help")
		}
		if since != "" {
			if q.Since, err = logs.ParseSince(since, a.env.Now()); err != nil {
				return usage(err, "")
			}
			if !c.Flags().Changed("lines") {
				q.Last = logs.All
			}
		}
		if err := a.checkRoles(roles); err != nil {
			return err
		}
		return a.showLogs(c.Context(), q, asJSON)
	}
	return c
}

// journal is where the lines are if systemd runs the programs; nil if they are in
// files, or journalctl is not on this machine.
func (a *app) journal() (j *logs.Journal, systemd bool) {
	if pid, err := up.Holder(a.layout); err != nil || pid != 0 || !up.RunBySystemd(a.layout) {
		return nil, false
	}
	program, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, true
	}
	roles := slices.DeleteFunc(up.Names(), func(r string) bool { return r == "up" })
	return &logs.Journal{Program: program, User: os.Geteuid() != 0, Roles: roles, Prefix: up.UnitPrefix}, true
}

// tellJournal says which command shows the lines that can't be read from here.
func (a *app) tellJournal(q logs.Query) {
	var flags []string
	if q.Last != logs.All {
		flags = append(flags, fmt.Sprintf("-n %d", q.Last))
	}
	if !q.Since.IsZero() {
		flags = append(flags, "--since '"+q.Since.Local().Format(time.DateTime)+"'")
	}
	if q.Follow {
		flags = append(flags, "-f")
	}
	roles := slices.DeleteFunc(slices.Clone(q.Roles), func(r string) bool { return r == "up" }) // its work is systemd's own
	fmt.Fprintln(a.env.Stderr, a.err.Warn("systemd runs Boxmaker and keeps what the programs print: "+up.JournalCommand(roles, flags...)))
}

func lastLines(s string) (int, error) {
	if s == "all" {
		return logs.All, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("-n %q: it must be a number, or all", s)
	}
	return n, nil
}

// checkRoles refuses a name that neither has a log nor ever could.
func (a *app) checkRoles(roles []string) error {
	there, err := logs.Roles(a.layout.Log)
	if err != nil {
		return unreadable(a.layout.Log, err)
	}
	known := append(up.Names(), there...)
	for _, r := range roles {
		if !slices.Contains(known, r) {
			slices.Sort(known)
			return usage(fmt.Errorf("there is no role %q", r), "the roles are "+strings.Join(slices.Compact(known), ", "))
		}
	}
	return nil
}

func unreadable(dir string, err error) error {
	return &fault.Fault{What: "the logs in " + dir + " can't be read", Err: err, Do: "run it as the user that runs bxctl up", Key: "logs-unreadable"}
}

func (a *app) showLogs(ctx context.Context, q logs.Query, asJSON bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if q.Follow {
		t := time.NewTicker(followPeriod)
		defer t.Stop()
		q.Poll = t.C
	}
	shown := 0
	var broken error // standard output
	j, systemd := a.journal()
	err := a.eachLine(ctx, j, systemd, q, func(e logs.Entry) error {
		shown++
		line := ""
		if asJSON {
			line = string(e.JSON())
		} else {
			line = e.Human(a.out, a.env.Now().Location())
		}
		_, broken = fmt.Fprintln(a.env.Stdout, line)
		return broken
	})
	switch {
	case errors.Is(broken, syscall.EPIPE):
		return nil // head and less have seen enough
	case broken != nil:
		return broken
	case err != nil:
		return unreadable(q.Dir, err)
	}
	if shown == 0 && !q.Follow && !asJSON {
		fmt.Fprintln(a.env.Stderr, a.err.Dim(a.noLines(q, systemd)))
	}
	return nil
}

// eachLine reads the journal where the lines are there, else the files. A journal
// that can't be read is told of, with the command for it.
func (a *app) eachLine(ctx context.Context, j *logs.Journal, systemd bool, q logs.Query, visit func(logs.Entry) error) error {
	if j != nil {
		err := j.Each(ctx, q, visit)
		var refused *logs.JournalError
		if !errors.As(err, &refused) {
			return err
		}
		fmt.Fprintln(a.env.Stderr, a.err.Warn("journalctl: "+term.Line(refused.Text)))
	}
	if systemd {
		a.tellJournal(q)
	}
	return q.Each(ctx, visit)
}

// noLines says why nothing was shown.
func (a *app) noLines(q logs.Query, systemd bool) string {
	if all, err := logs.Roles(q.Dir); err == nil && len(all) == 0 && !systemd {
		return "(nothing has run here yet: there are no logs in " + q.Dir + ")"
	}
	return "(no such lines)"
}
