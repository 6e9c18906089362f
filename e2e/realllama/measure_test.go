package realllama

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"

	"github.com/go-json-experiment/json"
)

// measured is the part of bxctl measure --json that is looked at.
type measured struct {
	Server struct {
		Template string `json:"template"`
		Window   int64  `json:"window"`
		Slots    int    `json:"slots"`
	} `json:"server"`
	Depth struct {
		Points []struct {
			At     int64   `json:"at"`
			Prompt float64 `json:"prompt_tps"`
			N      int64   `json:"prompt_n"`
			Lost   int64   `json:"lost"`
		} `json:"points"`
	} `json:"depth"`
	Cache struct {
		Rows []struct {
			What    string `json:"what"`
			Before  int64  `json:"before"`
			CacheN  int64  `json:"cache_n"`
			PromptN int64  `json:"prompt_n"`
			GenN    int64  `json:"predicted_n"`
		} `json:"rows"`
	} `json:"cache"`
	Tools struct {
		Trials []struct {
			Parsed bool `json:"parsed"`
		} `json:"trials"`
	} `json:"tools"`
	Raw []struct {
		Step    string `json:"step"`
		What    string `json:"what"`
		Timings struct {
			timings
			MS   float64 `json:"prompt_ms"`
			Rate float64 `json:"prompt_per_second"`
		} `json:"timings"`
	} `json:"raw"`
	Contract []struct {
		Point   string `json:"point"`
		Verdict string `json:"verdict"`
		Seen    string `json:"seen"`
	} `json:"contract"`
	Expect string `json:"expect"`
	Report string `json:"report"`
}

// bxctl runs a command that may take its time, and gives its output and exit code.
func bxctl(t *testing.T, s *stack.Stack, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience())
	defer cancel()
	cmd := s.Command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestMeasure: the figures of bxctl measure are those that the server gives to
// somebody else who asks, and the other slots keep what they hold.
func TestMeasure(t *testing.T) {
	each(t, func(t *testing.T, m model) {
		s := startTCPServer(t, m)
		other := newTalk(s, 0) // a live conversation on the main slot
		other.user("Tell me of rivers.").reply(nil)
		st := stack.New(t)
		between := newTap(t, s)
		st.Must("", "init", "--upstream", "http://"+between.addr)
		out, errs, code := bxctl(t, st, "measure", "--json", "--depth", "8192", "--trials", "8")
		var got measured
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 && code != 5 {
			t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
		}
		compareServer(t, s, got)
		compareRates(t, got)
		compareCache(t, m, got)
		compareIndependently(t, s, m, between, got)
		for _, p := range got.Contract {
			t.Logf("%-9s %s: %s", p.Verdict, p.Point, p.Seen)
			if p.Verdict == "broken" {
				t.Errorf("broken on a good server: %+v", p)
			}
		}
		// What the main slot held is still there.
		want := other.last.Timings.next()
		if now := other.user("And now of boats.").reply(nil).Timings; m.tiny() && now.Cache != want {
			t.Errorf("the main slot reused %d tokens of %d", now.Cache, want)
		}
	})
}

// compareServer asks the server itself.
func compareServer(t *testing.T, s *server, got measured) {
	t.Helper()
	r, err := s.client.Get("http://llama/props")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var props struct {
		Template string `json:"chat_template"`
		Slots    int    `json:"total_slots"`
		Settings struct {
			Window int64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := json.UnmarshalRead(r.Body, &props); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(props.Template))
	hash := hex.EncodeToString(sum[:])
	if got.Server.Template != hash || got.Server.Slots != props.Slots || got.Server.Window != props.Settings.Window || !strings.Contains(got.Expect, hash) {
		t.Errorf("measured %+v, the server says %d slots of %d, template %s", got.Server, props.Slots, props.Settings.Window, hash)
	}
}

// compareRates holds each rate to the raw figures of the same request.
func compareRates(t *testing.T, got measured) {
	t.Helper()
	if len(got.Depth.Points) != 3 || got.Depth.Points[0].At != 0 || got.Depth.Points[2].At < 7000 {
		t.Fatalf("points %+v", got.Depth.Points)
	}
	i := 0
	for _, row := range got.Raw {
		if row.Step != "throughput" || !strings.HasPrefix(row.What, "probe") {
			continue
		}
		p := got.Depth.Points[i]
		i++
		if p.N != int64(row.Timings.Prompt) || p.Prompt != row.Timings.Rate || p.N < 700 || p.N > 2200 {
			t.Errorf("%+v is not %+v", p, row)
		}
		if rate := float64(row.Timings.Prompt) / row.Timings.MS * 1000; rate < 0.99*p.Prompt || rate > 1.01*p.Prompt {
			t.Errorf("%d tokens in %f ms are not %f a second", int64(row.Timings.Prompt), row.Timings.MS, p.Prompt)
		}
	}
	if i != len(got.Depth.Points) {
		t.Errorf("%d raw rows", i)
	}
}

// compareCache knows what llama-server does with a strict extension.
func compareCache(t *testing.T, m model, got measured) {
	t.Helper()
	rows := got.Cache.Rows
	if len(rows) != 8 || rows[0].CacheN > 8 {
		t.Fatalf("rows %+v", rows)
	}
	for i := 1; m.tiny() && i <= 2; i++ {
		if had := rows[i-1].CacheN + rows[i-1].PromptN + rows[i-1].GenN; rows[i].Before != had || rows[i].CacheN > had-1 || rows[i].CacheN < had-200 {
			t.Errorf("row %+v after %d", rows[i], had)
		}
	}
	if rows[7].CacheN > rows[3].CacheN/2 {
		t.Errorf("a tool was added, and %d tokens were reused", rows[7].CacheN)
	}
	for _, trial := range got.Tools.Trials {
		if m.tiny() && !trial.Parsed {
			t.Error("a trial did not parse")
		}
	}
}

// TestDoctor: a real server is known as one; another template, and a server that
// is gone, are named.
func TestDoctor(t *testing.T) {
	m := firstTiny(t)
	s := startTCPServer(t, m)
	st := stack.New(t)
	st.Must("", "init", "--upstream", "http://"+s.addr)
	look := func(want ...string) {
		t.Helper()
		out, errs, _ := bxctl(t, st, "doctor")
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in\n%s%s", w, out, errs)
			}
		}
	}
	look("answers: llama-server b", "3 slots of 32,768 tokens", "0 failures")
	path := filepath.Join(st.Layout.Config, "loopd.toml")
	if out, err := exec.Command("sed", "-i", `s/^template = ""/template = "`+strings.Repeat("0", 64)+`"/; s/^context  = 0/context = 65536/`, path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	look("the chat template is another one than pinned", "a slot has 32,768 tokens, expected are 65,536", "2 failures")
	s.kill()
	look("connection refused", "start llama-server")
}
