package walltest

import "slices"

// A rule is what one program may link beside the standard library and its own
// folder. A row is a decision, and docs/dependencies.md gives its reasons.
type rule struct {
	modules []string // third-party
	shared  []string // packages in the root's internal/
}

// Third-party code that comes together: a module and what it needs itself.
var (
	jsonModule = []string{"github.com/go-json-experiment/json"}
	tomlModule = []string{"github.com/pelletier/go-toml/v2"}
	landlock   = []string{"github.com/landlock-lsm/go-landlock", "kernel.org/pub/linux/libs/security/libcap/psx", "golang.org/x/sys"}
	cobra      = []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}
	xsync      = []string{"golang.org/x/sync"}
	noteModule = []string{"golang.org/x/mod"} // signed notes
	ageModule  = []string{"filippo.io/age", "filippo.io/hpke", "golang.org/x/crypto"}
	pages      = []string{ // web pages as text
		"codeberg.org/readeck/go-readability/v2", "golang.org/x/net", "golang.org/x/text", "github.com/andybalholm/cascadia",
		"github.com/go-shiori/dom", "github.com/gogs/chardet", "github.com/itlightning/dateparse",
	}
	terminal = []string{ // of the chat: screen, Markdown, plots
		"charm.land/bubbletea/v2", "github.com/yuin/goldmark", "github.com/guptarohit/asciigraph",
		"github.com/charmbracelet/colorprofile", "github.com/charmbracelet/ultraviolet", "github.com/charmbracelet/x/ansi",
		"github.com/charmbracelet/x/term", "github.com/charmbracelet/x/termios", "github.com/charmbracelet/x/windows",
		"github.com/clipperhouse/displaywidth", "github.com/clipperhouse/uax29/v2", "github.com/lucasb-eyer/go-colorful",
		"github.com/mattn/go-runewidth", "github.com/muesli/cancelreader", "github.com/rivo/uniseg", "github.com/xo/terminfo",
		"golang.org/x/sync",
	}
)

// links is the table. Programs that do not exist yet have no row: they get one
// with their first line of code. testkit, walltest and the test libraries are
// in no row, so that no program can link them.
var links = map[string]rule{
	"bxctl": {
		modules: slices.Concat(jsonModule, tomlModule, landlock, cobra, terminal, ageModule, noteModule),
		shared:  []string{"proto", "strict", "frame", "ipc", "durable", "appendlog", "config", "daemon", "secret", "chain", "checkpoint", "grant", "tool", "filestamp"},
	},
	"loopd": {
		modules: slices.Concat(jsonModule, tomlModule, landlock, xsync),
		shared:  []string{"proto", "strict", "frame", "ipc", "durable", "appendlog", "config", "daemon"},
	},
	"brokerd": {
		modules: slices.Concat(jsonModule, tomlModule, landlock, xsync, ageModule, noteModule),
		shared: []string{
			"proto", "strict", "frame", "ipc", "durable", "appendlog", "chain", "checkpoint", "config", "daemon", "secret", "grant", "tool", "proxyreq", "filestamp",
		},
	},
	"egressd": {
		modules: slices.Concat(jsonModule, tomlModule, landlock),
		shared:  []string{"proto", "strict", "frame", "ipc", "config", "daemon", "proxyreq"},
	},
	"gatewayd": {
		modules: slices.Concat(jsonModule, tomlModule, landlock, xsync, ageModule, []string{"github.com/coder/websocket", "github.com/clipperhouse/uax29/v2"}),
		shared:  []string{"proto", "strict", "frame", "ipc", "durable", "appendlog", "config", "daemon", "secret", "filestamp"},
	},
	"inferproxy": {},
	"runnerd": {
		modules: slices.Concat(jsonModule, tomlModule, landlock, xsync),
		shared:  []string{"proto", "strict", "frame", "ipc", "config", "daemon", "filestamp"},
	},
	"toolkit": { // inside the containers
		modules: slices.Concat(jsonModule, []string{"golang.org/x/sys", "github.com/aymanbagabas/go-udiff"}),
		shared:  []string{"proto", "strict", "tool", "toolinit", "tooltext"},
	},
	"toolfetch": { // the same for http_fetch alone
		modules: slices.Concat(jsonModule, pages, []string{"golang.org/x/sys"}),
		shared:  []string{"proto", "strict", "tool", "proxyreq", "toolinit", "tooltext"},
	},
	// practice stands for a server of others, so that it shares nothing with
	// what it tests.
	"practice": {modules: jsonModule},
}

// supports are top-level folders that hold no program: shared packages, tests
// and tools. What is in them is never linked unless a row says so.
var supports = []string{"internal", "e2e", "bench", "tools", "scripts", "docs", "deploy"}

// testFolders hold helpers of tests in files that are not named _test.go.
var testFolders = []string{"e2e", "bench", "tools", "internal/testkit", "internal/walltest", "runnerd/internal/conform"}
