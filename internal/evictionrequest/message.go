package evictionrequest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"usher.sh/usher/internal/text"
)

const maxMessage = 4000 // characters, as the server counts them

// message cleans a text and cuts it to what fits, at the end of a line if it can, and says how much is missing. An empty text is no
// message.
func message(said string) *string {
	said = strings.TrimSpace(text.Lines(said))
	if said == "" {
		return nil
	}
	if utf8.RuneCountInString(said) > maxMessage {
		said = cut(said)
	}
	return &said
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
