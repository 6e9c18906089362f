package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/stats"

	"github.com/spf13/cobra"
)

func (a *app) sessionsStats() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "stats ID", Short: "the figures of a session, turn by turn", Args: exactly(1),
		Long: `Shows how full the window is, what each turn processed, reused and generated, the
time to its first token, and what cold caches cost. All of it is read from the log.
What of it can't be read is named at the end, and the exit code is then 1.`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := stats.Read(c.Context(), a.layout.Sessions, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			err = archive.WriteJSON(a.out, s)
		} else {
			_, err = fmt.Fprint(a.env.Stdout, s.Text(a.out, a.out.Width()-1, a.env.Now()))
		}
		return cmp.Or(err, archive.Incomplete(s.Unread))
	}
	return c
}

func (a *app) sessionsSearch() *cobra.Command {
	var asJSON bool
	var since, until string
	var limit int
	c := &cobra.Command{
		Use: "search TEXT", Short: "find messages in all sessions", Args: exactly(1),
		Long: `Finds messages that hold the text, without regard to case: yours, the answers, and
results of tools. Times are a day (2026-01-02), a day and time (2026-01-02T15:04),
or an age (90m, 12h, 7d). Logs that can't be read are named at the end, and the exit
code is then 1.`,
		Example: "  bxctl sessions search 'backup plan'\n  bxctl sessions search --since 7d invoice",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().StringVar(&since, "since", "", "only messages from this `time` on")
	c.Flags().StringVar(&until, "until", "", "only messages before this `time`")
	c.Flags().IntVar(&limit, "limit", 50, "how many")
	c.RunE = func(c *cobra.Command, args []string) error {
		s := archive.Search{Text: args[0], Limit: limit}
		var err error
		if s.Since, err = a.moment(since); err != nil {
			return err
		}
		if s.Until, err = a.moment(until); err != nil {
			return err
		}
		if limit < 1 || strings.TrimSpace(args[0]) == "" {
			return usage(fmt.Errorf("there is nothing to search for"), "give a text, and a --limit of 1 or more")
		}
		found, err := archive.Files{Dir: a.layout.Sessions}.Search(c.Context(), s)
		if err != nil {
			return err
		}
		if asJSON {
			err = archive.WriteJSON(a.out, found)
		} else {
			err = archive.Hits(a.out, found, s, a.env.Now())
		}
		return cmp.Or(err, archive.Incomplete(found.Unread))
	}
	return c
}

// moment reads a time of the command line; empty gives the zero time.
func (a *app) moment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	now := a.env.Now()
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days int
		if _, err := fmt.Sscanf(n, "%d", &days); err == nil && fmt.Sprint(days) == n && days >= 0 {
			return now.AddDate(0, 0, -days), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("%q is no time", s), "write 2026-01-02, 2026-01-02T15:04, or an age such as 12h or 7d")
}
