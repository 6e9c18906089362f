package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
)

// MaxMessage bounds what is read of a message, in bytes. loopd's own limit is
// lower and configurable (limits.message); this one only keeps a runaway pipe
// out of memory.
const MaxMessage = 2 << 20

// Message joins the words of the command line and what standard input holds:
// the words, a blank line, the input. stdin is nil if there is none to read.
func Message(words []string, stdin io.Reader) (string, error) {
	text := strings.Join(words, " ")
	if stdin != nil {
		b, err := io.ReadAll(io.LimitReader(stdin, MaxMessage+1))
		if err != nil {
			return "", &fault.Fault{What: "standard input can't be read", Err: err, Do: "give the text as an argument", Key: "message-unreadable"}
		}
		if input := strings.TrimRight(string(b), "\r\n"); strings.TrimSpace(text) == "" {
			text = input
		} else if strings.TrimSpace(input) != "" {
			text += "\n\n" + input
		}
	}
	return Check(text)
}

// Check refuses a text that can't be a message, and gives it with its line
// ends as newlines.
func Check(text string) (string, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	switch {
	case strings.TrimSpace(text) == "":
		return "", &fault.Fault{
			Code: fault.Usage, What: "the message is empty",
			Do: "give the text as an argument or on standard input", Key: "empty-message",
		}
	case len(text) > MaxMessage:
		return "", &fault.Fault{
			Code: fault.Usage, What: "the message is larger than " + term.Bytes(MaxMessage),
			Means: "so much does not fit the model's context", Do: "send a part of it", Key: "message-too-large",
		}
	case !utf8.ValidString(text):
		return "", refuse(text, "is not valid UTF-8", "convert it, for instance with: iconv -t UTF-8")
	}
	for i, r := range text {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return "", refuse(text[:i], fmt.Sprintf("holds the control character U+%04X", r),
				`take such characters out, for instance with: tr -d '\000-\010\013-\037\177'`)
		}
	}
	return text, nil
}

// refuse tells where the first thing stands that can't be sent.
func refuse(before, what, do string) error {
	valid := before
	for i, r := range before {
		if _, n := utf8.DecodeRuneInString(before[i:]); r == utf8.RuneError && n == 1 {
			valid = before[:i]
			break
		}
	}
	return &fault.Fault{
		Code: fault.Usage, What: fmt.Sprintf("the message %s, at byte %d (line %d)", what, len(valid)+1, strings.Count(valid, "\n")+1),
		Means: "nothing was sent", Do: do, Key: "message-characters",
	}
}

// ErrLeft reports that the owner left before the turn ended.
var ErrLeft = errors.New("left before the turn ended")

func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
