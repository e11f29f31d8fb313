package lifecycle

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const maxMessage = 4000 // characters, as the server counts them

// message cuts a text to what fits, at the end of a line if it can, and says how much is missing. An empty text is no
// message.
func message(text string) *string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	if text == "" {
		return nil
	}
	if utf8.RuneCountInString(text) > maxMessage {
		text = cut(text)
	}
	return &text
}

func cut(text string) string {
	const room = maxMessage - 40 // for the sentence about the rest
	all := []rune(text)
	kept := string(all[:room])
	if line := strings.LastIndexByte(kept, '\n'); line > 0 {
		kept = kept[:line]
		return fmt.Sprintf("%s\n… and %d more lines", kept, strings.Count(text[line+1:], "\n")+1)
	}
	if word := strings.LastIndexByte(kept, ' '); word > 0 {
		kept = kept[:word]
	}
	return fmt.Sprintf("%s … and %d more characters", kept, len(all)-utf8.RuneCountInString(kept))
}
