package show

import (
	"regexp"
	"strings"
)

// piece is what a line is not broken within: a word, or a command.
type piece struct {
	text    string
	command bool // one with arguments: what only names a command is not copied
}

// typed finds where a command begins that a caller can type: as command does, and with the flags that Commands gives it.
var typed = regexp.MustCompile(program + `(?: --?[a-z][a-z-]*(?:=(?:'[^']*'|\\.|[^\s'])*)?)* (` + verbs + `)` + wordEnd)

// pieces cuts a text into what is not broken.
func pieces(s string) []piece {
	var all []piece
	words := func(text string) {
		for word := range strings.FieldsSeq(text) {
			all = append(all, piece{text: word})
		}
	}
	for {
		at := typed.FindStringSubmatchIndex(s)
		if at == nil {
			words(s)
			return all
		}
		begin := strings.LastIndexByte(s[:at[4]], ' ') + 1 // with the quote or bracket before it
		verb := at[7]                                      // where it ends
		end := verb + reach(s[verb:])
		words(s[:begin])
		all = append(all, piece{strings.TrimSpace(s[begin:end]), strings.Contains(s[verb:end], " ")})
		s = s[end:]
	}
}

// reach returns how far a command goes on after its verb: up to what ends it in a sentence. What is in single quotes belongs to
// it as it is, and so does the namespace after -n.
func reach(s string) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'' && strings.IndexByte(s[i+1:], '\'') >= 0:
			i += 1 + strings.IndexByte(s[i+1:], '\'')
		case s[i] == ' ' && prose.MatchString(s[i:]) && !strings.HasSuffix(s[:i], " -n"):
			return i
		case strings.IndexByte(",;:`)", s[i]) >= 0 && (i+1 == len(s) || s[i+1] == ' ' || s[i] == '`' || s[i] == ')'):
			return i + len(s[i:]) - len(strings.TrimLeft(s[i:], ",;:`)"))
		}
	}
	return len(s)
}

// prose begins what goes on after a command in the sentences of advice. Tenants choose names: one that only begins like prose belongs
// to the command, and so does one that nothing follows, as nothing but a name ends a sentence's part like that.
var prose = regexp.MustCompile(`^ (?:\(|(?:and|or|so|once|asks|ends|lets|lists|removes|says|shows|starts|tries|undoes) )`)
