// Rolesdoc prints docs/roles.md: the built-in roles, rule by rule, in words.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/system/all"
)

const head = `# The built-in roles

<!-- Written by make generate from the roles themselves. -->

A role says what state a member holds, when it may leave its node, what its system is asked for first, what may take its place,
and what is done for a member whose node is proven off. Every rule must pass; all that do not are reported, each with its message and
a remedy. A fact that is not known does not pass. ` + "`usher roles NAME`" + ` prints the same with the expressions, ` + "`usher roles NAME -o yaml`" + ` what can be changed and written into
` + "`spec.roles`" + ` of a policy.

What ArangoDB's members may do follows its operator's rules for eviction and replacement. Where this text says more than they do, it
is to lose no data: [ArangoDB](arangodb.md#what-the-roles-follow) has it sentence by sentence.
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	roles, err := all.Roles()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprint(out, head)
	for i := range roles {
		write(out, &roles[i])
	}
	return out.Flush()
}

func write(out *bufio.Writer, r *v1alpha1.Role) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", r.Name, line(r.Description))
	fmt.Fprintf(out, "State: %s. Identity: %s. Its pod stays bound to a node that is not ready for %s, to one that is not reachable for %s.\n",
		strings.ToLower(string(r.State)), strings.ToLower(string(r.Identity)), span(r.Tolerations.NotReady), span(r.Tolerations.Unreachable))
	fmt.Fprintf(out, "\n**Eviction**%s\n", rules(r.Evict.Rules))
	for _, p := range r.Evict.Prepare {
		fmt.Fprintf(out, "\nPreparation `%s`: %s.\n", p.Name, quoted(p.Message))
	}
	if r.Replace.Successor == v1alpha1.SuccessorNone {
		fmt.Fprintf(out, "\n**Replacement**: no other member takes its place%s\n", rules(r.Replace.Rules))
	} else {
		fmt.Fprintf(out, "\n**Replacement** by %s%s\n", successors[r.Replace.Successor], rules(r.Replace.Rules))
	}
	writeLost(out, r.Lost)
}

// writeLost says what is done for a member whose node is proven off.
func writeLost(out *bufio.Writer, lost *v1alpha1.Lost) {
	if lost == nil {
		return
	}
	fmt.Fprint(out, "\n**Once its node is [proven off](policies.md#members-whose-node-is-lost)**")
	if len(lost.Prepare) == 0 {
		fmt.Fprintln(out, " its pod may be removed: nothing is to be done for it.")
		return
	}
	fmt.Fprintln(out, ":")
	for i := range lost.Prepare {
		fmt.Fprintf(out, "\nPreparation `%s`: %s.\n", lost.Prepare[i].Name, quoted(lost.Prepare[i].Message))
	}
}

func rules(rules []v1alpha1.Rule) string {
	if len(rules) == 0 {
		return ": always."
	}
	var text strings.Builder
	text.WriteString(":\n\n| rule | where it does not pass | remedy |\n| --- | --- | --- |\n")
	for _, r := range rules {
		name := "`" + r.Name + "`<br>" + r.Reason
		if r.Never {
			name += "<br>**never**"
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", name, quoted(r.Message), quoted(r.Remedy))
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// quoted shows what a message fills in, and keeps a table a table.
func quoted(text string) string {
	text = strings.NewReplacer("|", "\\|", "}}{{", "}}` `{{", "{{", "`{{", "}}", "}}`").Replace(line(text))
	return text
}

func line(text string) string { return strings.Join(strings.Fields(text), " ") }

func span(t *v1alpha1.Toleration) string {
	switch {
	case t == nil:
		return "as long as Kubernetes says"
	case t.Forever || t.Seconds == nil:
		return "ever"
	}
	return show.Span(time.Duration(*t.Seconds) * time.Second)
}

var successors = map[v1alpha1.Successor]string{
	v1alpha1.SuccessorNewIdentity:  "a member with a new identity",
	v1alpha1.SuccessorSameIdentity: "the same member with a wiped disk",
	v1alpha1.SuccessorAnyPod:       "any pod",
}
