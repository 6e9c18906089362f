package api

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// The figures are those of the samples chat_stream_basic and ok_max_tokens_0.
func TestTimings(t *testing.T) {
	tests := []struct {
		name string
		t    timings
		want string
	}{
		{
			"six tokens", makeTimings(0, 39, 6, 22889*time.Microsecond, 1693*time.Microsecond),
			`{"cache_n":0,"prompt_n":39,"prompt_ms":22.889,"prompt_per_token_ms":0.5868974358974359,"prompt_per_second":1703.8752239066803,"predicted_n":6,"predicted_ms":1.693,"predicted_per_token_ms":0.3386,"predicted_per_second":2953.3372711163615}`,
		},
		{
			"one token takes no step", makeTimings(25, 4, 1, 24636*time.Microsecond, 0),
			`{"cache_n":25,"prompt_n":4,"prompt_ms":24.636,"prompt_per_token_ms":6.159,"prompt_per_second":162.3640201331385,"predicted_n":1,"predicted_ms":0.001,"predicted_per_token_ms":0.0,"predicted_per_second":0.0}`,
		},
		{
			"nothing yet", makeTimings(18, 0, 0, 0, 0),
			`{"cache_n":18,"prompt_n":0,"prompt_ms":0.0,"prompt_per_token_ms":0.0,"prompt_per_second":0.0,"predicted_n":0,"predicted_ms":0.0,"predicted_per_token_ms":0.0,"predicted_per_second":0.0}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := json.Marshal(tc.t)
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}
