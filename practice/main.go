// Command practice is a stand-in for llama-server with a rule-based brain: what
// a new owner without a GPU talks to, and the server of the whole-system tests.
// It has llama-server's API (as seen on build b11669) with true cache figures,
// token counts and timings. It is not a language model and says so.
//
// It holds nothing: no state is kept, no file is written but the recording that
// -record asks for. It links the standard library, the project's JSON library
// and nothing else, and imports no other package of Boxmaker, so that a mistake
// in a shared package cannot hide on both ends of the wire.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"boxmaker/practice/internal/api"
	"boxmaker/practice/internal/brain"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/listen"
	"boxmaker/practice/internal/slots"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stderr))
}

// settings are the flags.
type settings struct {
	listen            string
	slots, ctx        int
	promptTPS, genTPS float64
	ping              int
	loading           time.Duration
	apiKey, record    string
	faults            bool
	orders            []fault.Fault
}

// run serves until ctx ends. It returns the exit code: 0 after a clean end, 1
// for a failure, 2 for wrong flags.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	logger := slog.New(slog.NewJSONHandler(stderr, nil)).With("role", "practice")
	if err := serve(ctx, s, getenv, logger); err != nil {
		logger.Error("practice ends", "error", err.Error())
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("practice", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.listen, "listen", "", "`ADDRESS`: unix:PATH or tcp:HOST:PORT")
	f.IntVar(&s.slots, "slots", 3, "`number` of slots")
	f.IntVar(&s.ctx, "ctx", 32768, "context of each slot, in `tokens`")
	f.Float64Var(&s.promptTPS, "prompt-tps", 0, "prompt speed in `tokens` a second, 0: as fast as possible")
	f.Float64Var(&s.genTPS, "gen-tps", 0, "generation speed in `tokens` a second, 0: as fast as possible")
	f.IntVar(&s.ping, "ping", 30, "`seconds` of silence between pings in a stream, 0: none")
	f.StringVar(&s.apiKey, "api-key", "", "ask for this `key` (for tests: it is visible to every program)")
	f.StringVar(&s.record, "record", "", "append every chat request to this `file` and serve it at /practice/log")
	f.DurationVar(&s.loading, "loading", 0, "answer 503 \"Loading model\" for this `time` after the start")
	f.BoolVar(&s.faults, "faults", false, "serve /practice/fault, and obey \"!fault KIND\" in a message")
	f.Func("fault", "order a fault: `KIND[,after=N][,times=N][,skip=N][,slot=N][,ms=N][,bytes=N]`; may be repeated", func(v string) error {
		o, err := fault.Parse(v)
		s.orders = append(s.orders, o)
		return err
	})
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.slots < 1 || s.slots > 64 || s.ctx < 256 || s.ctx > 1<<22 || s.ping < 0 || f.NArg() > 0 {
		err := errors.New("practice: 1 to 64 slots, 256 to 4194304 tokens of context, and no arguments behind the flags")
		_, _ = fmt.Fprintln(stderr, err)
		return s, err
	}
	return s, nil
}

func serve(ctx context.Context, s settings, getenv func(string) string, logger *slog.Logger) error {
	ln, err := listen.Open(s.listen, getenv)
	if err != nil {
		return err
	}
	var recorder *api.Recorder
	if s.record != "" {
		if recorder, err = api.NewRecorder(s.record); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	box := new(fault.Box)
	for _, o := range s.orders {
		box.Put(o)
	}
	handler := api.New(api.Config{
		Context: ctx, Pool: slots.New(s.slots, s.ctx), Brain: brain.New().Reply, Faults: box, FaultRoute: s.faults, Record: recorder,
		APIKey: s.apiKey, Ping: time.Duration(s.ping) * time.Second, Loading: s.loading, PromptTPS: s.promptTPS, GenTPS: s.genTPS,
	})
	server := &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second, // as the Keep-Alive header says
	}
	debug.FreeOSMemory() // the compiled rules leave some behind; it stays idle most of its life
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	logger.Info("practice model is ready", "build", api.Build, "slots", s.slots, "ctx", s.ctx, "faults", s.faults || len(s.orders) > 0)
	ready(getenv)
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = shutdown(server)
		<-ended
		logger.Info("practice model ends")
	}
	return errors.Join(err, recorder.Close())
}

// shutdown ends the server. Requests end with its context, so that this is a
// matter of a moment.
func shutdown(server *http.Server) error {
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return server.Close()
	}
	return nil
}

// ready tells a supervisor that asks for it (sd_notify).
func ready(getenv func(string) string) {
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if conn, err := net.Dial("unixgram", path); err == nil {
		_, _ = conn.Write([]byte("READY=1"))
		_ = conn.Close()
	}
}
