package show

import (
	"regexp"
	"slices"
	"strings"

	"usher.sh/usher/internal/drain"
)

// Commands are the commands of advice as this caller must type them: by the name that
// the program was called by, and with the flags that lead to the cluster that was
// looked at; without them a command would act on whatever context is the current one.
// The zero value changes nothing.
type Commands struct {
	Program string   // usher or kubectl usher; "": usher
	Flags   []string // as a shell takes them; usher and kubectl have the same ones
}

// command finds what is meant to be copied: a program with a verb that acts on a
// cluster. What an administrator is asked to type (kubectl create) is left alone: that
// is another user's connection. A name is none: neither the namespace usher nor what
// begins like a verb.
var command = regexp.MustCompile("( -n)?" + program + "( " + verbs + ")" + wordEnd)

// What begins a command, as command and typed take it.
const (
	program = "(^|[\\s`(;])(kubectl usher|usher|kubectl)"
	verbs   = `(?:drain|evict|evictions|install|maintain|plan|uncordon|uninstall|why|annotate|cordon|delete|describe|edit|get|label|patch|rollout|scale|taint)`
	wordEnd = `([^\w-]|$)`
)

// In returns a text with its commands as this caller must type them.
func (c Commands) In(text string) string {
	if len(c.Flags) == 0 && (c.Program == "" || c.Program == "usher") {
		return text
	}
	return command.ReplaceAllStringFunc(text, func(found string) string {
		part := command.FindStringSubmatch(found)
		if part[1] != "" {
			return found
		}
		program := part[3]
		if program == "usher" && c.Program != "" {
			program = c.Program
		}
		return part[2] + strings.Join(append([]string{program}, c.Flags...), " ") + part[4] + part[5]
	})
}

// InAll is In for several texts.
func (c Commands) InAll(texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = c.In(texts[i])
	}
	return texts
}

// Blockers returns blockers with their remedies as this caller must type them.
func (c Commands) Blockers(all []drain.Blocker) []drain.Blocker {
	all = slices.Clone(all)
	for i := range all {
		all[i].Remedy = c.In(all[i].Remedy)
	}
	return all
}
