package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Made up, in the forms of the real ones; assembled here so that no scanner
// takes this file for a leak.
func fakeSecrets() map[string]string {
	long := strings.Repeat("a1B2c3D4e5", 6)
	return map[string]string{
		"api key":      "sk-" + long[:24],
		"api key, new": "sk-proj-" + long[:30],
		"github":       "ghp_" + long[:36],
		"gitlab":       "glpat-" + long[:20],
		"slack":        "xoxb-" + "12345678901-" + long[:12],
		"aws":          "AKIA" + "ABCDEFGHIJKLMNOP",
		"google":       "AIza" + long[:35],
		"hf":           "hf_" + long[:34],
		"age":          "AGE-SECRET-KEY-1" + strings.ToUpper(long[:40]),
		"jwt":          "eyJ" + long[:20] + "." + long[:30] + "." + long[:20],
		"url":          "https://me:" + "hunter22@host.example/x",
		"bearer":       "Bearer " + long[:20],
		"pem":          "-----BEGIN " + "PRIVATE KEY-----",
		"mattermost":   "x7k2mf9qw3ertyu8iopa1sdfgh",
		"hex":          "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"base64":       "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
	}
}

func TestSecretsAreRefusedUnseen(t *testing.T) {
	for name, secret := range fakeSecrets() {
		for where, text := range map[string]string{
			"value":           "name = \"x\"\nmodel = %q\n",
			"literal":         "name = \"x\"\nmodel = '%s'\n",
			"list":            "\nskip = [\"a\", %q]\n",
			"inline table":    "\naliases = { a = %q }\n",
			"unknown key":     "\nother = %q\n",
			"inside a text":   "\nmodel = \"use '%s' for it\"\n",
			"wrong type":      "\nfast = %q\n",
			"multi-line text": "model = '''\n%s\n'''\n",
		} {
			t.Run(name+" in "+where, func(t *testing.T) {
				err := decode("f", fmt.Appendf(nil, text, secret), preset())
				refusedUnseen(t, err, secret)
			})
		}
	}
}

func refusedUnseen(t interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, err error, secret string,
) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted")
	}
	if !strings.Contains(err.Error(), "config-secret") {
		t.Errorf("refused for another reason: %v", err)
	}
	for i := 0; i+8 <= len(secret); i++ {
		if part := secret[i : i+8]; strings.Contains(err.Error(), part) && !strings.Contains("private key", strings.ToLower(part)) {
			t.Errorf("the error shows %q", part)
		}
	}
}

// Known forms leak in a comment or a broken line just as well.
func TestSecretOutsideValues(t *testing.T) {
	key := fakeSecrets()["api key"]
	for _, text := range []string{"\n# " + key + "\n", "\nname = " + key + "\n", "\n" + key + "\n"} {
		err := decode("f", []byte(text), preset())
		refusedUnseen(t, err, key)
		if err != nil && !strings.HasPrefix(err.Error(), "f:2: ") {
			t.Errorf("wrong line: %v", err)
		}
	}
}

func TestSecretNames(t *testing.T) {
	for key, refused := range map[string]bool{
		"password": true, "bot_token": true, "token": true, "api_key": true, "apikey": true, "client_secret": true, "private_key": true,
		"db_pass": true, "auth_key_id": false, "token_file": false, "password_file": false, "secret_name": false, "max_tokens": false,
		"tokens": false, "key": false, "monkey": false, "keyboard": false, "thinking_token_budget": false, "passive": false,
	} {
		if got := secretLooking(key, "abc", false) != ""; got != refused {
			t.Errorf("%s: refused %v, want %v", key, got, refused)
		}
		if secretLooking(key, "", false) != "" {
			t.Errorf("%s: an empty value is refused", key)
		}
	}
	err := decode("f", []byte("bot_token = \"hunter2\"\n"), preset())
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), `f:1: the value of "bot_token" looks like a secret (its key is named like one); `) {
		t.Error(err)
	}
}

// What a config really holds must get through.
func TestNoFalseAlarm(t *testing.T) {
	hash := fakeSecrets()["hex"]
	for _, value := range []string{
		"Qwen3.5-35B-A3B-Instruct-UD-Q4_K_XL.gguf",
		"Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
		"Meta-Llama-3.1-70B-Instruct-Q5_K_M-00001-of-00003.gguf",
		"/home/me/.cache/models/DeepSeek-R1-Distill-Qwen-32B-Q6_K_L.gguf",
		"/var/lib/boxmaker/run/inferproxy/loopd/infer.sock",
		"unix:/run/user/1000/boxmaker/run/practice/inferproxy/llama.sock",
		"/home/me/.cache/huggingface/hub/models--unsloth--Qwen3/snapshots/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b/Qwen3.gguf",
		"unix:/tmp/TestSettingsFileOfLoopd2389472389/001/llama.sock",
		"http://gpu-box.tail0a1b2c.ts.net:8080/v1",
		"tcp:[fd7a:115c:a1e0:ab12:4843:cd96:626b:430a]:8080",
		"3f2504e0-4f89-41d3-9a0c-0305e82c3301",
		"2027-06-30T00:00:00Z",
		"<|im_start|>assistant",
		"Answer briefly; you have used most of your thinking budget and must now give the final answer.",
		"Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"----------------------------------------",
	} {
		for _, key := range []string{"model", "template_hash"} {
			if what := secretLooking(key, value, false); what != "" {
				t.Errorf("%s = %q: %s", key, value, what)
			}
		}
	}
	if err := decode("f", []byte("[server]\ntemplate_hash = \""+hash+"\"\n"), preset()); err != nil {
		t.Error(err)
	}
	if err := decode("f", []byte("owner = \"x7k2mf9qw3ertyu8iopa1sdfgh\"\n"), preset()); err != nil {
		t.Errorf("a public field: %v", err)
	}
	if err := decode("f", []byte("owner = \""+fakeSecrets()["api key"]+"\"\n"), preset()); err == nil {
		t.Error("a public field took an API key")
	}
}

// Random bytes in the usual encodings are caught nearly always. What gets
// through is base64 that begins with a slash, like a path, or that has many
// separators by chance: 2.5% of 24 bytes and less of more were measured.
func TestRandomSecretsProperty(t *testing.T) {
	missed, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		// rapid draws small bytes more often; a secret is uniform.
		raw := make([]byte, rapid.IntRange(24, 48).Draw(t, "length"))
		source := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for i := range raw {
			raw[i] = byte(source.Uint32())
		}
		for _, s := range []string{hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw)} {
			all++
			if secretLooking("name", s, false) == "" {
				missed++
			}
		}
	})
	t.Logf("missed %d of %d", missed, all)
	if missed*16 > all {
		t.Errorf("missed %d of %d", missed, all)
	}
}
