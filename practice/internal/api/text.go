package api

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/template"
	"boxmaker/practice/internal/tokenizer"
)

type success struct {
	Success bool   `json:"success"`
	Message string `json:"message,omitzero"`
}

// prompt renders the body of a request that is not to be completed.
func prompt(body []byte) (string, error) {
	req, err := chat.DecodePrompt(body)
	if err != nil {
		return "", err
	}
	return template.Render(req.Input())
}

func (s *Server) applyTemplate(w http.ResponseWriter, _ *http.Request, body []byte) error {
	text, err := prompt(body)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]string{"prompt": text})
	return nil
}

func (s *Server) inputTokens(w http.ResponseWriter, _ *http.Request, body []byte) error {
	text, err := prompt(body)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, struct {
		Tokens int    `json:"input_tokens"`
		Object string `json:"object"`
	}{len(s.tokens.Encode(text)), "response.input_tokens"})
	return nil
}

type piece struct {
	ID    tokenizer.Token `json:"id"`
	Piece any             `json:"piece"`
}

func (s *Server) tokenize(w http.ResponseWriter, _ *http.Request, body []byte) error {
	m, err := chat.Members(body)
	if err != nil {
		return err
	}
	var content string
	if v, ok := m["content"]; ok && json.Unmarshal(v, &content) != nil {
		return chat.TypeError("string", v)
	}
	var tokens []tokenizer.Token
	if string(m["parse_special"]) == "false" {
		tokens = s.tokens.EncodePlain(content)
	} else {
		tokens = s.tokens.Encode(content)
	}
	if string(m["with_pieces"]) != "true" {
		reply(w, http.StatusOK, map[string][]tokenizer.Token{"tokens": tokens})
		return nil
	}
	pieces := make([]piece, 0, len(tokens))
	for _, t := range tokens {
		pieces = append(pieces, piece{t, pieceText(s.tokens.Piece(t))})
	}
	reply(w, http.StatusOK, map[string][]piece{"tokens": pieces})
	return nil
}

// pieceText is a string, or a list of numbers where the bytes are no text.
func pieceText(p string) any {
	if utf8.ValidString(p) {
		return p
	}
	out := make([]int, 0, len(p))
	for _, c := range []byte(p) {
		out = append(out, int(c))
	}
	return out
}

func (s *Server) detokenize(w http.ResponseWriter, _ *http.Request, body []byte) error {
	m, err := chat.Members(body)
	if err != nil {
		return err
	}
	var tokens []tokenizer.Token
	if v, ok := m["tokens"]; ok && json.Unmarshal(v, &tokens) != nil {
		return chat.TypeError("array", v)
	}
	reply(w, http.StatusOK, map[string]string{"content": strings.ToValidUTF8(s.tokens.Decode(tokens), "\uFFFD")})
	return nil
}

// control ends the reasoning of a completion that runs and was armed for it.
func (s *Server) control(w http.ResponseWriter, _ *http.Request, body []byte) error {
	m, err := chat.Members(body)
	if err != nil {
		return err
	}
	var id, action string
	_ = json.Unmarshal(m["id"], &id) // a missing or wrong member is an empty one
	_ = json.Unmarshal(m["action"], &action)
	if id == "" {
		return &chat.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "missing completion id"}
	}
	if action != "reasoning_end" {
		return &chat.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "unknown control action"}
	}
	s.mu.Lock()
	c := s.active[id]
	s.mu.Unlock()
	switch {
	case c == nil:
		reply(w, http.StatusOK, success{Message: "no active completion for this id"})
	case !c.armed:
		reply(w, http.StatusOK, success{Message: "reasoning control not enabled for this completion"})
	default:
		c.end.Store(true)
		reply(w, http.StatusOK, success{Success: true})
	}
	return nil
}

type modelsBody struct {
	Models []modelInfo `json:"models"`
	Object string      `json:"object"`
	Data   []modelData `json:"data"`
}

type modelInfo struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Modified     string   `json:"modified_at"`
	Size         string   `json:"size"`
	Digest       string   `json:"digest"`
	Type         string   `json:"type"`
	Description  string   `json:"description"`
	Tags         []string `json:"tags"`
	Capabilities []string `json:"capabilities"`
	Parameters   string   `json:"parameters"`
	Details      struct {
		Parent       string   `json:"parent_model"`
		Format       string   `json:"format"`
		Family       string   `json:"family"`
		Families     []string `json:"families"`
		Parameters   string   `json:"parameter_size"`
		Quantization string   `json:"quantization_level"`
	} `json:"details"`
}

type modelData struct {
	ID           string   `json:"id"`
	Aliases      []string `json:"aliases"`
	Tags         []string `json:"tags"`
	Object       string   `json:"object"`
	Architecture struct {
		In  []string `json:"input_modalities"`
		Out []string `json:"output_modalities"`
	} `json:"architecture"`
	Created int64     `json:"created"`
	Owner   string    `json:"owned_by"`
	Meta    modelMeta `json:"meta"`
}

type modelMeta struct {
	VocabType int    `json:"vocab_type"`
	Vocab     int64  `json:"n_vocab"`
	Ctx       int    `json:"n_ctx"`
	CtxTrain  int    `json:"n_ctx_train"`
	Embd      int    `json:"n_embd"`
	Params    int    `json:"n_params"`
	Size      int    `json:"size"`
	FType     string `json:"ftype"`
}

func (s *Server) models() modelsBody {
	info := modelInfo{Name: Alias, Model: Alias, Type: "model", Description: "practice model: rules, not a language model", Tags: []string{""}, Capabilities: []string{"completion"}}
	info.Details.Format, info.Details.Families = "none", []string{""}
	data := modelData{
		ID: Alias, Aliases: []string{Alias}, Object: "model", Created: time.Now().Unix(), Owner: "boxmaker",
		Meta: modelMeta{Vocab: int64(tokenizer.Vocabulary), Ctx: s.Pool.Context(), CtxTrain: s.Pool.Context(), FType: "rules, no weights"},
	}
	data.Architecture.In, data.Architecture.Out = []string{"text"}, []string{"text"}
	return modelsBody{Models: []modelInfo{info}, Object: "list", Data: []modelData{data}}
}
