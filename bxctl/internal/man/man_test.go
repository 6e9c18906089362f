package man

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/topics"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "bxctl", Short: "run it", Long: "All of it.\n\nFirst steps:\n  bxctl ask 'a\\b'\n  .hidden\nEnd.\n\n.SH not a request", Run: run}
	root.PersistentFlags().String("home", "", "the `folder`")
	ask := &cobra.Command{Use: "ask [TEXT…]", Short: "ask one thing", Example: "  bxctl ask -- --x", Run: run}
	ask.Flags().BoolP("json", "j", false, "as JSON")
	ask.Flags().Int("limit", 50, "how many")
	root.AddCommand(ask, &cobra.Command{Use: "unseen", Short: "not shown", Hidden: true, Run: run})
	return root
}

func TestPages(t *testing.T) {
	pages := Pages(tree(), "v1-2")
	if len(pages) != 2+len(topics.Names()) {
		t.Errorf("%d pages", len(pages))
	}
	text := map[string]string{}
	for _, p := range pages {
		text[p.Name] = string(p.Text)
	}
	const want = `.\" Made by bxctl man from the help texts; change those.
.TH "BXCTL\-ASK" "1" "" "Boxmaker v1\-2" "Boxmaker"
.nh
.ad l
.SH NAME
bxctl\-ask \- ask one thing
.SH SYNOPSIS
.B bxctl ask [TEXT…] [flags]
.SH DESCRIPTION
Ask one thing.
.SH OPTIONS
.TP
\fB\-j\fR, \fB\-\-json\fR
As JSON.
.TP
\fB\-\-limit\fR \fIint\fR
How many. Default: 50.
.SH GLOBAL OPTIONS
.TP
\fB\-\-home\fR \fIfolder\fR
The folder.
.SH EXAMPLES
.nf
\&  bxctl ask \-\- \-\-x
.fi
.SH SEE ALSO
\fBbxctl\fR(1)
`
	if text["bxctl-ask.1"] != want {
		t.Errorf("got\n%s", text["bxctl-ask.1"])
	}
	if root := text["bxctl.1"]; !strings.Contains(root, "\n\\&.SH not a request\n") || !strings.Contains(root, `\(aqa\eb\(aq`) || strings.Contains(root, "unseen") {
		t.Errorf("got\n%s", root)
	}
	if slots := text["boxmaker-slots.7"]; !strings.Contains(slots, `\fBmain\fR is for`) {
		t.Errorf("got\n%s", slots)
	}
}

// roff has nothing to complain about.
func TestRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("GROFF IS NOT ON THIS MACHINE: the manual pages were NOT rendered")
	}
	for _, p := range Pages(tree(), "v1") {
		cmd := exec.Command(groff, "-man", "-ww", "-Kutf8", "-Tutf8")
		cmd.Stdin = bytes.NewReader(p.Text)
		var out, complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 || out.Len() < 200 {
			t.Errorf("%s: %v, %s", p.Name, err, &complaints)
		}
	}
}
