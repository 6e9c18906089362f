package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/tools/tinygguf/gguf"
)

func testSpec(arch string) spec {
	return spec{
		arch: arch, style: "xml", seed: 1, context: 1 << 18, odds: testOdds, calls: true,
		replies: []string{"Hm.\n</think>\n\nCanned."},
	}
}

func encode(t *testing.T, s spec) []byte {
	t.Helper()
	f, _, err := build(s)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The hashes pin the bytes across machines and releases. After a change of the
// model that is meant, put the new ones here.
func TestSameFlagsGiveTheSameBytes(t *testing.T) {
	pinned := map[string]string{
		"qwen35": "b9eea25aef31172df7f38a1df02b03088fdbfb9ab267ffcee4e7c8db0800aa87",
		"qwen3":  "b5dfaf013b1375616de3011db1d5ccb1c4c1de500474bec9c28c2cee99bb507d",
	}
	for arch, want := range pinned {
		t.Run(arch, func(t *testing.T) {
			a, b := encode(t, testSpec(arch)), encode(t, testSpec(arch))
			if !bytes.Equal(a, b) {
				t.Fatal("two runs differ")
			}
			if sum := sha256.Sum256(a); hex.EncodeToString(sum[:]) != want {
				t.Errorf("SHA-256 %x, pinned %s", sum, want)
			}
			other := testSpec(arch)
			other.seed = 2
			if bytes.Equal(a, encode(t, other)) {
				t.Error("another seed gives the same weights")
			}
		})
	}
}

func TestBuildMetadata(t *testing.T) {
	for _, arch := range []string{"qwen35", "qwen3"} {
		t.Run(arch, func(t *testing.T) {
			f, v, err := build(testSpec(arch))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for _, kv := range f.Metadata {
				if _, ok := got[kv.Key]; ok {
					t.Errorf("%s is there twice", kv.Key)
				}
				got[kv.Key] = kv.Value
			}
			want := map[string]any{
				"general.architecture":        arch,
				arch + ".context_length":      uint32(1 << 18),
				arch + ".embedding_length":    uint32(128),
				"tokenizer.ggml.eos_token_id": uint32(v.id["<|im_end|>"]),
			}
			for k, w := range want {
				if got[k] != w {
					t.Errorf("%s = %v, want %v", k, got[k], w)
				}
			}
			if _, ok := got[arch+".ssm.state_size"]; ok != (arch == "qwen35") {
				t.Errorf("state-space keys there: %v", ok)
			}
		})
	}
}

// The last token's state has to reach the output as it was: no layer may write to
// the reserved dimensions.
func TestLayersLeaveTheReservedDimensions(t *testing.T) {
	for _, arch := range []string{"qwen35", "qwen3"} {
		spec := testSpec(arch)
		f, _, err := build(spec)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range f.Tensors {
			if !writesBack(x) {
				continue
			}
			n++
			in := int(x.Dims[0])
			for row := range x.Dims[1] {
				var most float32
				for _, w := range x.Data[int(row)*in:][:in] {
					most = max(most, w)
				}
				if (row < uint64(reserved)) != (most == 0) {
					t.Errorf("%s %s: the largest weight of row %d is %v", arch, x.Name, row, most)
				}
			}
		}
		if want := 2 * spec.layers(); n != want {
			t.Errorf("%s: %d matrices write to the residual stream, want %d", arch, n, want)
		}
	}
}

func writesBack(x gguf.Tensor) bool {
	for _, s := range []string{"ffn_down.weight", "attn_output.weight", "ssm_out.weight"} {
		if strings.HasSuffix(x.Name, s) {
			return true
		}
	}
	return false
}

func TestBuildRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(s *spec)
		want string
	}{
		{"architecture", func(s *spec) { s.arch = "llama" }, `architecture "llama"`},
		{"style", func(s *spec) { s.style = "yaml" }, `style "yaml"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := testSpec("qwen3")
			tt.edit(&s)
			if _, _, err := build(s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestTemplateStyles(t *testing.T) {
	xml, err1 := chatTemplate("xml")
	json, err2 := chatTemplate("json")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if xml == json || strings.Contains(xml+json, "@@") {
		t.Error("templates are not filled in")
	}
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.gguf")
	var out, errs bytes.Buffer
	err := run([]string{"-arch", "qwen3", "-tools", "json", "-o", file, "-canned", `"a \"b\"\nc"`, "-canned", `plain \n "d"`}, &out, &errs)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(b, []byte("GGUF\x03\x00\x00\x00")) {
		t.Fatalf("file: %v, begins with %q", err, b[:min(8, len(b))])
	}
	for _, text := range []string{"a \"b\"\nc", `plain \n "d"`} {
		var found bool
		for line := range strings.Lines(out.String()) {
			found = found || strings.HasPrefix(line, "canned ") && strings.HasSuffix(line, fmt.Sprintf(" %q\n", text))
		}
		if !found {
			t.Errorf("no line for %q in\n%s", text, out.String())
		}
	}
	for _, args := range [][]string{{"-canned", `"open`}, {"-o", file, "more"}, {"-o", filepath.Join(file, "x")}, {"-arch", "x"}} {
		if err := run(args, &out, &errs); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
