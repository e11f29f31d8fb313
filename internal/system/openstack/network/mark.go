package network

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/text"
)

// The mark stands in the description of an agent that is being emptied, before the words that were there: it is how Usher knows its own work again,
// whichever process looks, and how no host that is being emptied gets what leaves another.
const (
	markStart = "Usher (policy "
	markEnd   = "): "
	emptying  = "what it has is moved to other agents"
	emptied   = "it has nothing, and gets nothing"
	wasDown   = ", and was disabled before"
	before    = "; "
	// longest is how many characters a description may have.
	longest = 255
)

// mark is what Usher has written into a description.
type mark struct {
	owner   string
	emptied bool
	wasDown bool
	rest    string // what was there before
}

// marked reports whether an Usher is emptying the agent, for whatever policy.
func marked(description string) bool {
	_, ok := parseMark(description)
	return ok
}

func parseMark(description string) (mark, bool) {
	after, isMark := strings.CutPrefix(description, markStart)
	owner, words, whole := strings.Cut(after, markEnd)
	if !isMark || !whole {
		return mark{}, false
	}
	m := mark{owner: owner}
	words, m.emptied = cutPrefix(words, emptied)
	if !m.emptied {
		var is bool
		if words, is = cutPrefix(words, emptying); !is {
			return mark{}, false
		}
	}
	words, m.wasDown = cutPrefix(words, wasDown)
	m.rest = strings.TrimPrefix(words, before)
	return m, true
}

func cutPrefix(s, prefix string) (after string, found bool) { return strings.CutPrefix(s, prefix) }

func (m mark) String() string {
	words := markStart + m.owner + markEnd + emptying
	if m.emptied {
		words = markStart + m.owner + markEnd + emptied
	}
	if m.wasDown {
		words += wasDown
	}
	if m.rest != "" {
		words += before + m.rest
	}
	return words
}

// Setting is how an agent is to be changed.
type Setting struct {
	Agent       string // id
	Description string
	// Up is whether it is enabled; nil: that is left as it is.
	Up *bool
}

// set is a Setting with a mark. Where Neutron would not keep the words that were there it says why not.
func (m mark) set(a *Agent, up *bool) (*Setting, string) {
	words := m.String()
	if extra := len([]rune(words)) - longest; extra > 0 {
		return nil, fmt.Sprintf("the description of the %s on %s is too long by %s for Usher to write before it that it is being emptied: shorten it: openstack network agent set --description WORDS %s",
			a.Type, text.Name(a.Host), text.Count(extra, "character"), text.ShellWord(a.ID))
	}
	return &Setting{Agent: a.ID, Description: words, Up: up}, ""
}
